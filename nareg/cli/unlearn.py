"""``nareg unlearn fit | remove | add | preview | predict | certificate | prove | renew | verify | compare``."""

from __future__ import annotations

import json
import warnings
from dataclasses import asdict
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
    from nareg.progress import Progress
    from nareg.unlearning.peers import comparison
    from nareg.unlearning.store.entries import RequestDetails

unlearn_app = typer.Typer(no_args_is_help=True, help="Train a node classifier and remove data from it with certificates.")

Store = Annotated[Path, typer.Argument(help="Store file with the remaining data, the model and its requests.")]
Key = Annotated[Path | None, typer.Option(help="File with the key of the store's hashes; default STORE.key.")]
Where = Annotated[str | None, typer.Option(help="Torch device, such as cuda, for training and full propagation.")]
GraphFile = Annotated[Path | None, typer.Argument(help="Adjacency in MatrixMarket (.mtx), or CSV of pairs u,v.")]
FeaturesFile = Annotated[Path | None, typer.Argument(help="One row per node: .npy, .mtx, or .npz from scipy.sparse.save_npz.")]
LabelsFile = Annotated[Path | None, typer.Argument(help="CSV with columns node, label (empty for none), train (0 or 1).")]
Named = Annotated[str | None, typer.Option(help="Data set, with its first split, instead of the files.")]
Order = Annotated[int, typer.Option(help="Number of propagation steps.")]
Weights = Annotated[str | None, typer.Option(help="Weights of steps 0, 1, ..., instead of --order: 0.2,0.3,0.5.")]
LossName = Annotated[str, typer.Option("--loss", help="Loss: logistic or squared.")]
Lam = Annotated[float, typer.Option(help="Ridge per training node.")]
Alpha = Annotated[float, typer.Option(help="Standard deviation of the noise term that hides removed data.")]
Eps = Annotated[float, typer.Option(help="Privacy loss epsilon that each certificate guarantees.")]
Delta = Annotated[float, typer.Option(help="Probability delta that the guarantee fails.")]
Edges = Annotated[str | None, typer.Option(help="Edges: 3-5,7-9, or a CSV file of pairs u,v.")]
#: Format of the options that list nodes.
LISTED = "3,5, or a CSV file with one number per line"
Nodes = Annotated[str | None, typer.Option(help=f"Nodes, with their edges, features and labels: {LISTED}.")]
Features = Annotated[str | None, typer.Option(help=f"Nodes whose features to remove: {LISTED}.")]
WithLabels = Annotated[bool, typer.Option("--labels", help="Remove the labels of the --features nodes, too.")]


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
    r_max: Annotated[float, typer.Option(help="Residuals below this are not pushed; 0 (default) is exact.")] = 0.0,
    classes: Annotated[
        str | None, typer.Option(help=f"All possible classes, so that one may lose its last training node: {LISTED}.")
    ] = None,
    key: Key = None,
    device: Where = None,
) -> None:
    """Train a model and write its store. Scale features per node, never per column: column statistics retain removed data."""
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
        raise InputError("--alpha is 0: without a noise term no removal can be certified; pass a value above 0.")
    refuse_taken(store, key)  # before the training, not after
    data, known = _data(graph, features, labels, dataset), None if classes is None else read.numbers(classes)
    with errors.status("propagating and training"), warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        model.fit(*data, classes=known)
    for warning in caught:
        errors.print(f"[yellow]warning:[/] {escape(str(warning.message))}", soft_wrap=True)
    with errors.status("writing"):
        model.save(store, key=key).close()
    console.print(escape(model.certificate().summary()), soft_wrap=True)
    where = key or f"{store}.key"
    console.print(f"written: {escape(str(store))}; key of its hashes: {escape(str(where))}", soft_wrap=True)


@unlearn_app.command("remove", epilog="Example: nareg unlearn remove service.store --nodes 17,30 --edges 3-5")
def remove(
    store: Store,
    edges: Edges = None,
    nodes: Nodes = None,
    features: Features = None,
    labels: WithLabels = False,
    renew: Annotated[bool, typer.Option("--renew", help="Then retrain with a new noise term.")] = False,
    key: Key = None,
    device: Where = None,
) -> None:
    """Remove edges, nodes or features durably, and print a certificate per request."""
    if edges is None and nodes is None and features is None:
        raise InputError("nothing to remove: pass --edges, --nodes or --features.")
    if labels and features is None:
        raise InputError("--labels needs --features: pass the nodes whose features and labels to remove.")
    items = (
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
        for (name, act), value in zip(acts.items(), items, strict=True):
            if value is not None:
                with errors.status(f"removing the {name}"):
                    certificate = act(value)
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
    nodes: Annotated[Path | None, typer.Option(help="Features, one row per new node: .npy, .mtx or .npz.")] = None,
    labels: Annotated[str | None, typer.Option(help=f"Classes of the new nodes, -1 for none: {LISTED}.")] = None,
    edges: Annotated[str | None, typer.Option(help="Edges, also of new nodes: 3-5,7-9, or a CSV file of pairs u,v.")] = None,
    key: Key = None,
    device: Where = None,
) -> None:
    """Add nodes, then edges, durably. New nodes are numbered after the others; those with a class are trained on."""
    if nodes is None and edges is None:
        raise InputError("nothing to add: pass --nodes or --edges.")
    if labels is not None and nodes is None:
        raise InputError("--labels needs --nodes: pass the features of the labeled nodes.")
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


def _after(error: NaregError, done: list[str], verb: str) -> NaregError:
    """The error, with what was carried out before it."""
    return NaregError(f"{error} Before that {' and '.join(done)} {verb}: do not repeat them.") if done else error


@unlearn_app.command("preview", epilog="Example: nareg unlearn preview service.store --edge 3-5")
def preview(store: Store, edge: Annotated[str, typer.Option(help="One edge, as 3-5.")]) -> None:
    """Print how the removal of an edge would change the scores, from its low-rank factors. The store stays as it is."""
    pair, model = read.pairs(edge), _stored(store)
    change = model.preview(pair)
    before, moved = model.decision(change.nodes), change.apply(model.coefficients)
    others = np.count_nonzero(model.class_of(before + moved) != model.class_of(before))
    console.print(
        f"{change.nodes.size} nodes are within reach; with the present coefficients, scores move by "
        f"{np.abs(moved).max(initial=0):.3g} at most, and {others} nodes change class",
        soft_wrap=True,
    )


@unlearn_app.command("predict", epilog="Example: nareg unlearn predict service.store --out classes.csv")
def predict(store: Store, out: Annotated[Path, typer.Option(help="CSV file: node, class.")] = Path("classes.csv")) -> None:
    """Write the predicted class of every remaining node."""
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
    store: Store,
    out: Annotated[Path | None, typer.Option(help="JSON file for all certificates with their hashes.")] = None,
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
    console.print(f"{len(history)} requests, including the saving of the store")
    last = history[-1][1]
    console.print(escape("no certificate" if last is None else last.summary()), soft_wrap=True)
    if out is not None:
        rows = [{"digest": digest, "certificate": None if issued is None else asdict(issued)} for digest, issued in history]
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
    """Show by its keyed hash which request removed exactly this; exit status 1 if none did. Pass all that it removed."""
    from nareg import unlearning

    if sum(named is not None for named in (edges, nodes, features)) != 1:
        raise InputError("pass one of --edges, --nodes and --features, with all that the request removed.")
    if labels and features is None:
        raise InputError("--labels needs --features.")
    if edges is not None:
        request: RequestDetails = {"request": "remove_edges", "edges": read.pairs(edges)}
    elif nodes is not None:
        request = {"request": "remove_nodes", "nodes": read.numbers(nodes)}
    else:
        request = {"request": "remove_features", "nodes": read.numbers(str(features)), "labels": labels}
    ledger = unlearning.Ledger(store, key)
    try:
        numbers, history = ledger.find(request), ledger.history()
    finally:
        ledger.close()
    for number in numbers:
        issued = history[number][1]
        console.print(escape(f"request {number}: {'no certificate' if issued is None else issued.summary()}"), soft_wrap=True)
    if not numbers:
        console.print("no request of this store removed exactly this", soft_wrap=True)
        raise typer.Exit(1)


@unlearn_app.command("renew", epilog="Example: nareg unlearn renew service.store")
def renew(store: Store, key: Key = None, device: Where = None) -> None:
    """Retrain durably with a new noise term, before you publish another version.

    Two models that share a noise term reveal what was removed between them: retrain with a new one.
    """
    model = _loaded(store, key, device)
    try:
        _renewed(model)
    finally:
        model.close()


@unlearn_app.command("verify", epilog="Example: nareg unlearn verify service.store")
def verify(store: Store, key: Key = None, device: Where = None) -> None:
    """Propagate and train again from the remaining data, and compare; exit status 1 if the last certificate does not hold."""
    from nareg import unlearning

    with errors.status("propagating and training"):
        result = unlearning.verify(store, key=key, device=device)
    console.print(escape(result.summary()), soft_wrap=True)
    if not result.holds:
        raise typer.Exit(1)


@unlearn_app.command("compare", epilog="Example: nareg unlearn compare graph.mtx features.npy labels.csv --random 20 --deep")
def compare(
    graph: GraphFile = None,
    features: FeaturesFile = None,
    labels: LabelsFile = None,
    dataset: Named = None,
    edges: Edges = None,
    nodes: Nodes = None,
    random: Annotated[int | None, typer.Option(help="Number of random edges, if none are named; 20.", min=1)] = None,
    deep: Annotated[bool, typer.Option("--deep", help="Compare perceptrons, too, which certify nothing; needs torch.")] = False,
    order: Order = 2,
    weights: Weights = None,
    loss: LossName = "logistic",
    lam: Lam = 1e-2,
    alpha: Alpha = 0.1,
    eps: Eps = 1.0,
    delta: Delta = 1e-4,
    device: Where = None,
    seed: Annotated[int, typer.Option(help="Seed of the random edges and of training.", min=0)] = 0,
    out: Annotated[Path | None, typer.Option(help="CSV file for the table.")] = None,
) -> None:
    """Remove the same edges, then nodes, one by one with several methods: seconds, accuracy and certificates.

    No model is stored. Labeled nodes that are not trained on are the test nodes.
    """
    from nareg.results import upper_edges
    from nareg.unlearning import CertifiedGPR
    from nareg.unlearning.peers import comparison

    if out is not None:
        output(out, (".csv",), *(path for path in (graph, features, labels) if path is not None))
    if random is not None and (edges is not None or nodes is not None):
        raise InputError("--random replaces --edges and --nodes: pass one or the other.")
    model = CertifiedGPR(order=order, weights=_weights(weights), loss=loss, lam=lam, alpha=alpha, eps=eps, delta=delta)
    pairs: np.ndarray | tuple[()] = () if edges is None else read.pairs(edges)
    removed: np.ndarray | tuple[()] = () if nodes is None else read.numbers(nodes)
    data, rng = _data(graph, features, labels, dataset), np.random.default_rng(seed)
    if edges is None and nodes is None:
        every = np.stack(upper_edges(data[0].adjacency), axis=1)
        if not len(every):
            raise InputError("the graph has no edges to remove: pass --nodes.")
        pairs = rng.permutation(every)[: random or 20]
    methods = (*comparison.CERTIFIED, *(comparison.DEEP if deep else ()))
    rows: list[comparison.ComparedMethod] = []
    try:
        with progress_bar() as bar:
            tasks = {method: bar.add_task(method, total=None, start=False) for method in methods}

            def show(report: Progress) -> None:
                bar.start_task(tasks[report.stage])
                bar.update(tasks[report.stage], completed=report.step, total=report.total)

            rows.extend(
                comparison.compare(
                    *data, edges=pairs, nodes=removed, methods=methods, model=model, device=device, rng=rng, progress=show
                )
            )
    except KeyboardInterrupt:
        errors.print("interrupted: the table shows the finished methods")
        raise typer.Exit(130) from None
    finally:
        _show(rows, len(pairs) + len(removed), out)


def _show(rows: list[comparison.ComparedMethod], requests: int, out: Path | None) -> None:
    """Print the table, and write it as CSV."""
    from nareg.io import write_rows

    if not rows:
        return
    table = Table(
        title=f"{requests} requests: test accuracy, median seconds", title_justify="left", pad_edge=False, collapse_padding=True
    )
    for heading in ("method", "before", "after", "fit", "request", "propagation", "budget", "retrained"):
        table.add_column(heading, justify="left" if heading == "method" else "right")
    for one in rows:
        seconds = (f"{value:.2g}" if value < 100 else f"{value:.0f}" for value in one.timings.values())
        spent = ("none", "-") if one.spent is None else (f"{one.spent:.1%}", str(one.retrained))
        accuracy = ("-" if np.isnan(share) else f"{share:.1%}" for share in (one.before, one.after))
        table.add_row(one.method, *accuracy, *seconds, *spent)
    console.print(table)
    console.print(
        "propagation: its seconds per request; budget: largest share that a certificate used; retrained: number of requests"
    )
    if out is not None:
        header = ["method", "before", "after", *rows[0].timings, "spent", "retrained"]
        write_rows(out, header, [(r.method, r.before, r.after, *r.timings.values(), r.spent, r.retrained) for r in rows])
        console.print(f"written: {escape(str(out))}", soft_wrap=True)


def _data(graph: Path | None, features: Path | None, labels: Path | None, dataset: str | None) -> tuple[Any, Any, Any, Any]:
    """Graph, features, labels and training nodes, from files or a data set."""
    from nareg import datasets

    if dataset is not None:
        if graph is not None:
            raise InputError("--dataset replaces the files: pass one or the other.")
        data = datasets.load(dataset)
        if not isinstance(data, datasets.NodeClassification) or not data.splits:
            raise InputError(f"--dataset {dataset}: not a node classification data set with a split; see nareg datasets list.")
        return data.graph, data.features, data.labels, data.splits[0][0]
    if graph is None or features is None or labels is None:
        raise InputError("data are missing: pass the files graph, features and labels, or --dataset.")
    X = read.matrix(features)
    y, train = read.labels(labels, X.shape[0])
    return read.graph(graph, X.shape[0]), X, y, train


def _weights(text: str | None) -> np.ndarray | None:
    """Weights of "0.2,0.3,0.5"."""
    if text is None:
        return None
    try:
        return np.array([float(part) for part in text.split(",")])
    except ValueError:
        raise InputError(f"--weights {text}: numbers separated by commas are expected, as 0.2,0.3,0.5.") from None


def _stored(store: Path) -> Any:
    """The model of a store, to read from."""
    from nareg import unlearning

    ledger = unlearning.Ledger(store)
    try:
        with errors.status("propagating the remaining data"):
            return unlearning.CertifiedGPR.from_stored(ledger.read())
    finally:
        ledger.close()


def _loaded(store: Path, key: Path | None, device: str | None) -> Any:
    """The model of a store, for further requests."""
    from nareg import unlearning

    with errors.status("propagating the remaining data"):
        return unlearning.CertifiedGPR.load(store, key=key, device=device)


def _renewed(model: Any) -> None:
    """Retrain, and print the certificate."""
    with errors.status("training"):
        certificate = model.renew()
    console.print(escape(certificate.summary()), soft_wrap=True)
