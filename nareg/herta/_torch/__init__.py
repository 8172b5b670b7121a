"""Preconditioning inside a user's own PyTorch loop: optimizers, Gauss-Newton, attention."""
