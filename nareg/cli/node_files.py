"""Inputs of ``nareg unlearn`` from files and options: graphs, features, labels, lists of nodes and of edges."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
import typer

from nareg._storage.folders import is_folder
from nareg.cli.inputs import is_file
from nareg.errors import InputError, read_errors

if TYPE_CHECKING:
    import scipy.sparse as sp

    from nareg.graph import Graph
    from nareg.unlearning import CertifiedGPR

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
    from nareg._core.adjacency import undirected
    from nareg.graph import Graph

    if is_folder(path):
        return Graph.load(path)
    if path.suffix.lower() == ".mtx":
        return Graph(io.read_adjacency(path))
    edges = pairs(str(path))
    if edges.min() < 0 or edges.max() >= n_nodes:
        bad = edges.max() if edges.max() >= n_nodes else edges.min()
        raise InputError(f"{path} names node {bad}, but features has nodes 0 to {n_nodes - 1}: correct a file.")
    return Graph(undirected(edges.T, n_nodes))


def matrix(path: Path, *, in_place: bool = False) -> np.ndarray | sp.csr_array:
    """Features, one row per node; ``in_place``: an ``.npy`` file is mapped and not read."""
    from nareg._storage import array_files, sparse_files, text_files

    readers: dict[str, Callable[[Path], np.ndarray | sp.csr_array]] = {
        ".npy": array_files.map_npy if in_place else array_files.read_npy,
        ".npz": sparse_files.read_npz,
        ".mtx": text_files.read_matrix_market,
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
    rows = _file_rows(text) or [(0, [cell]) for cell in text.split(",")]
    for line, row in rows:
        if len(row) != 1:
            raise InputError(f"{text}, line {line}: {len(row)} values: write one number per line.")
    return np.array([_integer(row[0], text, line) for line, row in rows], dtype=np.int64)


def pairs(text: str) -> np.ndarray:
    """Pairs from "3-5,7-9", or from a CSV file with two numbers per line; a header is allowed."""
    rows = _file_rows(text) or [(0, part.split("-")) for part in text.split(",")]
    if any(len(pair) != 2 for _, pair in rows):
        raise InputError(f"{text}: write pairs of nodes as 3-5,7-9 or in a CSV file with u,v per line.")
    return np.array([[_integer(cell, text, line) for cell in row] for line, row in rows], dtype=np.int64)


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
    where = f"{path}, line {line}" if line else path  # a list has no lines
    if not WHOLE.fullmatch(text):
        raise InputError(f"{where}: {text!r} is not a whole number: correct it.")
    if len(text) > DIGITS:  # Python converts no more than 4,300 of them
        raise InputError(f"{where}: a whole number of {len(text)} digits is too large: correct it.")
    number = int(text)
    if abs(number) > np.iinfo(np.int64).max:
        raise InputError(f"{where}: {text} is too large: correct it.")
    return number


#: Format of the options that list nodes.
LISTED = "3,5, or a CSV file with one number per line"

Store = Annotated[
    Path, typer.Argument(help="Store with the remaining data, the model and its requests, or folder (fit --folder).")
]
Key = Annotated[Path | None, typer.Option(help="File with the key of the store's hashes; default STORE.key.")]
Where = Annotated[str | None, typer.Option(help="Torch device, such as cuda, for training and heavy propagation.")]
Edges = Annotated[str | None, typer.Option(help="Edges: 3-5,7-9, or a CSV file of pairs u,v.")]
Nodes = Annotated[str | None, typer.Option(help=f"Nodes, with their edges, features and labels: {LISTED}.")]


@dataclass(frozen=True)
class DataFiles:
    """Files with a graph, features and labels, or a data set instead."""

    graph: Annotated[Path | None, typer.Argument(help="Adjacency in MatrixMarket (.mtx), or CSV of pairs u,v.")] = None
    features: Annotated[
        Path | None, typer.Argument(help="One row per node: .npy, .mtx, or .npz from scipy.sparse.save_npz.")
    ] = None
    labels: Annotated[Path | None, typer.Argument(help="CSV with columns node, label (empty for none), train (0 or 1).")] = None
    dataset: Annotated[str | None, typer.Option(help="Name of a data set, with its first split, instead of the files.")] = None

    def read(self, *, in_place: bool = False) -> tuple[Any, Any, Any, Any]:
        """Graph, features, labels and training nodes; ``in_place``: a folder's path and a mapped file, to be read in parts."""
        from nareg import datasets

        if self.dataset is not None:
            if self.graph is not None:
                raise InputError("--dataset replaces the files: pass one or the other.")
            data = datasets.load(self.dataset)
            if not isinstance(data, datasets.NodeClassification) or not data.splits:
                raise InputError(
                    f"--dataset {self.dataset} is not a node classification data set with a split: see nareg datasets list."
                )
            return data.graph, data.features, data.labels, data.splits[0][0]
        if self.graph is None or self.features is None or self.labels is None:
            raise InputError("the data are missing: pass the files graph, features and labels, or --dataset.")
        X = matrix(self.features, in_place=in_place)
        y, train = labels(self.labels, X.shape[0])
        return self.graph if in_place and is_folder(self.graph) else graph(self.graph, X.shape[0]), X, y, train


@dataclass(frozen=True)
class ModelOptions:
    """Options of a :class:`nareg.unlearning.CertifiedGPR`."""

    order: Annotated[int, typer.Option(help="Number of propagation steps.")] = 2
    weights: Annotated[str | None, typer.Option(help="Weights of steps 0, 1, ..., instead of --order: 0.2,0.3,0.5.")] = None
    loss: Annotated[str, typer.Option(help="Loss: logistic or squared.")] = "logistic"
    lam: Annotated[str, typer.Option(help="Ridge per training node; auto suits the features' scale.")] = "auto"
    alpha: Annotated[str, typer.Option(help="Standard deviation of the noise term that hides removed data, or auto.")] = "auto"
    feature_norm: Annotated[
        float | None, typer.Option(help="Length of a row of features, if known without the data: 1 for normalized rows.")
    ] = None
    eps_scale: Annotated[
        float | None, typer.Option(help="What auto adds to --eps per removed row without --feature-norm; default 48 / nodes.")
    ] = None
    eps: Annotated[float, typer.Option(help="Privacy loss epsilon that each certificate guarantees.")] = 1.0
    delta: Annotated[float, typer.Option(help="Probability delta that the guarantee fails.")] = 1e-4

    @property
    def certifies_nothing(self) -> bool:
        """Whether there is no noise."""
        return _number("alpha", self.alpha) == 0

    def model(self, **others: Any) -> CertifiedGPR:
        """The model, not yet fitted."""
        from nareg.unlearning import CertifiedGPR, FeatureScale

        read: dict[str, Any] = {
            "weights": self.order if self.weights is None else _weights(self.weights),
            "lam": _number("lam", self.lam),
            "alpha": _number("alpha", self.alpha),
        }
        if self.feature_norm is not None or self.eps_scale is not None:
            scale = FeatureScale(self.feature_norm, self.eps_scale)
            read |= {name: scale for name in ("lam", "alpha") if read[name] == "auto"}
        options = {name: value for name, value in asdict(self).items() if name not in ("order", "feature_norm", "eps_scale")}
        return CertifiedGPR(**options | read | others)


@dataclass(frozen=True)
class Removal:
    """What a request removes."""

    edges: Edges = None
    nodes: Nodes = None
    features: Annotated[str | None, typer.Option(help=f"Nodes whose features to remove: {LISTED}.")] = None
    labels: Annotated[bool, typer.Option("--labels", help="Remove the labels of the --features nodes, too.")] = False

    @property
    def named(self) -> dict[str, str]:
        """The options that were passed."""
        texts = {"edges": self.edges, "nodes": self.nodes, "features": self.features}
        return {name: text for name, text in texts.items() if text is not None}

    def read(self) -> dict[str, np.ndarray]:
        """Pairs of nodes under "edges", node numbers under the other names."""
        if self.labels and self.features is None:
            raise InputError("--labels needs --features: pass the nodes whose features and labels to remove.")
        return {name: (pairs if name == "edges" else numbers)(text) for name, text in self.named.items()}


def _number(name: str, text: str) -> float | str:
    """A number, or "auto"."""
    try:
        return text if text == "auto" else float(text)
    except ValueError:
        raise InputError(f"--{name} {text}: pass a number or auto.") from None


def _weights(text: str) -> np.ndarray:
    """Weights of "0.2,0.3,0.5"."""
    try:
        return np.array([float(part) for part in text.split(",")])
    except ValueError:
        raise InputError(f"--weights {text}: pass numbers separated by commas, such as 0.2,0.3,0.5.") from None
