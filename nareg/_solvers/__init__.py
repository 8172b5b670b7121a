"""Solvers of filter systems and the linear algebra that all parts share, one of each.

====================  ==================================================================
system                the filter system ``K = C + S``, checked and built
engines               the methods of ``filters.denoise``, and the automatic choice
backends              other libraries: torch, PETSc, vectors on disk
cg                    the one loop of conjugate gradients
passes                what that loop asks of a matrix and of vectors
iterate               the monitor that ends an iteration, and blocks of columns
multigrid, direct     levels, and a sparse factor with refinement
recursion, chebyshev  rounds that sensors can compute among themselves
factorization         sparse Cholesky factors, with the test that they are ones
eigenvalues, lanczos  extreme eigenvalues, from the same start every time
lbfgs                 the two-loop recursion, NumPy or torch
held_out              held-out columns, and whether a gain on them exceeds its error
approximate_cholesky  sparse factors that do not fill, as preconditioners
twofold               sums, products and residuals in twice the precision of float64
threads               one BLAS thread where products are small
====================  ==================================================================
"""
