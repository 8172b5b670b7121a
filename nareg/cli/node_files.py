"""Inputs of ``nareg unlearn`` from files and options: graphs, features, labels, lists of nodes and of edges."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import scipy.sparse as sp

from nareg._core.adjacency import undirected
from nareg._storage.folders import is_folder
from nareg.cli.inputs import is_file
from nareg.errors import InputError, read_errors

if TYPE_CHECKING:
    from nareg.graph import Graph

#: Numbers or pairs of them, in the place of a file's name.
LIST = re.compile(r"[0-9,\s+-]*")
#: As Python reads it, but for underscores and digits of other scripts.
WHOLE = re.compile(r"\s*[+-]?[0-9]+\s*")
#: No longer text is converted to a number.
DIGITS = 1000

#: Line numbers and cells.
Rows = list[tuple[int, list[str]]]


def graph(path: Path, n_nodes: int) -> Graph:
    """The graph of a folder, of a MatrixMarket file, or of a CSV file of edges."""
    from nareg import io
    from nareg.graph import Graph

    if is_folder(path):
        return Graph.load(path)
    if path.suffix.lower() == ".mtx":
        return Graph(io.read_adjacency(path))
    edges = pairs(str(path))
    if edges.min() < 0 or edges.max() >= n_nodes:
        bad = edges.max() if edges.max() >= n_nodes else edges.min()
        raise InputError(f"{path} names node {bad}, but features has nodes 0 to {n_nodes - 1}: correct a file.")
    return Graph(undirected(*edges.T, n_nodes))


def matrix(path: Path, *, in_place: bool = False) -> np.ndarray | sp.csr_array:
    """Features, one row per node; ``in_place``: an ``.npy`` file is mapped and not read."""
    from nareg._storage import array_files, matrix_market_files, sparse_files

    readers: dict[str, Callable[[Path], np.ndarray | sp.csr_array]] = {
        ".npy": array_files.map_npy if in_place else array_files.read_npy,
        ".npz": sparse_files.read_npz,
        ".mtx": matrix_market_files.read,
    }
    if path.suffix.lower() not in readers:
        raise InputError(f"{path}: pass features as .npy, .npz (written by scipy.sparse.save_npz) or .mtx.")
    with read_errors(f"{path} cannot be read", "write it again"):
        features = readers[path.suffix.lower()](path)
    if features.ndim != 2:
        raise InputError(f"{path} has an array of shape {features.shape}: write one row per node and one column per feature.")
    return features


def labels(path: Path, n_nodes: int) -> tuple[np.ndarray, np.ndarray]:
    """Labels, -1 where there is none, and a mask of the nodes to train on."""
    y, train, listed = np.full(n_nodes, -1), np.zeros(n_nodes, dtype=bool), set[int]()
    for line, row in _table(path, ("node", "label", "train")):
        node = _integer(row["node"], path, line)
        if not 0 <= node < n_nodes:
            raise InputError(f"{path}, line {line}: node {node}, but features has nodes 0 to {n_nodes - 1}: correct a file.")
        if node in listed:
            raise InputError(f"{path}, line {line}: node {node} appears twice: keep one of its lines.")
        listed.add(node)
        y[node] = _integer(row["label"], path, line) if row["label"] else -1
        if y[node] < -1:
            raise InputError(f"{path}, line {line}: label {y[node]} is negative: number classes from 0, or leave it empty.")
        if row["train"] not in ("", "0", "1"):
            raise InputError(f"{path}, line {line}: train is {row['train']!r}: write 0 or 1.")
        train[node] = row["train"] == "1"
    return y, train


def numbers(text: str) -> np.ndarray:
    """Node numbers from "3,5", or from a CSV file with one per line; a header is allowed."""
    rows = _file_rows(text) or [(1, [cell]) for cell in text.split(",")]
    for line, row in rows:
        if len(row) != 1:
            raise InputError(f"{text}, line {line}: {len(row)} values: write one number per line.")
    return np.array([_integer(row[0], text, line) for line, row in rows], dtype=np.int64)


def pairs(text: str) -> np.ndarray:
    """Pairs from "3-5,7-9", or from a CSV file with two numbers per line; a header is allowed."""
    rows = _file_rows(text) or [(1, part.split("-")) for part in text.split(",")]
    edges = [[_integer(cell, text, line) for cell in row] for line, row in rows]
    if any(len(pair) != 2 for pair in edges):
        raise InputError(f"{text}: write pairs of nodes as 3-5,7-9 or in a CSV file with u,v per line.")
    return np.array(edges, dtype=np.int64)


def _table(path: Path, columns: tuple[str, ...]) -> list[tuple[int, dict[str, str]]]:
    """Rows of a CSV file whose header names the columns, with their line numbers."""
    from nareg import io

    (_, header), *rows = io.read_rows(path) or [(0, [])]
    if not set(columns) <= set(header):
        raise InputError(f"{path}: the first line must name the columns {', '.join(columns)}.")
    twice = [column for column in columns if header.count(column) > 1]
    if twice:
        raise InputError(f"{path}: the first line names the column {twice[0]} twice: remove one of them.")
    for line, row in rows:
        if len(row) != len(header):
            raise InputError(f"{path}, line {line}: {len(row)} cells, but the header has {len(header)}: correct the line.")
    return [(line, dict(zip(header, row, strict=True))) for line, row in rows]


def _file_rows(text: str) -> Rows:
    """Rows of the file that a text names, without its header; none for a list, even if a file has that name."""
    from nareg import io

    if LIST.fullmatch(text):
        return []
    if not is_file(text):
        raise InputError(f"{text} is neither a file nor a list of numbers: correct it.")
    rows = io.read_rows(text)
    if rows and not any(character.isdigit() for cell in rows[0][1] for character in cell):
        rows = rows[1:]
    if not rows:
        raise InputError(f"{text} is empty: write at least one line.")
    return rows


def _integer(text: str, path: object, line: int) -> int:
    if not WHOLE.fullmatch(text):
        raise InputError(f"{path}, line {line}: {text!r} is not a whole number: correct it.")
    if len(text) > DIGITS:  # Python converts no more than 4,300 of them
        raise InputError(f"{path}, line {line}: a whole number of {len(text)} digits is too large: correct it.")
    number = int(text)
    if abs(number) > np.iinfo(np.int64).max:
        raise InputError(f"{path}, line {line}: {text} is too large: correct it.")
    return number
