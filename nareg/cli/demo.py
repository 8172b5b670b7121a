"""``nareg demo``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.markup import escape
from rich.table import Table

from nareg.cli import inputs
from nareg.cli.inputs import console, progress_bar


def demo(
    all_: Annotated[bool, typer.Option("--all", help="Add the designs by semidefinite programming (several minutes).")] = False,
    out: Annotated[Path, typer.Option(help="Folder for the report and its pictures.")] = Path("nareg-demo"),
    seed: Annotated[int, typer.Option(help="Seed of the split into training and test days, and of the noise.", min=0)] = 0,
) -> None:
    """Denoise 140 US weather stations with every design and write a report."""
    from nareg.cli import demo_protocol as demonstration
    from nareg.cli import demo_report as report

    inputs.folder(out)
    settings = demonstration.DemoSettings(sdp=all_, seed=seed)
    with progress_bar() as bar:
        line = bar.add_task("loading", total=None)
        result = demonstration.run(
            settings, progress=lambda p: bar.update(line, completed=p.step, total=p.total, description=p.stage)
        )
        bar.update(line, description="drawing")
        page = report.write(result, out)
    for noise, title in (("equal", "equal noise at every station"), ("unequal", "unequal noise, two decades")):
        table = Table(
            title=f"{result.network.n_nodes} stations, SNR {settings.reference_db:g} dB, {title}", title_justify="left"
        )
        for heading in ("method", "NMSE", "of best single", "noise removed", "seconds", "needs to know"):
            table.add_column(heading, justify="left" if heading in ("method", "needs to know") else "right")
        for s in report.table(result, noise):
            gain = f"{s.gain:.3f} ± {s.gain_error:.3f}"
            cells = (f"{s.nmse:.4f}", gain, f"{100 * s.removed:.1f} %", f"{s.seconds:.2f}")
            table.add_row(s.method, *cells, s.needs)
        console.print(table)
        console.print(f"no linear filter can go below NMSE {result.lmmse[noise, 'random days', settings.reference_db]:.4f}\n")
    console.print(f"report: {escape(str(page))} ({result.timings['total']:.0f} s)", soft_wrap=True)
