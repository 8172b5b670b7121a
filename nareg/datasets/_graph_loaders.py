"""Loaders of the node classification data sets: prepared ``.npz`` files and OGB's raw CSV files."""

from __future__ import annotations

import gzip
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from nareg.datasets._info import DatasetInfo, arrays, not_found
from nareg.datasets.node_classification import NodeClassification, Split, stored
from nareg.errors import DatasetCorruptError
from nareg.graph import Graph


def prepared(entry: DatasetInfo, root: Path) -> NodeClassification:
    """Planetoid, Geom-GCN, Shchur and Metattack files, told apart by the arrays that they hold."""
    first = next(iter(entry.files))
    data = arrays(entry, first, root)
    features = stored(data if "x_data" in data else arrays(entry, list(entry.files)[1], root), "x").astype(np.float32)
    labels = data["y"].astype(np.int64)
    if "unlabelled_idx" in data:
        labels[data["unlabelled_idx"]] = -1
    prefix = "_shape"
    attacked = {
        key.removesuffix(prefix): Graph(stored(data, key.removesuffix(prefix)).astype(np.float64))
        for key in data
        if "meta_adj" in key and key.endswith(prefix)
    }
    return NodeClassification(
        name=entry.name,
        graph=Graph(stored(data, "adj").astype(np.float64)),
        features=features,
        labels=labels,
        n_classes=int(data["num_classes"]),
        splits=_splits(data),
        perturbed={_attack_name(key): graph for key, graph in attacked.items()},
        source=entry.source,
        licence=entry.licence,
        citation=entry.citation,
    )


def _attack_name(key: str) -> str:
    """``gadc_meta_adj_0p25`` -> ``gadc-25``, ``meta_adj_0p25`` -> ``pro-gnn-25``."""
    share = key.rpartition("_")[2].replace("p", ".")
    return f"{'gadc' if key.startswith('gadc') else 'pro-gnn'}-{round(100 * float(share))}"


def _splits(data: dict[str, np.ndarray]) -> tuple[Split, ...]:
    for names in (("train_idx", "val_idx", "test_idx"), ("idx_train", "idx_val", "idx_test")):
        if names[0] in data:
            train, val, test = (data[name].astype(np.int64) for name in names)
            return ((train, val, test),)
    if "train_masks" not in data:
        return ()
    masks = [data[f"{part}_masks"] for part in ("train", "val", "test")]
    return tuple((np.flatnonzero(a), np.flatnonzero(b), np.flatnonzero(c)) for a, b, c in zip(*masks, strict=True))


def ogb(entry: DatasetInfo, root: Path) -> NodeClassification:
    """OGB's raw CSV files, parsed as numbers; edges join their ends whichever way they point."""
    if not all((root / relative).is_file() for relative in entry.files):
        raise not_found(entry, root)
    edge, feature, label, *parts = (root / relative for relative in entry.files)
    features = _table(feature, np.float32)
    labels = _table(label, np.float64).ravel()
    known = np.where(np.isfinite(labels), labels, -1).astype(np.int64)
    n = features.shape[0]
    pairs = _table(edge, np.int64)
    split = tuple(_table(part, np.int64).ravel() for part in parts)
    numbers = np.concatenate([pairs.ravel(), *split])
    whole = np.isfinite(features).all() and (known == np.where(np.isfinite(labels), labels, -1)).all()
    if pairs.shape[1] != 2 or numbers.min() < 0 or numbers.max() >= n or known.size != n or not whole:
        raise DatasetCorruptError(f"{edge.parent}: edges, features and labels do not belong together: download them again.")
    pairs = pairs[pairs[:, 0] != pairs[:, 1]]
    directed = sp.csr_array((np.ones(len(pairs)), (pairs[:, 0], pairs[:, 1])), shape=(n, n))
    adjacency = directed.maximum(directed.T)
    adjacency.data[:] = 1.0
    return NodeClassification(
        name=entry.name,
        graph=Graph(adjacency),
        features=features,
        labels=known,
        n_classes=int(known.max()) + 1,
        splits=((split[0], split[1], split[2]),),
        source=entry.source,
        licence=entry.licence,
        citation=entry.citation,
    )


def _table(path: Path, dtype: Any) -> np.ndarray:
    try:
        with gzip.open(path, "rt") as handle:
            return np.loadtxt(handle, delimiter=",", dtype=dtype, ndmin=2)
    except (ValueError, EOFError, OSError) as error:
        raise DatasetCorruptError(f"{path} is not a table of numbers ({error}): download it again.") from None
