"""The ``.npz`` files of ``shchur/gnn-benchmark`` (2018) and of the attack literature: plain CSR arrays and labels.

Names of nodes, features and classes may be Python objects in these files; they are never read.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import scipy.sparse as sp

from nareg._storage.array_files import open_npz
from nareg._storage.sparse_files import csr
from nareg.datasets._sources.graphs import Arrays, counted, parts, simple, smallest

_STORED = tuple(f"{matrix}_{part}" for matrix in ("adj", "attr") for part in ("data", "indices", "indptr", "shape"))


def read(path: Path) -> tuple[sp.csr_array, sp.csr_array, np.ndarray]:
    """The simple undirected graph (N, N) of the source's directed edges, features (N, F) and labels (N,)."""
    with open_npz(path, only=(*_STORED, "labels")) as archive:
        values = {name: archive.read(name) for name in archive.headers}
    adjacency, features = (
        csr(*(values[f"{matrix}_{part}"] for part in ("data", "indices", "indptr", "shape")), what=f"{path}: {matrix}")
        for matrix in ("adj", "attr")
    )
    edges = np.stack(adjacency.nonzero(), axis=1)
    return simple(edges, adjacency.shape[0]), features, values["labels"].astype(np.int64)


def convert(file: str, raw: Path) -> Arrays:
    """The prepared arrays of Amazon Photo, Coauthor CS and Coauthor Physics."""
    adjacency, features, labels = read(raw / file)
    return {
        **parts("adj", adjacency, np.uint8),
        **parts("x", features, smallest(features.data)),
        "y": labels,
        "num_classes": counted(labels),
    }
