"""What ``nareg unlearn`` reads from files and options: graphs, features, labels, lists of nodes and of edges."""

from __future__ import annotations

import csv
import re
from pathlib import Path
from typing import Any

import numpy as np

from nareg.cli.inputs import is_file
from nareg.errors import UNREADABLE, InputError

#: Numbers or pairs of them, in the place of a file's name.
LIST = re.compile(r"[0-9,\s+-]*")
#: As Python reads it, but for underscores and digits of other scripts.
WHOLE = re.compile(r"\s*[+-]?[0-9]+\s*")
#: No longer text is converted to a number.
DIGITS = 1000


def graph(path: Path, n_nodes: int) -> Any:
    """Of a MatrixMarket file, or of a CSV file of edges."""
    import scipy.sparse as sp

    from nareg import io
    from nareg.graph import Graph

    if path.suffix.lower() == ".mtx":
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
    """Features, a row a node."""
    from nareg import _array_files, _sparse_files

    readers: dict[str, Any] = {
        ".npy": _array_files.read_npy,
        ".npz": _sparse_files.read_npz,
        ".mtx": _sparse_files.read_matrix_market,
    }
    if path.suffix.lower() not in readers:
        raise InputError(f"{path}: features are read from .npy, .npz (as scipy.sparse.save_npz writes it) or .mtx.")
    try:
        found = readers[path.suffix.lower()](path)
    except InputError:
        raise
    except (*UNREADABLE, MemoryError) as error:
        raise InputError(f"{path} cannot be read: {error}.") from None
    if found.ndim != 2:
        raise InputError(f"{path} holds an array of shape {found.shape}: a row a node, a column a feature is expected.")
    return found


def labels(path: Path, n_nodes: int) -> tuple[np.ndarray, np.ndarray]:
    """Labels, -1 where there is none, and a mask of the nodes to train on."""
    y, train, seen = np.full(n_nodes, -1), np.zeros(n_nodes, dtype=bool), set[int]()
    for line, row in _table(path, ("node", "label", "train")):
        node = _integer(row["node"], path, line)
        if not 0 <= node < n_nodes:
            raise InputError(f"{path}, line {line}: node {node}, but there are features of nodes 0 to {n_nodes - 1}.")
        if node in seen:
            raise InputError(f"{path}, line {line}: node {node} has a line already.")
        seen.add(node)
        y[node] = _integer(row["label"], path, line) if row["label"] else -1
        if y[node] < -1:
            raise InputError(
                f"{path}, line {line}: label {y[node]}: classes are numbered from 0; leave it empty if there is none."
            )
        if row["train"] not in ("", "0", "1"):
            raise InputError(f"{path}, line {line}: train is {row['train']!r}, 0 or 1 is expected.")
        train[node] = row["train"] == "1"
    return y, train


def numbers(text: str) -> np.ndarray:
    """Node numbers from "3,5", or from a CSV file of them, a heading allowed."""
    rows = _listed(text) or [(1, [cell]) for cell in text.split(",")]
    for line, row in rows:
        if len(row) != 1:
            raise InputError(f"{text}, line {line}: {len(row)} values, but one number a line is expected.")
    return np.array([_integer(row[0], text, line) for line, row in rows], dtype=np.int64)


def pairs(text: str) -> np.ndarray:
    """Pairs from "3-5,7-9", or from a CSV file with two numbers a line, a heading allowed."""
    rows = _listed(text) or [(1, part.split("-")) for part in text.split(",")]
    found = [[_integer(cell, text, line) for cell in row] for line, row in rows]
    if any(len(pair) != 2 for pair in found):
        raise InputError(f"{text}: pairs of nodes are expected, 3-5,7-9 or a CSV file with u,v a line.")
    return np.array(found, dtype=np.int64)


def _table(path: Path, columns: tuple[str, ...]) -> list[tuple[int, dict[str, str]]]:
    """Lines of a CSV file whose heading names the columns, with their numbers."""
    (_, heading), *rows = _lines(path) or [(0, [])]
    if not set(columns) <= set(heading):
        raise InputError(f"{path}: the first line must name the columns {', '.join(columns)}.")
    twice = [column for column in columns if heading.count(column) > 1]
    if twice:
        raise InputError(f"{path}: the first line names the column {twice[0]} twice: leave one of them out.")
    for line, row in rows:
        if len(row) != len(heading):
            raise InputError(f"{path}, line {line}: {len(row)} cells where the heading has {len(heading)}.")
    return [(line, dict(zip(heading, row, strict=True))) for line, row in rows]


def _listed(text: str) -> list[tuple[int, list[str]]]:
    """Lines of the file that a text names, without the heading; none if it is a list, though there be a file of that name."""
    if LIST.fullmatch(text):
        return []
    if not is_file(text):
        raise InputError(f"{text} is neither a file nor a list of numbers.")
    rows = _lines(Path(text))
    if rows and not any(character.isdigit() for cell in rows[0][1] for character in cell):
        rows = rows[1:]
    if not rows:
        raise InputError(f"{text} is empty.")
    return rows


def _lines(path: Path) -> list[tuple[int, list[str]]]:
    """Cells of a CSV file, stripped, with the numbers of their lines; those without any are left out."""
    try:
        with path.open(newline="", encoding="utf-8-sig") as handle:  # spreadsheets put a mark before the first cell
            reader = csv.reader(handle, skipinitialspace=True, strict=True)  # or an open quote takes in the rest
            rows = [(reader.line_num, [cell.strip() for cell in row]) for row in reader]
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise InputError(f"{path} cannot be read: {error}.") from None
    return [(line, row) for line, row in rows if any(row)]


def _integer(text: str, path: object, line: int) -> int:
    if not WHOLE.fullmatch(text):
        raise InputError(f"{path}, line {line}: {text!r} is no whole number.")
    if len(text) > DIGITS:  # Python converts no more than 4,300 of them
        raise InputError(f"{path}, line {line}: a whole number of {len(text)} digits is too large.")
    number = int(text)
    if abs(number) > np.iinfo(np.int64).max:
        raise InputError(f"{path}, line {line}: {text} is too large.")
    return number
