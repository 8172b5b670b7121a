"""Planetoid's eight files per graph (Yang, Cohen, Salakhutdinov 2016) with the fixed public split."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import scipy.sparse as sp

from nareg.datasets._sources.graphs import Arrays, counted, parts, simple
from nareg.datasets._sources.pickles import read_pickle

#: Files of a graph: features and classes of the training, test and all other nodes, neighbors, numbers of the test nodes.
PARTS = ("x", "tx", "allx", "y", "ty", "ally", "graph", "test.index")
#: Validation nodes: those after the training nodes.
N_VALIDATION = 500


def convert(name: str, raw: Path) -> Arrays:
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
        "val_idx": np.arange(n_train, n_train + N_VALIDATION),
        "test_idx": np.sort(listed),
        "test_idx_file_order": listed,
        "unlabelled_idx": np.setdiff1d(np.arange(first, n_nodes), listed),
        "num_classes": counted(labels),
    }


_PICKLED = ("x", "y", "tx", "ty", "allx", "ally", "graph")
