"""Graphs and signals on disk, filtered in less memory than they occupy.

Edges are read in parts, as often as the method has steps. In memory are a few numbers per node for some columns of the signals
at a time.
"""

from nareg._solvers._disk.denoise import denoise
from nareg._solvers._disk.streaming import propagate

__all__ = ["denoise", "propagate"]
