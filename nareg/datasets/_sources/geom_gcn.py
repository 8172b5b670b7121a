"""Geom-GCN's text files and split files (Pei et al. 2020): Cornell, Texas, Wisconsin and Actor (there: film)."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import scipy.sparse as sp

from nareg._storage.array_files import read_npz
from nareg.datasets._sources.graphs import Arrays, counted, parts, simple

#: Node, features, class; and pairs of nodes. Both with a header, columns apart by tabs.
NODES, EDGES = "out1_node_feature_label.txt", "out1_graph_edges.txt"
N_SPLITS = 10
#: Features of Actor, which lists the numbers of those that a node has; the others write a 0 or 1 for each.
ACTOR_FEATURES = 932


def split_file(name: str, number: int) -> str:
    """Name of a file with masks, which the authors call 0.6_0.2 and which hold 48 and 32 %."""
    return f"{name}_split_0.6_0.2_{number}.npz"


def convert(name: str, raw: Path) -> Arrays:
    """The prepared arrays of the files of a graph, by the name that the source gives it."""
    nodes = [line.split("\t") for line in _rows(raw / NODES)]
    numbers = np.array([int(node) for node, _, _ in nodes])
    n_nodes = numbers.size
    if not np.array_equal(np.sort(numbers), np.arange(n_nodes)):
        raise ValueError(f"{NODES} does not list the nodes 0 to {n_nodes - 1}, each once")
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
        raise ValueError(f"{NODES} has a feature beyond {width}")
    features = sp.csr_array((np.ones(i.size), (i, j)), shape=(n_nodes, width))
    features.data[:] = 1  # features that are listed twice were added
    edges = np.array([line.split("\t") for line in _rows(raw / EDGES)], dtype=np.int64)
    masks = [read_npz(raw / split_file(name, k)) for k in range(N_SPLITS)]
    stacked = {part: np.stack([mask[f"{part}_mask"].astype(bool) for mask in masks]) for part in ("train", "val", "test")}
    return {
        "directed_edges": np.unique(edges, axis=0).astype(np.int32),
        **parts("adj", simple(edges, n_nodes), np.uint8),
        **parts("x", features, np.uint8),
        "y": labels,
        **{f"{part}_masks": mask for part, mask in stacked.items()},
        "num_classes": counted(labels),
    }


def _rows(path: Path) -> list[str]:
    """Lines below the header."""
    return path.read_text(encoding="utf-8").splitlines()[1:]
