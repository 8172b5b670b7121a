"""Graphs after Metattack: the clean graph, Pro-GNN's attack of 25 % with its split, GADC's attacks of 25, 50 and 75 %."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import scipy.sparse as sp
from scipy.sparse.csgraph import connected_components

from nareg._storage.sparse_files import read_npz
from nareg.datasets._sources import planetoid, shchur
from nareg.datasets._sources.graphs import Arrays, counted, parts, simple

#: Name of an attacked graph in the prepared file -> name of its file, by graph.
ATTACKS = {
    "meta_adj_0p25": "pro-gnn-{}-0.25.npz",
    "gadc_meta_adj_0p25": "gadc-{}-0.25.npz",
    "gadc_meta_adj_0p5": "gadc-{}-0.5.npz",
    "gadc_meta_adj_0p75": "gadc-{}-0.75.npz",
}
SPLIT, CLEAN = "{}_prognn_splits.json", "{}.npz"


def convert(name: str, raw: Path) -> Arrays:
    """The prepared arrays. Cora and Citeseer are cut to their largest component; Pubmed is Planetoid's, with its features."""
    if name == "pubmed":
        clean = {key: value for key, value in planetoid.convert(name, raw).items() if key == "y" or key.startswith("adj_")}
        nodes, labels = np.arange(clean["y"].size), clean.pop("y")
    else:
        adjacency, features, labels = shchur.read(raw / CLEAN.format(name))
        nodes = _largest_component(adjacency)
        labels = labels[nodes]
        clean = {**parts("adj", adjacency[nodes][:, nodes], np.uint8), **parts("x", features[nodes], np.uint8)}
    split = json.loads((raw / SPLIT.format(name)).read_text())
    attacked = {key: _attacked(raw / file.format(name), nodes.size) for key, file in ATTACKS.items()}
    return {
        **clean,
        **{key: value for prefix, matrix in attacked.items() for key, value in parts(prefix, matrix, np.uint8).items()},
        "y": labels,
        "num_classes": counted(labels),
        "orig_node_idx": nodes,
        **{part: np.array(split[part], dtype=np.int64) for part in ("idx_train", "idx_val", "idx_test")},
    }


def _largest_component(adjacency: sp.csr_array) -> np.ndarray:
    """Nodes of the largest component in rising order."""
    _, component = connected_components(adjacency, directed=False)
    return np.flatnonzero(component == np.bincount(component).argmax())


def _attacked(path: Path, n_nodes: int) -> sp.csr_array:
    matrix = read_npz(path)
    if matrix.shape != (n_nodes, n_nodes):
        raise ValueError(f"{path.name} has shape {matrix.shape} for {n_nodes} nodes")
    return simple(np.stack(matrix.nonzero(), axis=1), n_nodes)
