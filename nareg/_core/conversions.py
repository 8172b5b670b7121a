"""Where graphs come from and go to: nearest neighbors, networkx, PyGSP, PyTorch Geometric.

What comes from outside is checked here and returned as arguments of :class:`nareg.graph.Graph`.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse as sp

from nareg._core import checks, sparse_checks
from nareg._core.arrays import as_numpy
from nareg._core.neighbors import nearest
from nareg.errors import InputError, MissingDependencyError

if TYPE_CHECKING:
    import networkx
    import pygsp

Kernel = Callable[[np.ndarray], np.ndarray]

#: Ways to measure how far two positions are apart.
METRICS = ("euclidean", "haversine")


def labeled(name: str, value: Any, *, square: bool = False) -> tuple[Any, list[str] | None]:
    """A frame's numbers, and its row labels where they are texts; columns of a square one in the order of its rows."""
    if not (hasattr(value, "columns") and hasattr(value, "index")):
        return value, None
    rows, columns = list(value.index), list(value.columns)
    named = all(isinstance(row, str) for row in rows)
    if square and columns != rows:
        if len(set(rows)) == len(rows) == len(columns) and set(columns) == set(rows):
            value = value[rows]
        elif named and all(isinstance(column, str) for column in columns):
            alone = min(set(rows) ^ set(columns), default=rows[0])
            raise InputError(f"{name} has a row or a column {alone!r}, but not one of each: label both alike.")
    return value.to_numpy(), rows if named else None


def by_names(values: Any, names: tuple[str, ...] | None) -> Any:
    """A series whose labels are these names as an array in their order; anything else as it is."""
    if names is None or not hasattr(values, "to_numpy") or not hasattr(values, "index"):
        return values
    place = {str(label): i for i, label in enumerate(values.index)}
    return values.to_numpy()[[place[name] for name in names]] if place.keys() == set(names) else values


def nearest_neighbors(coordinates: Any, k: int, metric: str, kernel: str | Kernel, scale: float | None) -> dict[str, Any]:
    """Adjacency that joins each node with its k nearest, and the checked coordinates."""
    points = checks.floats("coordinates", coordinates, ndim=(2,)).astype(np.float64)
    columns = [str(column).lower() for column in getattr(coordinates, "columns", ())]
    if metric == "haversine" and len(columns) == 2 and columns[0].startswith(("lon", "lng")):
        first, second = coordinates.columns
        raise InputError(f"coordinates has the columns {first!r}, {second!r}: pass latitude first, then longitude.")
    n = points.shape[0]
    if points.shape[1] == 0 or n < 2:
        raise InputError(f"coordinates has shape {points.shape}: pass at least two nodes with coordinates.")
    k = _checked_k(k, n)
    _check_scale(kernel, scale)
    metric = checks.choice("metric", metric, METRICS)
    neighbors, distances = nearest(points, k, metric)
    return {"adjacency": _joined(neighbors, distances, kernel, scale), "coordinates": points}


def nearest_of_distances(distances: Any, k: int, kernel: str | Kernel, scale: float | None) -> dict[str, Any]:
    """Adjacency that joins each node with the k at the smallest distances, in a checked (N, N) matrix."""
    D = checks.floats("distances", distances, ndim=(2,)).astype(np.float64)
    n = D.shape[0]
    if D.shape != (n, n) or n < 2:
        raise InputError(f"distances has shape {D.shape}: pass an (N, N) matrix of at least two nodes.")
    k = _checked_k(k, n)
    _check_scale(kernel, scale)
    for wrong, why in (
        (D < 0, "a distance is not negative"),
        ((D != 0) & np.eye(n, dtype=bool), "a node is at distance 0 from itself"),
        (~np.isclose(D, D.T, rtol=1e-9, atol=0), "the matrix must be symmetric: pass (D + D.T) / 2"),
    ):
        if wrong.any():
            i, j = np.argwhere(wrong)[0]
            raise InputError(f"distances[{i}, {j}] is {D[i, j]:g}: {why}.")
    others = D + np.diag(np.full(n, np.inf))
    neighbors = np.argsort(others, axis=1, kind="stable")[:, :k]
    return {"adjacency": _joined(neighbors, np.take_along_axis(D, neighbors, axis=1), kernel, scale)}


def _checked_k(k: Any, n: int) -> int:
    k = checks.integer("k", k, low=1)
    if k >= n:
        raise InputError(f"k is {k} but there are {n} nodes: choose k from 1 to {n - 1}.")
    return k


def _check_scale(kernel: str | Kernel, scale: float | None) -> None:
    if scale is not None and kernel != "gaussian":
        raise InputError(f"scale is {scale!r} but only kernel='gaussian' has one: omit it.")


def _joined(neighbors: np.ndarray, distances: np.ndarray, kernel: str | Kernel, scale: float | None) -> sp.csr_array:
    """Adjacency of each node and its neighbors (N, k) at these distances."""
    n, k = neighbors.shape
    rows = np.repeat(np.arange(n), k)
    cols, d = neighbors.ravel(), distances.ravel()
    if callable(kernel):
        weights = np.asarray(kernel(d.copy()), dtype=np.float64)
        if weights.shape != d.shape:
            raise InputError(f"kernel returned shape {weights.shape} for {d.shape} distances: return one weight per distance.")
    elif checks.choice("kernel", kernel, ("gaussian", "self-tuning")) == "gaussian":
        length = float(d.mean()) if scale is None else checks.number("scale", scale, low=0, strict=True)
        # all points in one place: any length gives weight one
        weights = np.exp(-((d / (length or 1.0)) ** 2))
    else:
        local = np.maximum(distances[:, -1], np.finfo(float).tiny)
        weights = np.exp(-(d / local[rows]) * (d / local[cols]))
    bad = ~np.isfinite(weights) | (weights <= 0)
    if bad.any():
        e = int(np.flatnonzero(bad)[0])
        raise InputError(
            f"kernel gives weight {weights[e]:g} to the edge between nodes {rows[e]} and {cols[e]} at distance "
            f"{d[e]:g}: choose a larger scale or another kernel."
        )
    directed = sp.csr_array((weights, (rows, cols)), shape=(n, n))
    return directed.maximum(directed.T)


def from_networkx(graph: Any) -> dict[str, Any]:
    """Adjacency, coordinates and names of a networkx graph."""
    import networkx as nx

    if not isinstance(graph, nx.Graph):
        raise InputError(f"graph is a {type(graph).__name__}: pass a networkx.Graph.")
    if graph.is_directed() or graph.is_multigraph():
        raise InputError("graph is a directed or multigraph: pass graph.to_undirected() or networkx.Graph(graph).")
    labels: list[Hashable] = list(graph.nodes)
    if not labels:
        raise InputError("graph has no nodes: pass one with at least one node.")
    # a given weight of zero would vanish in the sparse matrix just as no edge does: same convention
    try:
        matrix = nx.to_scipy_sparse_array(graph, weight="weight", dtype=float, format="csr")
    except (TypeError, ValueError) as error:
        raise InputError(f"graph has an edge whose 'weight' is not a real number ({error}): set it to a number.") from None
    positions = [graph.nodes[label].get("pos") for label in labels]
    plain = labels == list(range(len(labels)))
    return {
        "adjacency": matrix,
        "coordinates": None if any(p is None for p in positions) else checks.floats("pos", positions, ndim=(2,)),
        "names": None if plain else [str(label) for label in labels],
    }


def to_networkx(adjacency: sp.csr_array, coordinates: np.ndarray | None, names: tuple[str, ...] | None) -> networkx.Graph:
    """A networkx graph with the attributes ``weight`` and ``pos``."""
    import networkx as nx

    result = nx.from_scipy_sparse_array(adjacency)
    if coordinates is not None:
        nx.set_node_attributes(result, {i: tuple(map(float, p)) for i, p in enumerate(coordinates)}, "pos")
    if names is not None:
        result = nx.relabel_nodes(result, dict(enumerate(names)))
    return result


def from_pygsp(graph: Any) -> dict[str, Any]:
    """Adjacency and coordinates of a PyGSP graph."""
    if not all(hasattr(graph, part) for part in ("W", "is_directed")):
        raise InputError(f"graph is a {type(graph).__name__}: pass a pygsp.graphs.Graph.")
    if graph.is_directed():
        raise InputError("graph is directed: symmetrize its W first.")
    kind = getattr(graph, "lap_type", "combinatorial")
    if kind != "combinatorial":
        raise InputError(
            f"graph has lap_type={kind!r}, which a nareg.Graph does not carry: pass graph.L instead of a graph, or "
            "nareg.Graph(graph.W).laplacian('normalized')."
        )
    coordinates = getattr(graph, "coords", None)
    return {"adjacency": graph.W, "coordinates": coordinates if coordinates is not None and len(coordinates) else None}


def to_pygsp(adjacency: sp.csr_array, coordinates: np.ndarray | None) -> pygsp.graphs.Graph:
    """A PyGSP graph."""
    try:
        from pygsp import graphs
    except ImportError:
        raise MissingDependencyError("to_pygsp needs PyGSP: pip install 'nareg[pygsp]'.") from None
    return graphs.Graph(sp.csr_matrix(adjacency.copy()), coords=coordinates)


def from_edge_index(edge_index: Any, n_nodes: int | None, edge_weight: Any) -> sp.csr_array:
    """Adjacency of an ``edge_index`` with both directions of every edge."""
    if n_nodes is not None:
        n_nodes = checks.integer("n_nodes", n_nodes, low=1)
    matrix = sparse_checks.edge_list(as_numpy(edge_index), n_nodes, edge_weight)
    if matrix.shape[0] == 0:
        raise InputError("edge_index is empty: pass n_nodes.")
    loops = np.flatnonzero(matrix.diagonal())
    if loops.size:
        raise InputError(
            f"edge_index has a self-loop at node {loops[0]}: leave self-loops out (torch_geometric.utils.remove_self_loops)."
        )
    pattern = sp.csr_array((np.ones(matrix.nnz), matrix.indices, matrix.indptr), shape=matrix.shape)
    one_way = sp.coo_array(pattern - pattern.multiply(pattern.T))
    one_way.eliminate_zeros()
    if one_way.nnz:
        i, j = (int(part[0]) for part in one_way.coords)
        raise InputError(
            f"edge_index has an edge from node {i} to {j} but none back: list both (torch_geometric.utils.to_undirected)."
        )
    return matrix
