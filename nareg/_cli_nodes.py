"""What ``nareg unlearn`` reads from files and options: graphs, features, labels, lists of nodes and of edges."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Any

import numpy as np

from nareg.errors import InputError


def graph(path: Path, n_nodes: int) -> Any:
    import scipy.sparse as sp

    from nareg import io
    from nareg.graph import Graph

    if path.suffix == ".mtx":
        return Graph(io.read_adjacency(path))
    found = pairs(str(path))
    if found.min() < 0 or found.max() >= n_nodes:
        bad = found.max() if found.max() >= n_nodes else found.min()
        raise InputError(f"{path} names node {bad} but there are features of nodes 0 to {n_nodes - 1}.")
    ends = np.concatenate([found, found[:, ::-1]])
    adjacency = sp.csr_array((np.ones(len(ends)), (ends[:, 0], ends[:, 1])), shape=(n_nodes, n_nodes))
    adjacency.sum_duplicates()
    adjacency.data[:] = 1.0
    return Graph(adjacency)


def matrix(path: Path) -> Any:
    import scipy.io
    import scipy.sparse as sp

    readers: dict[str, Any] = {
        ".npy": lambda: np.load(path, allow_pickle=False),
        ".npz": lambda: sp.load_npz(path),
        ".mtx": lambda: scipy.io.mmread(path),
    }
    if path.suffix not in readers:
        raise InputError(f"{path}: features are read from .npy, .npz (as scipy.sparse.save_npz writes it) or .mtx.")
    try:
        return readers[path.suffix]()
    except (OSError, ValueError, KeyError) as error:
        raise InputError(f"{path} cannot be read: {error}.") from None


def labels(path: Path, n_nodes: int) -> tuple[np.ndarray, np.ndarray]:
    y, train, seen = np.full(n_nodes, -1), np.zeros(n_nodes, dtype=bool), set[int]()
    for line, row in _rows(path, ("node", "label", "train")):
        node = _integer(row["node"], path, line)
        if not 0 <= node < n_nodes:
            raise InputError(f"{path}, line {line}: node {node}, but there are features of nodes 0 to {n_nodes - 1}.")
        if node in seen:
            raise InputError(f"{path}, line {line}: node {node} has a line already.")
        seen.add(node)
        y[node] = _integer(row["label"], path, line) if row["label"] else -1
        train[node] = bool(_integer(row["train"], path, line)) if row["train"] else False
    return y, train


def _rows(path: Path, columns: tuple[str, ...]) -> list[tuple[int, dict[str, str]]]:
    try:
        with path.open(newline="") as handle:
            reader = csv.DictReader(handle)
            if reader.fieldnames is None or not set(columns) <= set(reader.fieldnames):
                raise InputError(f"{path}: the first line must name the columns {', '.join(columns)}.")
            return list(enumerate(reader, start=2))
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"{path} cannot be read: {error}.") from None


def _integer(text: str | None, path: object, line: int) -> int:
    try:
        return int(text or "")
    except ValueError:
        raise InputError(f"{path}, line {line}: {text!r} is no whole number.") from None


def numbers(text: str) -> np.ndarray:
    """Node numbers from "3,5", or from a file with one a line, a heading allowed."""
    parts = _lines(text) or list(enumerate(text.split(","), start=1))
    return np.array([_integer(part, text, k) for k, part in parts], dtype=np.int64)


def pairs(text: str) -> np.ndarray:
    """Pairs from "3-5,7-9", or from a file with "u,v" a line, a heading allowed."""
    lines = _lines(text)
    parts, apart = (lines, ",") if lines else (list(enumerate(text.split(","), start=1)), "-")
    found = [[_integer(end, text, k) for end in part.split(apart)] for k, part in parts]
    if not found or any(len(pair) != 2 for pair in found):
        raise InputError(f"{text}: pairs of nodes are expected, 3-5,7-9 or a CSV file with u,v a line.")
    return np.array(found, dtype=np.int64)


def _lines(text: str) -> list[tuple[int, str]]:
    """Lines of a file with their numbers, without a heading; none if the text names no file."""
    try:
        if not Path(text).is_file():
            return []
        lines = Path(text).read_text().split()
    except UnicodeDecodeError as error:
        raise InputError(f"{text} cannot be read: {error}.") from None
    except OSError:  # too long for a name: a list of numbers
        return []
    start = 1 if lines and not lines[0].replace(",", "").replace("-", "").isdigit() else 0
    if len(lines) == start:
        raise InputError(f"{text} is empty.")
    return list(enumerate(lines[start:], start=start + 1))
