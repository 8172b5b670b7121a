"""Graphs and signals on disk, filtered in less memory than they occupy.

``nareg convert`` (or :func:`nareg.io.convert`) writes a graph of any size to a folder, and signals to ``.npy`` files.
:func:`denoise` and :func:`propagate` then read the edges in parts, as often as the method has steps, and keep in memory a few
numbers per node for some columns of the signals at a time.
"""

from nareg._storage.graph_files import GraphWriter, StoredGraph
from nareg.outofcore._denoise import denoise
from nareg.outofcore._propagate import propagate

__all__ = ["GraphWriter", "StoredGraph", "denoise", "propagate"]
