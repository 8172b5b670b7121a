"""The command line, ``nareg COMMAND``.

Commands: clean, apply, inspect, explore, demo, design, denoise, interpolate, place, datasets, reproduce, unlearn, convert.

A problem with the input ends with one sentence on standard error and exit status 2.
"""

from __future__ import annotations

import importlib
import logging
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.markup import escape
from rich.table import Table
from typer.core import TyperGroup

from nareg._version import __version__
from nareg.cli import inputs
from nareg.cli.inputs import console, progress_bar
from nareg.errors import NaregError

#: Commands in the order of the help page: the module of each, imported when it is called, and an example.
COMMANDS = {
    "clean": ("clean", "nareg clean stations.csv readings.csv --out clean/"),
    "apply": ("apply_model", "nareg apply clean/model.npz tomorrow.csv"),
    "inspect": ("inspect", "nareg inspect stations.csv readings.csv --out recipe.toml"),
    "explore": ("explore", "nareg explore stations.csv readings.csv --out explore.html"),
    "demo": ("main", "nareg demo --out my-report"),
    "reproduce": ("reproduce", "nareg reproduce fig1 fig2 --quick --report"),
    "design": ("design", "nareg design stations.csv readings.csv --noise 0.25 --out weights.csv"),
    "denoise": ("apply", "nareg denoise stations.csv readings.csv --weights weights.csv --out clean.csv"),
    "interpolate": ("apply", "nareg interpolate stations.csv readings.csv --weights design.npz --out filled.csv"),
    "place": ("place", "nareg place model.npz --count 3 --picture sites.png"),
    "convert": ("main", "nareg convert edges.csv network.graph"),
}
#: Modules with commands of their own, ``datasets_app`` and so on.
GROUPS = ("datasets", "unlearn")


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


class _Notes(logging.Handler):
    """What the library logs becomes a note."""

    def emit(self, record: logging.LogRecord) -> None:
        inputs.print_message("note", record.getMessage())


class _Group(TyperGroup):
    """Imports commands when they are called, and turns errors raised on purpose into one line and exit status 2."""

    def list_commands(self, ctx: Any) -> list[str]:
        return [*COMMANDS, *GROUPS]

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        if cmd_name not in self.list_commands(ctx):
            for name in self.list_commands(ctx):  # one of which is suggested
                self.get_command(ctx, name)
            return None
        if cmd_name not in self.commands:
            module, example = COMMANDS.get(cmd_name, (cmd_name, ""))
            part = importlib.import_module(f"nareg.cli.{module}")
            if example:
                one = typer.Typer(add_completion=False, rich_markup_mode="rich")
                one.command(cmd_name, epilog=f"Example: {example}")(getattr(part, cmd_name))
            else:
                one = getattr(part, f"{cmd_name}_app")
            self.commands[cmd_name] = typer.main.get_command(one)
            self.commands[cmd_name].name = cmd_name
        return self.commands[cmd_name]

    def invoke(self, ctx: Any) -> Any:
        log = logging.getLogger("nareg")
        log.handlers = [_Notes(logging.INFO)]
        log.setLevel(logging.INFO)
        try:
            return super().invoke(ctx)
        except NaregError as error:
            inputs.print_message("error", str(error))
            raise typer.Exit(2) from None


app = typer.Typer(
    cls=_Group, no_args_is_help=True, rich_markup_mode="rich",
    help="Design and apply graph filters for noisy signals on networks.",
)  # fmt: skip


@app.callback(invoke_without_command=True)
def main(version: Annotated[bool, typer.Option("--version", help="Show the version and exit.")] = False) -> None:
    """Design and apply graph filters for noisy signals on networks."""
    if version:
        console.print(f"nareg {__version__}")
        raise typer.Exit
