"""Raw files of each source to the arrays of a prepared file: graphs whose nodes have classes, and station networks."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp
from scipy.sparse.csgraph import connected_components

from nareg._core.adjacency import undirected
from nareg._storage.array_files import open_npz, read_npz, refuse_expanding
from nareg._storage.sparse_files import csr
from nareg._storage.sparse_files import read_npz as read_sparse
from nareg.datasets._pickles import read_pickle

Arrays = dict[str, np.ndarray]


def simple(edges: np.ndarray, n_nodes: int) -> sp.csr_array:
    """Adjacency (N, N) of ones: i and j are joined where a row (i, j) or (j, i) of edges (E, 2) joins them; no self-loops."""
    if edges.ndim != 2 or edges.shape[1] != 2 or (edges.size and not 0 <= edges.min() <= edges.max() < n_nodes):
        raise ValueError(f"an edge of shape {edges.shape[1:]} or beyond the {n_nodes} nodes")
    return undirected(edges[edges[:, 0] != edges[:, 1]].T, n_nodes)


def parts(name: str, matrix: Any, dtype: Any) -> Arrays:
    """A matrix as the arrays ``name_data, name_indices, name_indptr, name_shape``, rows in order, without stored zeros."""
    matrix = sp.csr_array(matrix)
    matrix.sum_duplicates()
    matrix.eliminate_zeros()
    return {
        f"{name}_data": matrix.data.astype(dtype),
        f"{name}_indices": matrix.indices.astype(np.int32),
        f"{name}_indptr": matrix.indptr.astype(np.int32),
        f"{name}_shape": np.array(matrix.shape, dtype=np.int64),
    }


def smallest(values: np.ndarray) -> Any:
    """The type that counts are stored in: uint8 where it holds them all, else float32."""
    fits = values.size == 0 or (values.min() >= 0 and values.max() <= 255 and (values == np.round(values)).all())
    return np.uint8 if fits else np.float32


def class_count(labels: np.ndarray) -> np.ndarray:
    """Number of classes, as a file stores it."""
    return np.array(int(labels.max()) + 1, dtype=np.int64)


#: Node, features, class; and pairs of nodes. Both with a header, columns apart by tabs.
GEOM_NODES, GEOM_EDGES = "out1_node_feature_label.txt", "out1_graph_edges.txt"
GEOM_SPLITS = 10
#: Features of Actor, which lists the numbers of those that a node has; the others write a 0 or 1 for each.
ACTOR_FEATURES = 932


def geom_split_file(name: str, number: int) -> str:
    """Name of a file with masks, which the authors call 0.6_0.2 and which hold 48 and 32 %."""
    return f"{name}_split_0.6_0.2_{number}.npz"


def geom_gcn(name: str, raw: Path) -> Arrays:
    """The prepared arrays of the files of a graph, by the name that the source gives it."""
    nodes = [line.split("\t") for line in _rows_below_header(raw / GEOM_NODES)]
    numbers = np.array([int(node) for node, _, _ in nodes])
    n_nodes = numbers.size
    if not np.array_equal(np.sort(numbers), np.arange(n_nodes)):
        raise ValueError(f"{GEOM_NODES} does not list the nodes 0 to {n_nodes - 1}, each once")
    labels = np.empty(n_nodes, dtype=np.int64)
    labels[numbers] = [int(label) for _, _, label in nodes]
    lists = [np.array(words.split(","), dtype=np.int64) for _, words, _ in nodes]
    if name == "film":
        i, j, width = np.repeat(numbers, [words.size for words in lists]), np.concatenate(lists), ACTOR_FEATURES
    else:
        table = np.stack(lists)
        row, j = np.nonzero(table)
        i, width = numbers[row], table.shape[1]
    if j.size and not 0 <= j.min() <= j.max() < width:
        raise ValueError(f"{GEOM_NODES} has a feature beyond {width}")
    features = sp.csr_array((np.ones(i.size), (i, j)), shape=(n_nodes, width))
    features.data[:] = 1  # features that are listed twice were added
    edges = np.array([line.split("\t") for line in _rows_below_header(raw / GEOM_EDGES)], dtype=np.int64)
    masks = [read_npz(raw / geom_split_file(name, k)) for k in range(GEOM_SPLITS)]
    stacked = {part: np.stack([mask[f"{part}_mask"].astype(bool) for mask in masks]) for part in ("train", "val", "test")}
    return {
        "directed_edges": np.unique(edges, axis=0).astype(np.int32),
        **parts("adj", simple(edges, n_nodes), np.uint8),
        **parts("x", features, np.uint8),
        "y": labels,
        **{f"{part}_masks": mask for part, mask in stacked.items()},
        "num_classes": class_count(labels),
    }


def _rows_below_header(path: Path) -> list[str]:
    """Lines below the header."""
    return path.read_text(encoding="utf-8").splitlines()[1:]


#: Files of a graph: features and classes of the training, test and all other nodes, neighbors, numbers of the test nodes.
PLANETOID_PARTS = ("x", "tx", "allx", "y", "ty", "ally", "graph", "test.index")
#: Validation nodes: those after the training nodes.
PLANETOID_VALIDATION = 500


def planetoid(name: str, raw: Path) -> Arrays:
    """The prepared arrays of the files ``ind.NAME.*`` in a folder.

    The rows of ``allx`` come first, then the test nodes in rising order, to which the file ``test.index`` gives the rows of
    ``tx``. Citeseer lacks rows for some numbers in that range: these nodes get no feature, class 0, and no part in the split.
    """
    x, y, tx, ty, allx, ally, neighbors = (read_pickle(raw / f"ind.{name}.{part}") for part in _PICKLED)
    listed = np.array((raw / f"ind.{name}.test.index").read_text().split(), dtype=np.int64)
    first, n_nodes = allx.shape[0], int(listed.max()) + 1
    if listed.size != tx.shape[0] or listed.min() < first or np.unique(listed).size != listed.size:
        raise ValueError(f"test.index lists {listed.size} nodes from {listed.min()} on for {tx.shape[0]} rows after {first}")
    if sorted(neighbors) != list(range(n_nodes)):
        raise ValueError(f"{len(neighbors)} nodes have neighbors, {n_nodes} are expected")
    place = sp.csr_array(
        (np.ones(listed.size, tx.dtype), (listed - first, np.arange(listed.size))), (n_nodes - first, listed.size)
    )
    features = sp.vstack([allx, place @ tx], format="csr")
    classes = np.zeros((n_nodes, ally.shape[1]), dtype=np.int64)
    classes[:first], classes[listed] = ally, ty
    labels = classes.argmax(axis=1)
    if not (np.array_equal(classes[: y.shape[0]], y) and (x != allx[: x.shape[0]]).nnz == 0):
        raise ValueError("the training nodes are not the first rows of allx and ally")
    edges = [(node, other) for node, others in neighbors.items() for other in others]
    n_train = x.shape[0]
    return {
        **parts("adj", simple(np.array(edges, dtype=np.int64), n_nodes), np.uint8),
        **parts("x", features, np.float32),
        "y": labels,
        "train_idx": np.arange(n_train),
        "val_idx": np.arange(n_train, n_train + PLANETOID_VALIDATION),
        "test_idx": np.sort(listed),
        "test_idx_file_order": listed,
        "unlabelled_idx": np.setdiff1d(np.arange(first, n_nodes), listed),
        "num_classes": class_count(labels),
    }


_PICKLED = ("x", "y", "tx", "ty", "allx", "ally", "graph")


_STORED = tuple(f"{matrix}_{part}" for matrix in ("adj", "attr") for part in ("data", "indices", "indptr", "shape"))


def read_shchur(path: Path) -> tuple[sp.csr_array, sp.csr_array, np.ndarray]:
    """The simple undirected graph (N, N) of the source's directed edges, features (N, F) and labels (N,)."""
    with open_npz(path, only=(*_STORED, "labels")) as archive:
        values = {name: archive.read(name) for name in archive.headers}
    adjacency, features = (
        csr(*(values[f"{matrix}_{part}"] for part in ("data", "indices", "indptr", "shape")), what=f"{path}: {matrix}")
        for matrix in ("adj", "attr")
    )
    edges = np.stack(adjacency.nonzero(), axis=1)
    return simple(edges, adjacency.shape[0]), features, values["labels"].astype(np.int64)


def shchur(file: str, raw: Path) -> Arrays:
    """The prepared arrays of Amazon Photo, Coauthor CS and Coauthor Physics."""
    adjacency, features, labels = read_shchur(raw / file)
    return {
        **parts("adj", adjacency, np.uint8),
        **parts("x", features, smallest(features.data)),
        "y": labels,
        "num_classes": class_count(labels),
    }


#: Name of an attacked graph in the prepared file -> name of its file, by graph.
ATTACKS = {
    "meta_adj_0p25": "pro-gnn-{}-0.25.npz",
    "gadc_meta_adj_0p25": "gadc-{}-0.25.npz",
    "gadc_meta_adj_0p5": "gadc-{}-0.5.npz",
    "gadc_meta_adj_0p75": "gadc-{}-0.75.npz",
}
METATTACK_SPLIT, METATTACK_CLEAN = "{}_prognn_splits.json", "{}.npz"


def metattack(name: str, raw: Path) -> Arrays:
    """The prepared arrays. Cora and Citeseer are cut to their largest component; Pubmed is Planetoid's, with its features."""
    if name == "pubmed":
        clean = {key: value for key, value in planetoid(name, raw).items() if key == "y" or key.startswith("adj_")}
        nodes, labels = np.arange(clean["y"].size), clean.pop("y")
    else:
        adjacency, features, labels = read_shchur(raw / METATTACK_CLEAN.format(name))
        nodes = _largest_component(adjacency)
        labels = labels[nodes]
        clean = {**parts("adj", adjacency[nodes][:, nodes], np.uint8), **parts("x", features[nodes], np.uint8)}
    split = json.loads((raw / METATTACK_SPLIT.format(name)).read_text())
    attacked = {key: _attacked(raw / file.format(name), nodes.size) for key, file in ATTACKS.items()}
    return {
        **clean,
        **{key: value for prefix, matrix in attacked.items() for key, value in parts(prefix, matrix, np.uint8).items()},
        "y": labels,
        "num_classes": class_count(labels),
        "orig_node_idx": nodes,
        **{part: np.array(split[part], dtype=np.int64) for part in ("idx_train", "idx_val", "idx_test")},
    }


def _largest_component(adjacency: sp.csr_array) -> np.ndarray:
    """Nodes of the largest component in rising order."""
    _, component = connected_components(adjacency, directed=False)
    return np.flatnonzero(component == np.bincount(component).argmax())


def _attacked(path: Path, n_nodes: int) -> sp.csr_array:
    matrix = read_sparse(path)
    if matrix.shape != (n_nodes, n_nodes):
        raise ValueError(f"{path.name} has shape {matrix.shape} for {n_nodes} nodes")
    return simple(np.stack(matrix.nonzero(), axis=1), n_nodes)


#: Prepared name of the readings -> the file and the variable of it.
MAT = {"temperature_C": ("sea_surface_temperature.mat", "Data"), "pm25": ("PM2_5_concentration.mat", "myDataPM")}
POSITION = "Position"
#: Both networks lie west of this longitude, which is no latitude: it tells the columns of their positions apart.
WEST = -90
PLACES, MEASURED, SHOWN = "pm25_latlng.txt", "pm25_ground.txt", "pm25_missing.txt"


def graph_trss(readings: str, raw: Path) -> Arrays:
    """Readings (times x stations), latitudes and longitudes of a MATLAB file, whose readings are stations x times."""
    import scipy.io  # imported here: it would slow the map of a report

    file, variable = MAT[readings]
    declared = {name: shape for name, shape, _ in scipy.io.whosmat(raw / file)}
    for name in (variable, POSITION):
        refuse_expanding(raw / file, 8 * math.prod(declared.get(name, ())))
    content = scipy.io.loadmat(raw / file, variable_names=[variable, POSITION])
    values, places = (np.asarray(content[name]) for name in (variable, POSITION))
    if values.dtype.kind not in "fiu" or places.shape != (values.shape[0], 2):
        raise ValueError(f"{variable} is {values.dtype} {values.shape} and {POSITION} {places.shape}")
    places = places.astype(np.float64)
    west = (places < WEST).all(axis=0)
    if west.sum() != 1:
        raise ValueError(f"{POSITION} has {west.sum()} columns of longitudes below {WEST}, one is expected")
    return {
        "lat": places[:, ~west].ravel(),
        "lon": places[:, west].ravel(),
        readings: np.ascontiguousarray(values.T, dtype=np.float64),
    }


def aqi36(raw: Path) -> Arrays:
    """Hours, stations, what was measured and what methods see (hours x stations), NaN where missing."""
    import pandas as pd  # takes half a second, which nothing else here needs

    places = pd.read_csv(raw / PLACES, dtype={"sensor_id": str})
    tables = {name: pd.read_csv(raw / name, index_col=0, parse_dates=True) for name in (MEASURED, SHOWN)}
    names = places["sensor_id"].to_numpy(dtype="U6")
    for file, table in tables.items():
        if list(table.columns) != names.tolist() or not table.index.equals(tables[MEASURED].index):
            raise ValueError(f"{file} has other stations than {PLACES}, or other hours than {MEASURED}")
    return {
        "time": np.datetime_as_string(tables[MEASURED].index.to_numpy(dtype="datetime64[s]"), unit="s"),
        "station": names,
        "lat": places["latitude"].to_numpy(np.float64),
        "lon": places["longitude"].to_numpy(np.float64),
        "pm25": tables[MEASURED].to_numpy(np.float32),
        "pm25_missing": tables[SHOWN].to_numpy(np.float32),
    }
