"""``nareg unlearn fit | remove | add | preview | predict | certificate | prove | renew | verify | compare``."""

from __future__ import annotations

import json
import warnings
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, cast

import numpy as np
import typer

from nareg.cli import node_files as read
from nareg.cli.inputs import errors, grouped, output, print_line, print_message
from nareg.cli.node_files import LISTED, DataFiles, Key, ModelOptions, Removal, Store, Where
from nareg.cli.unlearn_compare import compare
from nareg.errors import InputError, NaregError

if TYPE_CHECKING:
    from nareg.unlearning import Certificate
    from nareg.unlearning.store.entries import RequestDetails

#: Rows of the embedding that are classified at a time.
ROWS = 2**16

unlearn_app = typer.Typer(
    add_completion=False, no_args_is_help=True, help="Train a node classifier and remove data from it with certificates."
)


@unlearn_app.command("fit", epilog="Example: nareg unlearn fit service.store graph.mtx features.npy labels.csv")
@grouped
def fit(
    store: Store,
    files: DataFiles,
    options: ModelOptions,
    r_max: Annotated[float, typer.Option(help="Residuals below this are not pushed; 0 (default) is exact.")] = 0.0,
    classes: Annotated[
        str | None, typer.Option(help=f"All possible classes, so that one may lose its last training node: {LISTED}.")
    ] = None,
    folder: Annotated[
        bool, typer.Option("--folder", help="Write a folder of memory-mapped files, for graphs larger than memory.")
    ] = False,
    memory: Annotated[
        int | None, typer.Option(help="With --folder: MiB for propagation through the whole graph.", min=1)
    ] = None,
    key: Key = None,
    device: Where = None,
) -> None:
    """Train a model and write its store. Scale features per node: statistics per column retain removed data."""
    from nareg.unlearning.store.keys import refuse_taken

    if memory is not None and not folder:
        raise InputError("--memory is for --folder: pass both.")
    model = options.model(r_max=r_max, device=device, folder=store if folder else None)
    if options.certifies_nothing:
        raise InputError("--alpha is 0, so that no removal can be certified: pass a value above 0.")
    if folder and key is not None:
        raise InputError("--key is given, but a folder keeps no hashes: leave it out.")
    # before the training, not after
    if not folder:
        refuse_taken(store, key)
    elif store.exists():
        raise InputError(f"{store} exists: pass a new path, or delete it.")
    data, known = files.read(in_place=folder), None if classes is None else read.numbers(classes)
    with errors.status("propagating and training"), warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        model.fit(*data, classes=known, memory=None if memory is None else memory * 2**20)
    for warning in caught:
        print_message("warning", str(warning.message))
    print_line(model.certificate().summary())
    if model.cost is not None:
        print_line(f"  {model.cost.summary()}")
    if folder:
        model.close()
        print_line(f"written: {store}")
        return
    with errors.status("writing"):
        model.save(store, key=key).close()
    print_line(f"written: {store}; key of its hashes: {key or f'{store}.key'}")


@unlearn_app.command("remove", epilog="Example: nareg unlearn remove service.store --nodes 17,30 --edges 3-5")
@grouped
def remove(
    store: Store,
    removal: Removal,
    renew: Annotated[bool, typer.Option("--renew", help="Retrain with a new noise term afterwards.")] = False,
    key: Key = None,
    device: Where = None,
) -> None:
    """Remove edges, nodes or features durably, and print a certificate per request."""
    if not removal.named:
        raise InputError("nothing to remove: pass --edges, --nodes or --features.")
    items = removal.read()
    with _requests(store, key, device, "were removed") as (model, done):
        acts = {
            "edges": model.remove_edges,
            "nodes": model.remove_nodes,
            "features": lambda index: model.remove_features(index, labels=removal.labels),
        }
        for name, value in items.items():
            _carry_out(f"removing the {name}", acts[name], value)
            done.append(f"the {name}")
        if renew:
            _carry_out("training", model.renew)


@unlearn_app.command("add", epilog="Example: nareg unlearn add service.store --nodes new.npy --edges 60-3,61-5")
def add(
    store: Store,
    nodes: Annotated[Path | None, typer.Option(help="Features, one row per new node: .npy, .mtx or .npz.")] = None,
    labels: Annotated[str | None, typer.Option(help=f"Classes of the new nodes, -1 for none: {LISTED}.")] = None,
    edges: Annotated[str | None, typer.Option(help="Edges, also of new nodes: 3-5,7-9, or a CSV file of pairs u,v.")] = None,
    key: Key = None,
    device: Where = None,
) -> None:
    """Add nodes, then edges, durably. New nodes come after the others; the model trains on those with a class."""
    if nodes is None and edges is None:
        raise InputError("nothing to add: pass --nodes or --edges.")
    if labels is not None and nodes is None:
        raise InputError("--labels needs --nodes: pass the features of the labeled nodes.")
    X, y = None if nodes is None else read.matrix(nodes), None if labels is None else read.numbers(labels)
    pairs = None if edges is None else read.pairs(edges)
    with _requests(store, key, device, "were added") as (model, done):
        if X is not None:
            first = model.n_nodes
            _carry_out("adding the nodes", model.add_nodes, X, labels=y)
            done.append(f"nodes {first} to {model.n_nodes - 1}")
            print_line(f"{done[0]} were added")
        if pairs is not None:
            _carry_out("adding the edges", model.add_edges, pairs)


@contextmanager
def _requests(
    store: Path, key: Path | None, device: str | None, verb: str = "were carried out"
) -> Iterator[tuple[Any, list[str]]]:
    """The model of a store, and a list of what was carried out, which an error then names."""
    from nareg import unlearning

    with errors.status("propagating the remaining data"):
        model = unlearning.CertifiedGPR.load(store, key=key, device=device)
    done: list[str] = []
    try:
        yield model, done
    except NaregError as error:
        if not done:
            raise
        raise NaregError(f"{error} Before that {' and '.join(done)} {verb}: do not repeat them.") from None
    finally:
        model.close()


def _carry_out(status: str, request: Callable[..., Certificate], *arguments: Any, **options: Any) -> None:
    """Carry out a request, and print its certificate."""
    with errors.status(status):
        certificate = request(*arguments, **options)
    print_line(certificate.summary())


@contextmanager
def _stored(store: Path) -> Iterator[Any]:
    """The model of a store or a folder, to read from."""
    from nareg import unlearning
    from nareg.unlearning.store.state import keeps_embedding

    if keeps_embedding(store):
        with closing(unlearning.CertifiedGPR.load(store)) as model:
            yield model
        return
    with closing(unlearning.Ledger(store)) as ledger, errors.status("propagating the remaining data"):
        model = unlearning.CertifiedGPR.from_stored(ledger.read())
    yield model


def _write(out: Path, text: str) -> None:
    from nareg.results import atomic_write

    with atomic_write(out) as handle:
        handle.write(text.encode())
    print_line(f"written: {out}")


@unlearn_app.command("preview", epilog="Example: nareg unlearn preview service.store --edge 3-5")
def preview(store: Store, edge: Annotated[str, typer.Option(help="One edge, as 3-5.")]) -> None:
    """Print how the removal of an edge would change the scores. The store stays as it is."""
    pair = read.pairs(edge)
    with _stored(store) as model:
        change = model.preview(pair)
        before, moved = model.decision(change.nodes), change.apply(model.coefficients)
        others = np.count_nonzero(model.class_of(before + moved) != model.class_of(before))
    print_line(
        f"{change.nodes.size} nodes are within reach; with the present coefficients, scores move by "
        f"{np.abs(moved).max(initial=0):.3g} at most, and {others} nodes change class"
    )


@unlearn_app.command("predict", epilog="Example: nareg unlearn predict service.store --out classes.csv")
def predict(store: Store, out: Annotated[Path, typer.Option(help="CSV file: node, class.")] = Path("classes.csv")) -> None:
    """Write the predicted class of every remaining node."""
    from nareg.unlearning.store.keys import key_file

    output(out, (".csv",), store, key_file(store))
    with _stored(store) as model:
        nodes = model.remaining
        parts = np.array_split(nodes, -(-nodes.size // ROWS))  # of a folder the whole embedding might not fit into memory
        labels = np.concatenate([model.predict(part) for part in parts])
    rows = "".join(f"{node},{label}\n" for node, label in zip(nodes, labels, strict=True))
    _write(out, f"node,class\n{rows}")


@unlearn_app.command("certificate", epilog="Example: nareg unlearn certificate service.store --out certificates.json")
def certificate(
    store: Store,
    out: Annotated[Path | None, typer.Option(help="JSON file of all certificates with their hashes.")] = None,
) -> None:
    """Print the last certificate."""
    from nareg import unlearning
    from nareg.unlearning.store.keys import key_file
    from nareg.unlearning.store.state import keeps_embedding

    if out is not None:
        output(out, (".json",), store, key_file(store))
    history: list[tuple[str | None, Certificate | None]]
    if keeps_embedding(store):  # which has no history
        with closing(unlearning.CertifiedGPR.load(store)) as model:
            history = [(None, model.certificate())]
    else:
        with closing(unlearning.Ledger(store)) as ledger:
            history = [*ledger.history()]
        print_line(f"{len(history)} requests, including the saving of the store")
    last = history[-1][1]
    print_line("no certificate" if last is None else last.summary())
    if out is not None:
        rows = [{"digest": digest, "certificate": None if issued is None else asdict(issued)} for digest, issued in history]
        _write(out, json.dumps(rows, indent=1) + "\n")


@unlearn_app.command("prove", epilog="Example: nareg unlearn prove service.store --edges 3-5")
@grouped
def prove(store: Store, removal: Removal, key: Key = None) -> None:
    """Show by its keyed hash which request removed exactly this. Pass all that it removed. Exit status 1: none did."""
    from nareg import unlearning

    if len(removal.named) != 1:
        raise InputError("prove needs one request: pass --edges, --nodes or --features, with all that it removed.")
    ((name, items),) = removal.read().items()
    details: dict[str, Any] = {"request": f"remove_{name}", "edges" if name == "edges" else "nodes": items}
    if name == "features":
        details["labels"] = removal.labels
    with closing(unlearning.Ledger(store, key)) as ledger:
        numbers, history = ledger.find(cast("RequestDetails", details)), ledger.history()
    for number in numbers:
        issued = history[number][1]
        print_line(f"request {number}: {'no certificate' if issued is None else issued.summary()}")
    if not numbers:
        print_line("no request of this store removed exactly this")
        raise typer.Exit(1)


@unlearn_app.command("renew", epilog="Example: nareg unlearn renew service.store")
def renew(store: Store, key: Key = None, device: Where = None) -> None:
    """Retrain durably with a new noise term, before you publish another version.

    Two models that share a noise term reveal what was removed between them: retrain with a new one.
    """
    with _requests(store, key, device) as (model, _):
        _carry_out("training", model.renew)


@unlearn_app.command("verify", epilog="Example: nareg unlearn verify service.store")
def verify(store: Store, key: Key = None, device: Where = None) -> None:
    """Train again on the remaining data and check the last certificate. Exit status 1: it does not hold."""
    from nareg import unlearning

    with errors.status("propagating and training"):
        result = unlearning.verify(store, key=key, device=device)
    print_line(result.summary())
    if not result.holds:
        raise typer.Exit(1)


unlearn_app.command("compare", epilog="Example: nareg unlearn compare graph.mtx features.npy labels.csv --random 20 --deep")(
    grouped(compare)
)
