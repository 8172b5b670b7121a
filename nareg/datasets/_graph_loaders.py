"""Loaders of the node classification data sets: prepared ``.npz`` files, and the files of OGB, GraphSAINT, Platonov et al."""

from __future__ import annotations

import gzip
import json
import operator
import warnings
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from nareg._core.adjacency import undirected
from nareg._storage.array_files import EXPANSION, FREE, open_npz, read_npy, refuse_expanding
from nareg._storage.sparse_files import csr, stored
from nareg._storage.text_files import LONGEST
from nareg.datasets._pyg import Split, splits_of_masks
from nareg.datasets.node_classification import NodeClassification
from nareg.datasets.registry import DatasetInfo, arrays, not_found
from nareg.errors import DatasetCorruptError, NaregError, TooLargeError, read_errors
from nareg.graph import Graph


def prepared(entry: DatasetInfo, root: Path) -> NodeClassification:
    """Planetoid, Geom-GCN, Shchur and Metattack files, recognized by their arrays."""
    what = f"{root / next(iter(entry.files))} is not a prepared data set"
    with read_errors(what, "delete it and download it again", kind=DatasetCorruptError, passed=NaregError):
        return _prepared(entry, root)


def _prepared(entry: DatasetInfo, root: Path) -> NodeClassification:
    first = next(iter(entry.files))
    data = arrays(entry, first, root)
    file = str(root / first)
    own = "x_data" in data
    features = stored(
        data if own else arrays(entry, list(entry.files)[1], root), "x", what=file if own else list(entry.files)[1]
    )
    labels = data["y"].astype(np.int64)
    if "unlabelled_idx" in data:
        labels[data["unlabelled_idx"]] = -1
    prefix = "_shape"
    attacked = {
        key.removesuffix(prefix): Graph(stored(data, key.removesuffix(prefix), what=file).astype(np.float64))
        for key in data
        if "meta_adj" in key and key.endswith(prefix)
    }
    return NodeClassification(
        name=entry.name,
        graph=Graph(stored(data, "adj", what=file).astype(np.float64)),
        features=features.astype(np.float32),
        labels=labels,
        n_classes=int(data["num_classes"]),
        splits=_splits(data),
        perturbed={_attack_name(key): graph for key, graph in attacked.items()},
        source=entry.source,
        license=entry.license,
        citation=entry.citation,
    )


def _attack_name(key: str) -> str:
    """``gadc_meta_adj_0p25`` -> ``gadc-25``, ``meta_adj_0p25`` -> ``pro-gnn-25``."""
    share = key.rpartition("_")[2].replace("p", ".")
    return f"{'gadc' if key.startswith('gadc') else 'pro-gnn'}-{round(100 * float(share))}"


def _splits(data: dict[str, np.ndarray]) -> tuple[Split, ...]:
    for names in (("train_idx", "val_idx", "test_idx"), ("idx_train", "idx_val", "idx_test")):
        if names[0] in data:
            train, val, test = (_whole(data[name]) for name in names)
            return ((train, val, test),)
    if "train_masks" not in data:
        return ()
    masks = [data[f"{part}_masks"] for part in ("train", "val", "test")]
    return splits_of_masks(*masks)


def ogb(entry: DatasetInfo, root: Path) -> NodeClassification:
    """OGB's raw CSV files, parsed as numbers."""
    edge, feature, label, *parts = _present(entry, root)
    return _users_own(
        entry, _table(edge, np.int64), _table(feature, np.float32), _classes(_table(label, np.float64), label),
        _ogb_split(parts), edge.parent,
    )  # fmt: skip


def ogb_binary(entry: DatasetInfo, root: Path) -> NodeClassification:
    """OGB's raw arrays, for graphs too large for CSV files; nothing is unpickled."""
    data, label, *parts = _present(entry, root)
    with _own_file(f"{data.parent}: the arrays are not in OGB's format", remedy="get them again"):
        with open_npz(data) as archive:
            pairs, features = _whole(archive.read("edge_index")).T, _single(archive.read("node_feat"))
        with open_npz(label) as archive:
            labels = archive.read("node_label").astype(np.float64)
    return _users_own(entry, pairs, features, _classes(labels, label), _ogb_split(parts), data.parent)


def _ogb_split(parts: list[Path]) -> tuple[Split]:
    tables = [_table(part, np.int64) for part in parts]
    wide = [part for part, table in zip(parts, tables, strict=True) if table.shape[1] != 1]
    if wide:
        raise DatasetCorruptError(f"{wide[0]} has more than one column: download it again.")
    train, val, test = (table[:, 0] for table in tables)
    return ((train, val, test),)


def _single(values: np.ndarray) -> np.ndarray:
    """Features in single precision; what is too large for it becomes infinite, which is refused later."""
    with np.errstate(over="ignore"):
        return values.astype(np.float32, copy=False)


def _whole(values: np.ndarray) -> np.ndarray:
    """Node numbers, which must be stored as integers."""
    if values.dtype.kind not in "iu":
        raise TypeError(f"node numbers of dtype {values.dtype}")
    return values.astype(np.int64)


def _classes(values: np.ndarray, path: Path) -> np.ndarray:
    """Whole numbers, -1 for a node without a class."""
    known = np.where(np.isfinite(values), values, -1).astype(np.int64)
    if (known != values)[np.isfinite(values)].any():
        raise DatasetCorruptError(f"{path} has classes that are not whole numbers: download it again.")
    return known.ravel()


def saint(entry: DatasetInfo, root: Path) -> NodeClassification:
    """GraphSAINT's files: ``adj_full.npz``, ``feats.npy``, ``class_map.json``, ``role.json``; nothing is unpickled."""
    adjacency, feature, classes, role = _present(entry, root)
    names = ", ".join(Path(file).name for file in entry.files)
    with _own_file(f"{adjacency.parent}: {names} are not in GraphSAINT's format", remedy="download them again"):
        features = _single(read_npy(feature))
        with open_npz(adjacency) as archive:
            indices, indptr = archive.read("indices"), archive.read("indptr")
            ones = np.ones(indices.size, dtype=bool)  # the pattern alone
            joined = csr(ones, indices, indptr, (indptr.size - 1, len(features)), what=str(adjacency)).tocoo()
            pairs = np.stack([joined.row, joined.col], axis=1)
        numbered = {int(node): operator.index(label) for node, label in json.loads(classes.read_text()).items()}
        if min(numbered, default=0) < 0:
            raise ValueError(f"node {min(numbered)}")
        roles = json.loads(role.read_text())
        train, val, test = (np.sort(_whole(np.array(roles[part]))) for part in ("tr", "va", "te"))
        labels = np.full(features.shape[0], -1, dtype=np.int64)
        labels[list(numbered)] = list(numbered.values())
    return _users_own(entry, pairs, features, labels, [(train, val, test)], adjacency.parent)


def heterophilous(entry: DatasetInfo, root: Path) -> NodeClassification:
    """Arrays of the heterophilous graphs of Platonov et al.: one ``.npz``, ten splits; nothing is unpickled."""
    (path,) = _present(entry, root)
    with _own_file(f"{path} does not hold a heterophilous graph"), open_npz(path) as archive:
        pairs, features = _whole(archive.read("edges")), _single(archive.read("node_features"))
        labels = archive.read("node_labels").astype(np.float64)
        masks = {f"{part}_masks": archive.read(f"{part}_masks").astype(bool) for part in ("train", "val", "test")}
        splits = _splits(masks)
    return _users_own(entry, pairs, features, _classes(labels, path), splits, path.parent)


#: What goes wrong with a user's own download.
_own_file = partial(read_errors, remedy="download it again", kind=DatasetCorruptError, passed=TooLargeError)

#: By name; all others are prepared files.
LOADERS = {
    "ogbn-arxiv": ogb, "ogbn-products": ogb, "ogbn-papers100M": ogb_binary, "flickr": saint,
    "amazon-ratings": heterophilous, "roman-empire": heterophilous,
}  # fmt: skip


def _present(entry: DatasetInfo, root: Path) -> list[Path]:
    """The data set's files, if all of them are there."""
    paths = [root / relative for relative in entry.files]
    if not all(path.is_file() for path in paths):
        raise not_found(entry, root)
    return paths


def _users_own(
    entry: DatasetInfo, pairs: np.ndarray, features: np.ndarray, labels: np.ndarray, splits: Sequence[Split], folder: Path
) -> NodeClassification:
    """Build a data set from a user's download and check that its parts fit; edge directions are ignored."""
    n = len(features) if features.ndim else 0
    shaped = pairs.ndim == features.ndim == 2 and pairs.shape[1] == 2 and labels.shape == (n,) and np.isfinite(features).all()
    if not shaped or any(part.ndim != 1 for split in splits for part in split):
        raise DatasetCorruptError(f"{folder}: edges, features and labels do not belong together: download them again.")
    numbers = np.concatenate([pairs.ravel(), *(part for split in splits for part in split)])
    # there are no more classes than nodes, and no node is in two parts of a split
    classified = 0 <= labels.max(initial=-1) < n and labels.min(initial=0) >= -1
    apart = all(np.unique(nodes).size == nodes.size for nodes in map(np.concatenate, splits))
    if not (classified and apart and numbers.min(initial=0) >= 0 and numbers.max(initial=-1) < n):
        raise DatasetCorruptError(f"{folder}: edges, labels and splits do not belong together: download them again.")
    return NodeClassification(
        name=entry.name,
        graph=Graph(undirected(pairs[pairs[:, 0] != pairs[:, 1]].T, n)),
        features=features,
        labels=labels,
        n_classes=int(labels.max()) + 1,
        splits=tuple(splits),
        source=entry.source,
        license=entry.license,
        citation=entry.citation,
    )


def _table(path: Path, dtype: Any) -> np.ndarray:
    with _own_file(f"{path} is not a table of numbers"), warnings.catch_warnings():
        warnings.filterwarnings("ignore", "loadtxt: input contained no data", UserWarning)
        table = np.loadtxt(_lines(path), delimiter=",", dtype=dtype, ndmin=2)
    if not table.size:
        raise DatasetCorruptError(f"{path} is empty: download it again.")
    return table


def _lines(path: Path) -> Iterator[str]:
    """Lines of a compressed text that expands to a plausible size."""
    most, size = FREE + EXPANSION * path.stat().st_size, 0
    with gzip.open(path, "rt", encoding="latin-1") as handle:
        while line := handle.readline(LONGEST):
            size += len(line)
            if size > most:
                refuse_expanding(path, size)
            yield line
