"""``nareg convert``: graphs to and from folders that are read in parts, and signals to arrays that can be memory-mapped."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.markup import escape

from nareg.cli.inputs import console, progress_bar


def convert(
    source: Annotated[
        Path,
        typer.Argument(
            help="Graph: edge list (.csv, .tsv, .txt: two node numbers and perhaps a weight per line), .mtx, .npz (SciPy), "
            ".npy (edge_index) or a .graph folder. Or signals (N, T): .csv with a line per node, .npy."
        ),
    ],
    out: Annotated[Path, typer.Argument(help="NAME.graph, or .npz or .mtx from a .graph folder; .npy for signals.")],
    float32: Annotated[bool, typer.Option("--float32", help="Store weights or signals as float32, in half the space.")] = False,
    nodes: Annotated[
        int | None, typer.Option(help="Number of nodes of an edge list; default the largest plus one.", min=1)
    ] = None,
    symmetrize: Annotated[bool, typer.Option("--symmetrize", help="Join nodes where either points at the other.")] = False,
    drop_loops: Annotated[bool, typer.Option("--drop-loops", help="Leave out self-loops.")] = False,
    memory: Annotated[int, typer.Option(help="MiB for sorting edges.", min=1)] = 256,
) -> None:
    """Convert a graph or signals of any size to files that are read in parts."""
    from nareg import io

    with progress_bar() as bar:
        line = bar.add_task("opening", total=100)
        notes = io.convert(
            source, out, dtype="float32" if float32 else "float64", n_nodes=nodes, symmetrize=symmetrize, drop_loops=drop_loops,
            memory=memory * 2**20,
            progress=lambda p: bar.update(line, completed=round(100 * (p.fraction or 0)), description=p.stage),
        )  # fmt: skip
        bar.update(line, completed=100)
    console.print(f"written: {escape(str(out))} ({escape(notes)})", soft_wrap=True)
