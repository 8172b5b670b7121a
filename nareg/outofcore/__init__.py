"""Graphs and signals on disk: opened without reading them, and filtered in less memory than they occupy."""

from nareg._graph_files import StoredGraph

__all__ = ["StoredGraph"]
