"""The space-time model of networks too large for dense covariances: sparse precisions, conjugate gradients, samples."""
