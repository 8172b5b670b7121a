"""Graphs and signals in files, filtered by all ranks of MPI together, none of which holds the whole.

``nareg convert`` writes the graph to a folder; weights and signals are ``.npy`` files. Run a script, or ``nareg denoise``,
under ``mpiexec -n 4``: each rank then reads its rows, PETSc solves (``pip install 'nareg[petsc]'``), and each rank writes its
rows. All machines must see the files under the same names, on a shared file system.
"""

from nareg.cluster._denoise import denoise
from nareg.cluster._propagate import propagate

__all__ = ["denoise", "propagate"]
