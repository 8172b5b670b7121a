"""The graph: frozen, sparse, validated.

Conventions, written once and followed everywhere
-------------------------------------------------
* A graph is simple, undirected and weighted: ``A`` is symmetric with finite non-negative entries and a
  zero diagonal. An entry that is stored but zero is no edge and is dropped.
* No builder symmetrizes silently. :meth:`Graph.from_knn` joins i and j when either is among the other's k nearest; every
  other builder refuses an asymmetric input.
* Four Laplacians, with ``D = diag(A 1)``; the row of an isolated node is zero in each, so that a filter
  leaves an isolated node's reading as it is:

  ===================  ==============================================================================
  ``"combinatorial"``  ``D - A``
  ``"normalized"``     ``I - D^-1/2 A D^-1/2`` on nodes with neighbors
  ``"augmented"``      ``I - (D + I)^-1/2 (A + I) (D + I)^-1/2``: the normalized one of the graph with
                       a self-loop of weight one at every node, as graph neural networks use it
  ``"random-walk"``    ``I - D^-1 A`` on nodes with neighbors: not symmetric; its eigenvalues are those of
                       the normalized one, and each row says by how much a node exceeds its neighbors' mean
  ===================  ==============================================================================
* ``x^T L x = 1/2 sum_ij A_ij (x_i - x_j)^2``: every edge counts once.
* A graph may have isolated nodes and several components; an operation that cannot work on them says so.
* On the sphere, coordinates are (latitude, longitude) in degrees and distances are in kilometers.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import scipy.sparse as sp

from nareg._core import adjacency as _adjacency
from nareg._core import checks, conversions
from nareg._core.adjacency import node_indices as node_indices
from nareg._core.adjacency import operator_hash as operator_hash
from nareg._core.conversions import METRICS, Kernel
from nareg._storage import graph_writer
from nareg._storage.graph_files import StoredGraph
from nareg.errors import InputError, TooLargeError, read_errors

if TYPE_CHECKING:
    import networkx
    import pygsp
    import torch
    from numpy.typing import DTypeLike

    from nareg.typing import ArrayLike, Sparse

#: Laplacians that :meth:`Graph.laplacian` offers.
LAPLACIANS = ("combinatorial", "normalized", "augmented", "random-walk")


class Graph:
    """An undirected weighted graph that cannot be changed.

    Parameters
    ----------
    adjacency : (N, N) array, sparse matrix or frame
        Symmetric, non-negative, finite, zero diagonal. Columns of a frame are put in the order of its rows.
    coordinates : (N, d) array, optional
        Node positions, or latitude and longitude in degrees.
    names : sequence of N distinct strings, optional
        Station names. Default: the labels of a frame's rows where they are texts, as in the other constructors.
    metric : {"euclidean", "haversine"}
        Distance in the coordinates' unit, or on the sphere in kilometers.

    Raises
    ------
    InputError
        If the adjacency is empty, not square, asymmetric, negative, not finite, or has self-loops, or if
        coordinates or names do not fit it.

    Examples
    --------
    >>> import nareg
    >>> g = nareg.Graph([[0, 2, 0], [2, 0, 1], [0, 1, 0]])
    >>> g
    Graph(n_nodes=3, n_edges=2)
    >>> g.laplacian().toarray()
    array([[ 2., -2.,  0.],
           [-2.,  3., -1.],
           [ 0., -1.,  1.]])
    """

    __slots__ = ("__weakref__", "_adjacency", "_cache", "_coordinates", "_metric", "_names")

    def __init__(
        self,
        adjacency: ArrayLike | Sparse,
        *,
        coordinates: ArrayLike | None = None,
        names: Sequence[str] | None = None,
        metric: str = "euclidean",
    ) -> None:
        adjacency, rows = conversions.labeled("adjacency", adjacency, square=True)
        matrix = _adjacency.checked(adjacency)
        n, names = matrix.shape[0], rows if names is None else names
        self._adjacency = _adjacency.read_only(matrix)
        self._cache: dict[str, Any] = {}
        self._coordinates: np.ndarray | None = None
        self._names: tuple[str, ...] | None = None
        self._metric = checks.choice("metric", metric, METRICS)
        if coordinates is not None:
            points = checks.floats("coordinates", coordinates, ndim=(2,)).astype(np.float64)
            if points.shape[0] != n:
                raise InputError(f"coordinates has {points.shape[0]} rows but the graph has {n} nodes: pass one row per node.")
            points.flags.writeable = False
            self._coordinates = points
        if names is not None:
            if isinstance(names, str) or not hasattr(names, "__iter__"):
                raise InputError(f"names is {names!r}: pass a sequence of {n} strings.")
            labels = tuple(names)
            if len(labels) != n:
                raise InputError(f"names has {len(labels)} entries but the graph has {n} nodes: pass one per node.")
            if not all(isinstance(label, str) for label in labels):
                raise InputError("names must be strings: pass [str(name) for name in names].")
            if len(set(labels)) != n:
                twice = next(label for label in labels if labels.count(label) > 1)
                raise InputError(f"names has {twice!r} more than once: pass distinct names.")
            self._names = labels

    @property
    def adjacency(self) -> sp.csr_array:
        """Weighted adjacency ``A``, (N, N) CSR, float64; its arrays are read-only (copy to change)."""
        return self._adjacency

    @property
    def coordinates(self) -> np.ndarray | None:
        """(N, d) positions, or None."""
        return self._coordinates

    @property
    def metric(self) -> str:
        """Distance between positions: ``"euclidean"`` or ``"haversine"``."""
        return self._metric

    @property
    def names(self) -> tuple[str, ...] | None:
        """Node names, or None."""
        return self._names

    @property
    def n_nodes(self) -> int:
        """Number of nodes N."""
        return int(self._adjacency.shape[0])

    @property
    def n_edges(self) -> int:
        """Number of undirected edges M."""
        return int(self._adjacency.nnz // 2)

    @property
    def degrees(self) -> np.ndarray:
        """Weighted degrees ``A 1``, (N,)."""
        return np.asarray(self._adjacency.sum(axis=1)).ravel()

    @property
    def components(self) -> np.ndarray:
        """Label of each node's connected component, (N,) integers from 0."""
        if "components" not in self._cache:
            from scipy.sparse.csgraph import connected_components  # imported here: it would slow `import nareg`

            # csgraph wants writable buffers, ours are read-only
            labels = connected_components(self._adjacency.copy(), directed=False)[1]
            labels.setflags(write=False)
            self._cache["components"] = labels
        return self._cache["components"]

    @property
    def is_connected(self) -> bool:
        """Whether there is a path between any two nodes."""
        return bool(self.components.max() == 0)

    @property
    def hash(self) -> str:
        """Hash of the weighted adjacency; graphs with the same edges and weights have the same hash."""
        return operator_hash(self._adjacency)

    def laplacian(
        self, kind: Literal["combinatorial", "normalized", "augmented", "random-walk"] = "combinatorial"
    ) -> sp.csr_array:
        """Graph Laplacian: symmetric positive semidefinite, but for ``"random-walk"``.

        Parameters
        ----------
        kind : {"combinatorial", "normalized", "augmented", "random-walk"}
            ``D - A``; ``I - D^-1/2 A D^-1/2``; ``I - (D + I)^-1/2 (A + I) (D + I)^-1/2``, which gives every node a
            self-loop of weight one; or ``I - D^-1 A``. Rows of isolated nodes are zero.

            The random-walk Laplacian is not symmetric. Filters, designs, baselines and :mod:`nareg.spectral` refuse it:
            they take the normalized one, which has the same eigenvalues.

        Returns
        -------
        (N, N) CSR array, float64
            Its arrays are read-only: copy to change.

        Examples
        --------
        >>> import nareg
        >>> g = nareg.Graph([[0, 1], [1, 0]])
        >>> g.laplacian("normalized").toarray()
        array([[ 1., -1.],
               [-1.,  1.]])
        >>> g.laplacian("augmented").toarray().round(3)
        array([[ 0.5, -0.5],
               [-0.5,  0.5]])
        >>> nareg.graphs.grid((3,)).laplacian("random-walk").toarray()
        array([[ 1. , -1. ,  0. ],
               [-0.5,  1. , -0.5],
               [ 0. , -1. ,  1. ]])
        """
        checks.choice("kind", kind, LAPLACIANS)
        if kind not in self._cache:
            self._cache[kind] = _adjacency.read_only(_adjacency.laplacian(self._adjacency, self.degrees, kind))
        return self._cache[kind]

    def subgraph(self, nodes: ArrayLike) -> Graph:
        """The graph of some nodes and the edges between them, with their coordinates and names.

        Parameters
        ----------
        nodes : (N,) bool array or series, or sequence of distinct int
            The nodes, in the order of the new graph. A mask whose labels are the graph's names may be in any order.

        Examples
        --------
        >>> import nareg
        >>> nareg.graphs.grid((2, 3)).subgraph([0, 1, 2])
        Graph(n_nodes=3, n_edges=2)
        """
        if str(getattr(nodes, "dtype", "")) == "bool":
            nodes = conversions.by_names(nodes, self._names)
        index = node_indices("nodes", nodes, self.n_nodes)
        return Graph(
            self._adjacency[index][:, index],
            coordinates=None if self._coordinates is None else self._coordinates[index],
            names=None if self._names is None else [self._names[i] for i in index],
            metric=self._metric,
        )

    def save(self, path: str | os.PathLike[str], *, dtype: DTypeLike = np.float64) -> None:
        """Write the graph to a folder from which any range of rows is read by itself: see :class:`nareg.io.StoredGraph`.

        Parameters
        ----------
        path : path
            The folder, by convention ``NAME.graph``. A graph that is there is replaced; anything else is refused.
        dtype : {float64, float32}
            Type of the stored weights. Weights that are all one are not stored.

        Raises
        ------
        InputError
            If the folder cannot be written, or a weight is beyond float32.

        Examples
        --------
        >>> import pathlib, tempfile, nareg
        >>> folder = pathlib.Path(tempfile.mkdtemp()) / "path.graph"
        >>> nareg.graphs.grid((3,)).save(folder)
        >>> nareg.Graph.load(folder)
        Graph(n_nodes=3, n_edges=2)
        """
        graph_writer.save(
            path, self._adjacency, dtype=dtype, metric=self._metric, coordinates=self._coordinates, names=self._names
        )

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Graph:
        """Read a graph that :meth:`save` or ``nareg convert`` wrote into memory.

        Raises
        ------
        InputError
            If a file of the folder is missing, cut off or damaged.
        TooLargeError
            If it does not fit into memory: then pass the folder to :func:`nareg.filters.denoise`.
        """
        stored = StoredGraph(path)
        with read_errors(f"{path} is damaged", "convert again", passed=TooLargeError):
            return cls(stored.adjacency(), coordinates=stored.coordinates, names=stored.names, metric=stored.metric)

    def describe_node(self, i: int) -> str:
        """The node as messages name it.

        Examples
        --------
        >>> import nareg
        >>> nareg.Graph([[0, 1], [1, 0]], names=["BREST", "LORIENT"]).describe_node(0)
        "node 0 ('BREST')"
        """
        return f"node {i}" + (f" ({self._names[i]!r})" if self._names else "")

    def __repr__(self) -> str:
        return f"Graph(n_nodes={self.n_nodes}, n_edges={self.n_edges})"

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Graph):
            return NotImplemented
        mine, theirs = self._coordinates, other._coordinates
        same_place = mine is theirs if mine is None or theirs is None else np.array_equal(mine, theirs)
        return (
            self.n_nodes == other.n_nodes
            and (self._adjacency != other._adjacency).nnz == 0
            and self._names == other._names
            and self._metric == other._metric
            and same_place
        )

    def __hash__(self) -> int:
        return hash(self.hash)

    def __deepcopy__(self, memo: dict[int, Any]) -> Graph:
        return self  # it cannot be changed

    def __reduce__(self) -> tuple[Any, ...]:
        # through the constructor, so that a copy in another process is checked and cannot be changed either
        return partial(Graph, coordinates=self._coordinates, names=self._names, metric=self._metric), (self._adjacency,)

    @classmethod
    def from_knn(
        cls,
        coordinates: ArrayLike,
        k: int,
        *,
        metric: str = "euclidean",
        kernel: str | Kernel = "gaussian",
        scale: float | None = None,
        names: Sequence[str] | None = None,
    ) -> Graph:
        """Join each node with its k nearest neighbors; one of i and j that has the other joins both.

        Parameters
        ----------
        coordinates : (N, d) array
            Positions; for ``metric="haversine"`` (N, 2) latitude and longitude in degrees.
        k : int
            Neighbors per node, below N.
        metric : {"euclidean", "haversine"}
            Distance in the coordinates' unit, or great-circle distance in kilometers.
        kernel : {"gaussian", "self-tuning"} or callable
            ``exp(-(d / scale)^2)``; ``exp(-d^2 / (s_i s_j))`` with ``s_i`` the distance from i to its k-th
            neighbor; or a function that maps an array of distances to positive weights.
        scale : float, optional
            Length scale of the Gaussian kernel in the unit of the distance. Default: the mean distance
            over all (node, neighbor) pairs.
        names : sequence of str, optional
            Node names.

        Raises
        ------
        InputError
            If k is not in 1 .. N - 1, a latitude is beyond 90 degrees, the scale is not positive, or the kernel gives a
            weight that is zero, negative or not finite.

        Examples
        --------
        >>> import nareg
        >>> nareg.Graph.from_knn([[0.0, 0.0], [1.0, 0.0], [3.0, 0.0]], k=1)
        Graph(n_nodes=3, n_edges=2)
        """
        _, rows = conversions.labeled("coordinates", coordinates)
        parts = conversions.nearest_neighbors(coordinates, k, metric, kernel, scale)
        return cls(**parts, names=rows if names is None else names, metric=metric)

    @classmethod
    def from_distances(
        cls,
        distances: ArrayLike,
        k: int,
        *,
        kernel: str | Kernel = "gaussian",
        scale: float | None = None,
        names: Sequence[str] | None = None,
    ) -> Graph:
        """Join each node with its k nearest by a matrix of distances, where coordinates are not known.

        Parameters
        ----------
        distances : (N, N) array
            Symmetric, non-negative, finite, zero diagonal; in any unit.
        k : int
            Neighbors per node, below N. Of nodes at the same distance the first comes first.
        kernel : {"gaussian", "self-tuning"} or callable
            As in :meth:`from_knn`.
        scale : float, optional
            Length scale of the Gaussian kernel in the unit of the distances. Default: the mean distance
            over all (node, neighbor) pairs.
        names : sequence of str, optional
            Node names.

        Raises
        ------
        InputError
            If the matrix is not one of distances, k is not in 1 .. N - 1, the scale is not positive, or the kernel gives a
            weight that is zero, negative or not finite.

        Examples
        --------
        >>> import nareg
        >>> nareg.Graph.from_distances([[0, 1, 3], [1, 0, 2], [3, 2, 0]], k=1)
        Graph(n_nodes=3, n_edges=2)
        """
        distances, rows = conversions.labeled("distances", distances, square=True)
        return cls(**conversions.nearest_of_distances(distances, k, kernel, scale), names=rows if names is None else names)

    @classmethod
    def from_networkx(cls, graph: networkx.Graph) -> Graph:
        """Convert an undirected networkx graph: edge attribute ``weight`` (1 if absent), node attribute ``pos``.

        Node labels become names, as strings; labels 0 .. N - 1 in order do not.

        Examples
        --------
        >>> import networkx as nx, nareg
        >>> nareg.Graph.from_networkx(nx.path_graph(["a", "b", "c"])).names
        ('a', 'b', 'c')
        """
        return cls(**conversions.from_networkx(graph))

    def to_networkx(self) -> networkx.Graph:
        """Convert to a networkx graph: nodes are the names (or 0 .. N - 1), attributes ``weight`` and ``pos``.

        Examples
        --------
        >>> import nareg
        >>> sorted(nareg.graphs.grid((3,)).to_networkx().edges)
        [(0, 1), (1, 2)]
        """
        return conversions.to_networkx(self._adjacency, self._coordinates, self._names)

    @classmethod
    def from_pygsp(cls, graph: pygsp.graphs.Graph) -> Graph:
        """Convert an undirected PyGSP graph: its ``W`` and ``coords``.

        Its ``lap_type`` must be ``"combinatorial"``. A nareg graph has every Laplacian and no ``lap_type`` of its own, and
        filters would not use the one of the PyGSP graph.
        """
        return cls(**conversions.from_pygsp(graph))

    def to_pygsp(self) -> pygsp.graphs.Graph:
        """Convert to a ``pygsp.graphs.Graph`` with the same weights and coordinates (PyGSP has no node names)."""
        return conversions.to_pygsp(self._adjacency, self._coordinates)

    @classmethod
    def from_edge_index(
        cls,
        edge_index: ArrayLike | torch.Tensor,
        *,
        n_nodes: int | None = None,
        edge_weight: ArrayLike | torch.Tensor | None = None,
    ) -> Graph:
        """Convert PyTorch Geometric's ``edge_index`` (2, 2M), which lists both directions of every edge.

        Parameters
        ----------
        edge_index : (2, 2M) integer array or tensor
        n_nodes : int, optional
            Default: the largest index plus one.
        edge_weight : (2M,) array or tensor, optional
            Default: ones.

        Examples
        --------
        >>> import nareg
        >>> nareg.Graph.from_edge_index([[0, 1], [1, 0]], n_nodes=3)
        Graph(n_nodes=3, n_edges=1)
        """
        return cls(conversions.from_edge_index(edge_index, n_nodes, edge_weight))

    def to_edge_index(self) -> tuple[np.ndarray, np.ndarray]:
        """Convert to PyTorch Geometric's edges.

        Returns
        -------
        edge_index : (2, 2M) int64 array
            Both directions of every edge, in row order.
        edge_weight : (2M,) float64 array

        Examples
        --------
        >>> import nareg
        >>> nareg.graphs.grid((2,)).to_edge_index()
        (array([[0, 1],
               [1, 0]]), array([1., 1.]))
        """
        coo = self._adjacency.tocoo()
        return np.vstack(coo.coords).astype(np.int64), coo.data.copy()
