"""Solvers of filter systems and the linear algebra that all parts share.

====================  ==================================================================
system                the filter system ``K = C + S``, checked and built
engines, costs        the methods of ``filters.denoise``, and the automatic choice
backends              other libraries: ``_torch``, ``_petsc``, and ``_disk`` for vectors in files
cg                    the loop of conjugate gradients of all filters, networks and models
passes, kernels       what that loop asks of a matrix and of vectors, and compiled ones
iterate               the monitor that ends an iteration, and blocks of columns
multigrid             levels, and a cycle through them
recursion             rounds that sensors can compute among themselves
direct                a sparse factor, refined where K leaves float64
sequence              solves while the weights change, with a factor or levels of earlier ones
factorization         sparse Cholesky factors, with the test that they are ones
approximate_cholesky  sparse factors that do not fill, as preconditioners
eigenvalues, lanczos  extreme eigenvalues, from the same start every time
lbfgs                 the two-loop recursion, NumPy or torch
search                levels of a search through a graph
held_out              whether a gain on held-out columns exceeds its error
tall_products         products of tall matrices with a few columns, in compiled loops
twofold               elimination without subtraction, residuals in twice the precision of float64
threads               one BLAS thread where products are small
====================  ==================================================================
"""
