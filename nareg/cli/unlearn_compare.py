"""``nareg unlearn compare``."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import numpy as np
import typer
from rich.table import Table

from nareg.cli import node_files as read
from nareg.cli.inputs import console, errors, output, print_line, print_message, progress_bar
from nareg.cli.node_files import DataFiles, Edges, ModelOptions, Nodes, Where
from nareg.cli.reproduce import experiment
from nareg.errors import InputError

if TYPE_CHECKING:
    from experiments._unlearning_compare import ComparedMethod
    from nareg.progress import Progress


def compare(
    files: DataFiles,
    edges: Edges = None,
    nodes: Nodes = None,
    random: Annotated[int | None, typer.Option(help="Number of random edges, if you name none; default 20.", min=1)] = None,
    deep: Annotated[
        bool, typer.Option("--deep", help="Also compare perceptrons, one with a certified last layer; needs torch.")
    ] = False,
    *,
    options: ModelOptions,
    device: Where = None,
    seed: Annotated[int, typer.Option(help="Seed of the random edges and of training.", min=0)] = 0,
    out: Annotated[Path | None, typer.Option(help="CSV file of the table.")] = None,
) -> None:
    """Remove the same edges, then nodes, one by one with several methods: seconds, accuracy and certificates.

    Needs a checkout of nareg's repository, which has the other methods. No model is stored. Labeled nodes that are not trained
    on are the test nodes.
    """
    from nareg.results import upper_edges

    comparison = experiment("_unlearning_compare", command="unlearn compare")
    if out is not None:
        output(out, (".csv",), *(path for path in (files.graph, files.features, files.labels) if path is not None))
    if random is not None and (edges is not None or nodes is not None):
        raise InputError("--random replaces --edges and --nodes: pass one or the other.")
    model = options.model()
    pairs: np.ndarray | tuple[()] = () if edges is None else read.pairs(edges)
    removed: np.ndarray | tuple[()] = () if nodes is None else read.numbers(nodes)
    data, rng = files.read(), np.random.default_rng(seed)
    if edges is None and nodes is None:
        every = np.stack(upper_edges(data[0].adjacency), axis=1)
        if not len(every):
            raise InputError("the graph has no edges to remove: pass --nodes.")
        pairs = rng.permutation(every)[: random or 20]
    methods = (*comparison.CERTIFIED, *(comparison.DEEP if deep else ()))
    rows: list[ComparedMethod] = []
    try:
        with progress_bar() as bar, warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always", UserWarning)
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
        for warning in caught:
            print_message("warning", str(warning.message))
        if rows:
            _show(rows, len(pairs) + len(removed), out)


def _show(rows: list[ComparedMethod], requests: int, out: Path | None) -> None:
    """Print the table, and write it as CSV."""
    from nareg.io import write_rows

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
        "propagation: seconds per request; budget: largest share that a certificate used; retrained: number of requests"
    )
    if out is not None:
        header = ["method", "before", "after", *rows[0].timings, "spent", "retrained"]
        write_rows(out, header, [(r.method, r.before, r.after, *r.timings.values(), r.spent, r.retrained) for r in rows])
        print_line(f"written: {out}")
