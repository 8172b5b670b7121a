"""Graphs on disk: a folder of NumPy files from which any range of rows is read by itself (see ``layout``)."""

from nareg._storage.graph_files.layout import INDEX
from nareg._storage.graph_files.reader import Rows, StoredGraph
from nareg._storage.graph_files.writer import GraphWriter, save

__all__ = ["INDEX", "GraphWriter", "Rows", "StoredGraph", "save"]
