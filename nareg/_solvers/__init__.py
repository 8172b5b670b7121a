"""Linear algebra that all wings share, one of each.

====================  ==================================================================
factorization         sparse Cholesky factors, with the test that they are ones
eigenvalues           extreme eigenvalues, from the same start every time
conjugate_gradients   for operators on many columns, NumPy or torch
lbfgs                 the two-loop recursion, NumPy or torch
held_out              held-out columns, and whether a gain on them exceeds its error
approximate_cholesky  sparse factors that do not fill, as preconditioners
twofold               sums, products and residuals in twice the precision of float64
threads               one BLAS thread where products are small
====================  ==================================================================
"""
