"""``nareg unlearn fit | remove | add | predict | certificate | verify``."""

from __future__ import annotations

import csv
import json
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer
from rich.markup import escape

from nareg._cli_input import console
from nareg.errors import InputError

unlearn_app = typer.Typer(no_args_is_help=True, help="Train a node classifier that forgets on request, with a certificate.")

Store = Annotated[Path, typer.Argument(help="The store: what remains, the model and the requests, in one file.")]
Key = Annotated[Path | None, typer.Option(help="File of the key of the store's hashes; by default STORE.key.")]
Where = Annotated[str | None, typer.Option(help="A device of torch, say cuda, for training and whole propagations.")]
#: Of the named options: "3,5" or a file with a number, or two, a line.
LISTED = "numbers with commas, or a CSV file with one a line"


@unlearn_app.command("fit", epilog="Example: nareg unlearn fit service.store graph.mtx features.npy labels.csv")
def fit(
    store: Store,
    graph: Annotated[Path | None, typer.Argument(help="MatrixMarket adjacency (.mtx), or a CSV of pairs u,v.")] = None,
    features: Annotated[Path | None, typer.Argument(help="A row a node: .npy, .mtx, or .npz as SciPy saves it.")] = None,
    labels: Annotated[Path | None, typer.Argument(help="CSV: node, label, train (0 or 1); empty label = none.")] = None,
    dataset: Annotated[str | None, typer.Option(help="In the place of the files: a data set with its first split.")] = None,
    order: Annotated[int, typer.Option(help="Hops that features travel.")] = 2,
    lam: Annotated[float, typer.Option(help="Ridge a training node.")] = 1e-2,
    alpha: Annotated[float, typer.Option(help="Deviation of the random term that hides what is forgotten.")] = 0.1,
    eps: Annotated[float, typer.Option(help="Of the certificates.")] = 1.0,
    delta: Annotated[float, typer.Option(help="Of the certificates.")] = 1e-4,
    key: Key = None,
    device: Where = None,
) -> None:
    """Train, and write the store. Scale features node by node beforehand, never by columns: that would carry deleted data."""
    from nareg import datasets, unlearning

    model = unlearning.CertifiedGPR(order=order, lam=lam, alpha=alpha, eps=eps, delta=delta, device=device)
    if alpha == 0:
        raise InputError("--alpha is 0: without a random term nothing could ever be removed with a certificate.")
    if store.exists():
        raise InputError(f"{store} exists: name another file.")
    if dataset is not None:
        data = datasets.load(dataset)
        if not isinstance(data, datasets.NodeClassification) or not data.splits:
            raise InputError(f"--dataset {dataset}: that is no node classification data set with a split.")
        model.fit(data.graph, data.features, data.labels, data.splits[0][0])
    elif graph is None or features is None or labels is None:
        raise InputError("give graph, features and labels, three files, or --dataset.")
    else:
        X = _matrix(features)
        y, train = _labels(labels, X.shape[0])
        model.fit(_graph(graph, X.shape[0]), X, y, train)
    model.save(store, key=key).close()
    console.print(escape(model.certificate().summary()), soft_wrap=True)
    where = key or f"{store}.key"
    console.print(f"written: {escape(str(store))}, and the key of its hashes: {escape(str(where))}", soft_wrap=True)


@unlearn_app.command("remove", epilog="Example: nareg unlearn remove service.store --nodes 17,30 --edges 3-5")
def remove(
    store: Store,
    edges: Annotated[str | None, typer.Option(help="3-5,7-9, or a CSV file of pairs u,v.")] = None,
    nodes: Annotated[str | None, typer.Option(help=f"Nodes with edges, features and labels: {LISTED}.")] = None,
    features: Annotated[str | None, typer.Option(help=f"Nodes whose features go: {LISTED}.")] = None,
    labels: Annotated[bool, typer.Option("--labels", help="With --features: their labels as well.")] = False,
    key: Key = None,
    device: Where = None,
) -> None:
    """Forget, durably, and print the certificate of each request."""
    from nareg import unlearning

    if edges is None and nodes is None and features is None:
        raise InputError("name something to remove: --edges, --nodes or --features.")
    if labels and features is None:
        raise InputError("--labels goes with --features: name the nodes whose features and labels go.")
    wanted = (None if edges is None else _pairs(edges), *(None if t is None else _numbers(t) for t in (nodes, features)))
    model = unlearning.CertifiedGPR.load(store, key=key, device=device)
    acts = (model.remove_edges, model.remove_nodes, lambda index: model.remove_features(index, labels=labels))
    try:
        for act, what in zip(acts, wanted, strict=True):
            if what is not None:
                console.print(escape(act(what).summary()), soft_wrap=True)
    finally:
        model.close()


@unlearn_app.command("add", epilog="Example: nareg unlearn add service.store --nodes new.npy --edges 60-3,61-5")
def add(
    store: Store,
    nodes: Annotated[Path | None, typer.Option(help="Features, a row a new node: .npy, .mtx or .npz.")] = None,
    labels: Annotated[str | None, typer.Option(help=f"With --nodes: their classes, -1 for none: {LISTED}.")] = None,
    edges: Annotated[str | None, typer.Option(help="3-5,7-9, or a CSV file of pairs u,v; new nodes among them.")] = None,
    key: Key = None,
    device: Where = None,
) -> None:
    """Let the graph grow, durably: nodes first, then edges. New nodes are numbered on; those with a class are trained on."""
    from nareg import unlearning

    if nodes is None and edges is None:
        raise InputError("name something to add: --nodes or --edges.")
    if labels is not None and nodes is None:
        raise InputError("--labels goes with --nodes: give the features of the nodes that they are of.")
    X, y = None if nodes is None else _matrix(nodes), None if labels is None else _numbers(labels)
    pairs = None if edges is None else _pairs(edges)
    model = unlearning.CertifiedGPR.load(store, key=key, device=device)
    try:
        added = ""
        if X is not None:
            first = model.n_nodes
            certificate = model.add_nodes(X, labels=y)
            added = f"nodes {first} to {model.n_nodes - 1} were added"
            console.print(escape(f"{certificate.summary()}\n{added}"), soft_wrap=True)
        if pairs is not None:
            try:
                console.print(escape(model.add_edges(pairs).summary()), soft_wrap=True)
            except InputError as error:
                if not added:
                    raise
                raise InputError(f"{error} No edge was added; {added} and stay: run again without --nodes.") from None
    finally:
        model.close()


@unlearn_app.command("predict", epilog="Example: nareg unlearn predict service.store --out classes.csv")
def predict(store: Store, out: Annotated[Path, typer.Option(help="CSV: node, class.")] = Path("classes.csv")) -> None:
    """Write the class of every node that remains."""
    from nareg import unlearning
    from nareg.results import atomic_write

    if out.exists() and (not store.exists() or out.samefile(store)):
        raise InputError(f"--out {out} is the store: name another file.")
    ledger = unlearning.Ledger(store)
    stored = ledger.read()
    ledger.close()
    model = unlearning.CertifiedGPR.of(stored)
    rows = "".join(f"{node},{label}\n" for node, label in zip(model.remaining, model.predict(model.remaining), strict=True))
    with atomic_write(out) as handle:
        handle.write(f"node,class\n{rows}".encode())
    console.print(f"written: {escape(str(out))}", soft_wrap=True)


@unlearn_app.command("certificate", epilog="Example: nareg unlearn certificate service.store --out certificates.json")
def certificate(
    store: Store, out: Annotated[Path | None, typer.Option(help="All certificates with their keyed hashes, as JSON.")] = None
) -> None:
    """Print the last certificate."""
    from nareg import unlearning
    from nareg.results import atomic_write

    ledger = unlearning.Ledger(store)
    history = ledger.history()
    ledger.close()
    console.print(f"{len(history)} requests, the saving of the store counted")
    last = history[-1][1]
    console.print(escape("no certificate" if last is None else last.summary()), soft_wrap=True)
    if out is not None:
        rows = [{"digest": digest, "certificate": None if told is None else asdict(told)} for digest, told in history]
        with atomic_write(out) as handle:
            handle.write((json.dumps(rows, indent=1) + "\n").encode())
        console.print(f"written: {escape(str(out))}", soft_wrap=True)


@unlearn_app.command("verify", epilog="Example: nareg unlearn verify service.store")
def verify(store: Store, key: Key = None, device: Where = None) -> None:
    """Propagate and train anew from what remains, and compare; exit status 1 if the last certificate does not hold."""
    from nareg import unlearning

    found = unlearning.verify(store, key=key, device=device)
    console.print(escape(found.summary()), soft_wrap=True)
    if not found.holds:
        raise typer.Exit(1)


def _graph(path: Path, n_nodes: int) -> Any:
    import scipy.sparse as sp

    from nareg import io
    from nareg.graph import Graph

    if path.suffix == ".mtx":
        return Graph(io.read_adjacency(path))
    pairs = _pairs(str(path))
    if pairs.min() < 0 or pairs.max() >= n_nodes:
        bad = pairs.max() if pairs.max() >= n_nodes else pairs.min()
        raise InputError(f"{path} names node {bad} but there are features of nodes 0 to {n_nodes - 1}.")
    ends = np.concatenate([pairs, pairs[:, ::-1]])
    adjacency = sp.csr_array((np.ones(len(ends)), (ends[:, 0], ends[:, 1])), shape=(n_nodes, n_nodes))
    adjacency.sum_duplicates()
    adjacency.data[:] = 1.0
    return Graph(adjacency)


def _matrix(path: Path) -> Any:
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


def _labels(path: Path, n_nodes: int) -> tuple[np.ndarray, np.ndarray]:
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


def _numbers(text: str) -> np.ndarray:
    """Node numbers from "3,5", or from a file with one a line, a heading allowed."""
    parts = _lines(text) or list(enumerate(text.split(","), start=1))
    return np.array([_integer(part, text, k) for k, part in parts], dtype=np.int64)


def _pairs(text: str) -> np.ndarray:
    """Pairs from "3-5,7-9", or from a file with "u,v" a line, a heading allowed."""
    lines = _lines(text)
    parts, apart = (lines, ",") if lines else (list(enumerate(text.split(","), start=1)), "-")
    pairs = [[_integer(end, text, k) for end in part.split(apart)] for k, part in parts]
    if not pairs or any(len(pair) != 2 for pair in pairs):
        raise InputError(f"{text}: pairs of nodes are expected, 3-5,7-9 or a CSV file with u,v a line.")
    return np.array(pairs, dtype=np.int64)


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
