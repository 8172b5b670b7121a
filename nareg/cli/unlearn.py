"""``nareg unlearn fit | remove | add | preview | predict | certificate | prove | renew | verify | compare``."""

from __future__ import annotations

import json
import warnings
from dataclasses import asdict, astuple, fields
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
import typer
from rich.markup import escape
from rich.table import Table

from nareg.cli import node_files as read
from nareg.cli.inputs import console, errors, output, progress_bar
from nareg.errors import InputError, NaregError

if TYPE_CHECKING:
    from nareg.unlearning.peers import comparison

unlearn_app = typer.Typer(no_args_is_help=True, help="Train a node classifier that forgets on request, with a certificate.")

Store = Annotated[Path, typer.Argument(help="The store: what remains, the model and the requests, in one file.")]
Key = Annotated[Path | None, typer.Option(help="File of the key of the store's hashes; by default STORE.key.")]
Where = Annotated[str | None, typer.Option(help="A device of torch, say cuda, for training and whole propagations.")]
GraphFile = Annotated[Path | None, typer.Argument(help="MatrixMarket adjacency (.mtx), or a CSV of pairs u,v.")]
FeaturesFile = Annotated[Path | None, typer.Argument(help="A row a node: .npy, .mtx, or .npz as SciPy saves it.")]
LabelsFile = Annotated[Path | None, typer.Argument(help="CSV: node, label, train (0 or 1); empty label = none.")]
Named = Annotated[str | None, typer.Option(help="In the place of the files: a data set with its first split.")]
Order = Annotated[int, typer.Option(help="Hops that features travel.")]
Weights = Annotated[str | None, typer.Option(help="Of hops 0, 1, ..., with commas, in the place of --order: 0.2,0.3,0.5.")]
LossName = Annotated[str, typer.Option("--loss", help="logistic or squared.")]
Lam = Annotated[float, typer.Option(help="Ridge a training node.")]
Alpha = Annotated[float, typer.Option(help="Deviation of the random term that hides what is forgotten.")]
Eps = Annotated[float, typer.Option(help="Of the certificates.")]
Delta = Annotated[float, typer.Option(help="Of the certificates.")]
Edges = Annotated[str | None, typer.Option(help="3-5,7-9, or a CSV file of pairs u,v.")]
#: Of the named options: "3,5" or a file with a number, or two, a line.
LISTED = "numbers with commas, or a CSV file with one a line"
Nodes = Annotated[str | None, typer.Option(help=f"Nodes with edges, features and labels: {LISTED}.")]
Features = Annotated[str | None, typer.Option(help=f"Nodes whose features go: {LISTED}.")]
WithLabels = Annotated[bool, typer.Option("--labels", help="With --features: their labels as well.")]


@unlearn_app.command("fit", epilog="Example: nareg unlearn fit service.store graph.mtx features.npy labels.csv")
def fit(
    store: Store,
    graph: GraphFile = None,
    features: FeaturesFile = None,
    labels: LabelsFile = None,
    dataset: Named = None,
    order: Order = 2,
    weights: Weights = None,
    loss: LossName = "logistic",
    lam: Lam = 1e-2,
    alpha: Alpha = 0.1,
    eps: Eps = 1.0,
    delta: Delta = 1e-4,
    r_max: Annotated[float, typer.Option(help="Residues up to this wait; 0: exact.")] = 0.0,
    classes: Annotated[
        str | None, typer.Option(help=f"All that there can be, so that one may lose its last training node: {LISTED}.")
    ] = None,
    key: Key = None,
    device: Where = None,
) -> None:
    """Train, and write the store. Scale features node by node beforehand, never by columns: that would carry deleted data."""
    from nareg import unlearning
    from nareg.unlearning.store.files import refuse_taken

    model = unlearning.CertifiedGPR(
        order=order,
        weights=_weights(weights),
        loss=loss,
        lam=lam,
        alpha=alpha,
        eps=eps,
        delta=delta,
        r_max=r_max,
        device=device,
    )
    if alpha == 0:
        raise InputError("--alpha is 0: without a random term nothing could ever be removed with a certificate.")
    refuse_taken(store, key)  # before the training, not after
    data, told = _data(graph, features, labels, dataset), None if classes is None else read.numbers(classes)
    with errors.status("propagating and training"), warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        model.fit(*data, classes=told)
    for warning in caught:
        errors.print(f"[yellow]warning:[/] {escape(str(warning.message))}", soft_wrap=True)
    with errors.status("writing"):
        model.save(store, key=key).close()
    console.print(escape(model.certificate().summary()), soft_wrap=True)
    where = key or f"{store}.key"
    console.print(f"written: {escape(str(store))}, and the key of its hashes: {escape(str(where))}", soft_wrap=True)


@unlearn_app.command("remove", epilog="Example: nareg unlearn remove service.store --nodes 17,30 --edges 3-5")
def remove(
    store: Store,
    edges: Edges = None,
    nodes: Nodes = None,
    features: Features = None,
    labels: WithLabels = False,
    renew: Annotated[bool, typer.Option("--renew", help="Afterwards train anew with a new random term.")] = False,
    key: Key = None,
    device: Where = None,
) -> None:
    """Forget, durably, and print the certificate of each request."""
    if edges is None and nodes is None and features is None:
        raise InputError("name something to remove: --edges, --nodes or --features.")
    if labels and features is None:
        raise InputError("--labels goes with --features: name the nodes whose features and labels go.")
    wanted = (
        None if edges is None else read.pairs(edges),
        *(None if t is None else read.numbers(t) for t in (nodes, features)),
    )
    model = _loaded(store, key, device)
    acts = {
        "edges": model.remove_edges,
        "nodes": model.remove_nodes,
        "features": lambda index: model.remove_features(index, labels=labels),
    }
    done: list[str] = []
    try:
        for (name, act), what in zip(acts.items(), wanted, strict=True):
            if what is not None:
                with errors.status(f"forgetting the {name}"):
                    certificate = act(what)
                console.print(escape(certificate.summary()), soft_wrap=True)
                done.append(f"the {name}")
        if renew:
            _renewed(model)
    except NaregError as error:
        raise _after(error, done, "were removed") from None
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
    if nodes is None and edges is None:
        raise InputError("name something to add: --nodes or --edges.")
    if labels is not None and nodes is None:
        raise InputError("--labels goes with --nodes: give the features of the nodes that they are of.")
    X, y = None if nodes is None else read.matrix(nodes), None if labels is None else read.numbers(labels)
    pairs = None if edges is None else read.pairs(edges)
    model = _loaded(store, key, device)
    done: list[str] = []
    try:
        if X is not None:
            first = model.n_nodes
            with errors.status("adding the nodes"):
                certificate = model.add_nodes(X, labels=y)
            done.append(f"nodes {first} to {model.n_nodes - 1}")
            console.print(escape(f"{certificate.summary()}\n{done[0]} were added"), soft_wrap=True)
        if pairs is not None:
            with errors.status("adding the edges"):
                certificate = model.add_edges(pairs)
            console.print(escape(certificate.summary()), soft_wrap=True)
    except NaregError as error:
        raise _after(error, done, "were added") from None
    finally:
        model.close()


def _after(error: NaregError, done: list[str], what: str) -> NaregError:
    """An error, and what was carried out for good before it."""
    return NaregError(f"{error} Before that {' and '.join(done)} {what}, and stay so: do not ask again.") if done else error


@unlearn_app.command("preview", epilog="Example: nareg unlearn preview service.store --edge 3-5")
def preview(store: Store, edge: Annotated[str, typer.Option(help="3-5: one edge.")]) -> None:
    """Print what the removal of an edge would do to the scores, by its factors of low rank; nothing is changed."""
    pair, model = read.pairs(edge), _stored(store)
    change = model.preview(pair)
    before, moved = model.decision(change.nodes), change.apply(model.coefficients)
    others = np.count_nonzero(model.class_of(before + moved) != model.class_of(before))
    console.print(
        f"{change.nodes.size} nodes are within reach; with the coefficients as they are, scores move by "
        f"{np.abs(moved).max(initial=0):.3g} at most, and {others} nodes change class",
        soft_wrap=True,
    )


@unlearn_app.command("predict", epilog="Example: nareg unlearn predict service.store --out classes.csv")
def predict(store: Store, out: Annotated[Path, typer.Option(help="CSV: node, class.")] = Path("classes.csv")) -> None:
    """Write the class of every node that remains."""
    from nareg.results import atomic_write
    from nareg.unlearning.store.files import key_file

    output(out, (".csv",), store, key_file(store))
    model = _stored(store)
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
    from nareg.unlearning.store.files import key_file

    if out is not None:
        output(out, (".json",), store, key_file(store))
    ledger = unlearning.Ledger(store)
    try:
        history = ledger.history()
    finally:
        ledger.close()
    console.print(f"{len(history)} requests, the saving of the store counted")
    last = history[-1][1]
    console.print(escape("no certificate" if last is None else last.summary()), soft_wrap=True)
    if out is not None:
        rows = [{"digest": digest, "certificate": None if told is None else asdict(told)} for digest, told in history]
        with atomic_write(out) as handle:
            handle.write((json.dumps(rows, indent=1) + "\n").encode())
        console.print(f"written: {escape(str(out))}", soft_wrap=True)


@unlearn_app.command("prove", epilog="Example: nareg unlearn prove service.store --edges 3-5")
def prove(
    store: Store,
    edges: Edges = None,
    nodes: Nodes = None,
    features: Features = None,
    labels: WithLabels = False,
    key: Key = None,
) -> None:
    """Show which request removed just this, by its keyed hash; exit status 1 if none did. A request is shown whole or not."""
    from nareg import unlearning

    if sum(named is not None for named in (edges, nodes, features)) != 1:
        raise InputError("name one request: --edges, --nodes or --features, all that it removed.")
    if labels and features is None:
        raise InputError("--labels goes with --features.")
    if edges is not None:
        told: dict[str, Any] = {"request": "remove_edges", "edges": read.pairs(edges)}
    elif nodes is not None:
        told = {"request": "remove_nodes", "nodes": read.numbers(nodes)}
    else:
        told = {"request": "remove_features", "nodes": read.numbers(str(features)), "labels": labels}
    ledger = unlearning.Ledger(store, key)
    try:
        found, history = ledger.find(told), ledger.history()
    finally:
        ledger.close()
    for number in found:
        made = history[number][1]
        console.print(escape(f"request {number}: {'no certificate' if made is None else made.summary()}"), soft_wrap=True)
    if not found:
        console.print("no request of this store removed just this, together", soft_wrap=True)
        raise typer.Exit(1)


@unlearn_app.command("renew", epilog="Example: nareg unlearn renew service.store")
def renew(store: Store, key: Key = None, device: Where = None) -> None:
    """Train anew with a new random term, durably: before another version is published, for two with one term tell too much."""
    model = _loaded(store, key, device)
    try:
        _renewed(model)
    finally:
        model.close()


@unlearn_app.command("verify", epilog="Example: nareg unlearn verify service.store")
def verify(store: Store, key: Key = None, device: Where = None) -> None:
    """Propagate and train anew from what remains, and compare; exit status 1 if the last certificate does not hold."""
    from nareg import unlearning

    with errors.status("propagating and training anew"):
        found = unlearning.verify(store, key=key, device=device)
    console.print(escape(found.summary()), soft_wrap=True)
    if not found.holds:
        raise typer.Exit(1)


@unlearn_app.command("compare", epilog="Example: nareg unlearn compare graph.mtx features.npy labels.csv --random 20 --deep")
def compare(
    graph: GraphFile = None,
    features: FeaturesFile = None,
    labels: LabelsFile = None,
    dataset: Named = None,
    edges: Edges = None,
    nodes: Nodes = None,
    random: Annotated[int | None, typer.Option(help="So many random edges, in the place of named ones; 20.", min=1)] = None,
    deep: Annotated[bool, typer.Option("--deep", help="Perceptrons as well, which certify nothing; needs torch.")] = False,
    order: Order = 2,
    weights: Weights = None,
    loss: LossName = "logistic",
    lam: Lam = 1e-2,
    alpha: Alpha = 0.1,
    eps: Eps = 1.0,
    delta: Delta = 1e-4,
    device: Where = None,
    seed: Annotated[int, typer.Option(help="Of the random edges and of training.", min=0)] = 0,
    out: Annotated[Path | None, typer.Option(help="The table as CSV.")] = None,
) -> None:
    """Have several methods forget the same edges, then nodes, one by one: seconds, accuracy, and what is certified.

    Nothing is kept: choose with it, then fit. Nodes with a label that are not trained on are the test.
    """
    from nareg.results import upper_edges
    from nareg.unlearning.peers import comparison

    if out is not None:
        output(out, (".csv",), *(path for path in (graph, features, labels) if path is not None))
    if random is not None and (edges is not None or nodes is not None):
        raise InputError("--random goes without --edges and --nodes: it is in their place.")
    hops = _weights(weights)
    pairs = () if edges is None else read.pairs(edges)
    gone = () if nodes is None else read.numbers(nodes)
    data, rng = _data(graph, features, labels, dataset), np.random.default_rng(seed)
    if edges is None and nodes is None:
        every = np.stack(upper_edges(data[0].adjacency), axis=1)
        if not len(every):
            raise InputError("the graph has no edges to remove: name nodes with --nodes.")
        pairs = rng.permutation(every)[: random or 20]
    methods = (*comparison.CERTIFIED, *(comparison.DEEP if deep else ()))
    found: list[comparison.Compared] = []
    try:
        with progress_bar() as bar:
            lines = {method: bar.add_task(method, total=None, start=False) for method in methods}

            def progress(method: str, done: int, total: int) -> None:
                bar.start_task(lines[method])
                bar.update(lines[method], completed=done, total=total)

            found.extend(
                comparison.compare(
                    *data, edges=pairs, nodes=gone, methods=methods, order=order, weights=hops, loss=loss, lam=lam,
                    alpha=alpha, eps=eps, delta=delta, device=device, rng=rng, progress=progress,
                )
            )  # fmt: skip
    except KeyboardInterrupt:
        errors.print("interrupted: the methods that were done are shown")
        raise typer.Exit(130) from None
    finally:
        _show(found, len(pairs) + len(gone), out)


def _show(found: list[comparison.Compared], requests: int, out: Path | None) -> None:
    """As a table, and as CSV."""
    from nareg.io import write_rows
    from nareg.unlearning.peers.comparison import Compared

    if not found:
        return
    table = Table(title=f"{requests} requests: test accuracy, and seconds in the median", title_justify="left")
    for heading in ("method", "before", "after", "trained", "request", "propagated", "budget", "anew"):
        table.add_column(heading, justify="left" if heading == "method" else "right")
    for one in found:
        seconds = (f"{value:.2g}" if value < 100 else f"{value:.0f}" for value in (one.fit, one.seconds, one.propagation))
        spent = ("none", "-") if one.spent is None else (f"{one.spent:.1%}", str(one.retrained))
        accuracy = ("-" if np.isnan(share) else f"{share:.1%}" for share in (one.before, one.after))
        table.add_row(one.method, *accuracy, *seconds, *spent)
    console.print(table)
    console.print(
        "propagated: seconds of a request's propagation; budget: the most that a certificate took; anew: models retrained"
    )
    if out is not None:
        write_rows(out, [field.name for field in fields(Compared)], map(astuple, found))
        console.print(f"written: {escape(str(out))}", soft_wrap=True)


def _data(graph: Path | None, features: Path | None, labels: Path | None, dataset: str | None) -> tuple[Any, Any, Any, Any]:
    """Graph, features, labels and training nodes, of files or of a data set."""
    from nareg import datasets

    if dataset is not None:
        if graph is not None:
            raise InputError("--dataset is in the place of the files: give one or the other.")
        data = datasets.load(dataset)
        if not isinstance(data, datasets.NodeClassification) or not data.splits:
            raise InputError(f"--dataset {dataset}: that is no node classification data set with a split.")
        return data.graph, data.features, data.labels, data.splits[0][0]
    if graph is None or features is None or labels is None:
        raise InputError("give graph, features and labels, three files, or --dataset.")
    X = read.matrix(features)
    y, train = read.labels(labels, X.shape[0])
    return read.graph(graph, X.shape[0]), X, y, train


def _weights(text: str | None) -> np.ndarray | None:
    """From "0.2,0.3,0.5"."""
    if text is None:
        return None
    try:
        return np.array([float(part) for part in text.split(",")])
    except ValueError:
        raise InputError(f"--weights {text}: numbers with commas are expected, say 0.2,0.3,0.5.") from None


def _stored(store: Path) -> Any:
    """The model of a store, to look at."""
    from nareg import unlearning

    ledger = unlearning.Ledger(store)
    try:
        with errors.status("propagating what remains"):
            return unlearning.CertifiedGPR.from_stored(ledger.read())
    finally:
        ledger.close()


def _loaded(store: Path, key: Path | None, device: str | None) -> Any:
    """The model of a store, to go on with."""
    from nareg import unlearning

    with errors.status("propagating what remains"):
        return unlearning.CertifiedGPR.load(store, key=key, device=device)


def _renewed(model: Any) -> None:
    """Train anew, and say so."""
    with errors.status("training"):
        certificate = model.renew()
    console.print(escape(certificate.summary()), soft_wrap=True)
