"""Filter systems distributed by rows over the ranks of MPI, solved by PETSc.

``ranks`` opens PETSc and keeps the ranks together, ``matrices`` builds K by rows, ``krylov`` and ``factor`` solve,
``choice`` picks the method and is the backend for a graph that every rank holds whole, ``stored`` for one in files.
"""
