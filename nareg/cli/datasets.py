"""``nareg datasets list | info | fetch | export``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.markup import escape
from rich.table import Table

from nareg.cli.inputs import console, stage_bar

datasets_app = typer.Typer(add_completion=False, no_args_is_help=True, help="List, describe, fetch and export data sets.")


@datasets_app.command("list")
def datasets_list() -> None:
    """List all data sets: which are on this machine, which can be fetched, how large, license and citation."""
    from nareg import datasets

    table = Table(show_lines=True)
    table.add_column("name", no_wrap=True, min_width=max(map(len, datasets.names())))
    table.add_column("here", no_wrap=True)
    table.add_column("fetch", no_wrap=True)
    table.add_column("what, license, citation")
    for name in datasets.names():
        entry = datasets.info(name)
        here = "bundled" if entry.bundled else "yes" if datasets.available(name) else "no"
        text = f"{entry.title}: {entry.shape}\nLicense: {entry.license}\nCite: {entry.citation}"
        table.add_row(name, here, entry.size or "-", escape(text))
    console.print(table)
    console.print(f"data folder: {escape(str(datasets.data_root()))}", soft_wrap=True)
    console.print("`nareg datasets fetch NAME` downloads those with a size in the column fetch.", soft_wrap=True)


@datasets_app.command("info", epilog="Example: nareg datasets info molene")
def datasets_info(name: Annotated[str, typer.Argument(help="Name of a data set.", autocompletion=dataset_names)]) -> None:
    """Show origin, license, citation and files of a data set."""
    from nareg import datasets

    entry = datasets.info(name)
    console.print(f"[bold]{entry.name}[/]: {entry.title}", soft_wrap=True)
    rows = {
        "size": entry.shape,
        "source": entry.source,
        "license": entry.license,
        "cite": entry.citation,
        "get it": entry.how_to_get or ("" if entry.bundled else f"run `nareg datasets fetch {entry.name}` ({entry.size})"),
    }
    for label, text in rows.items():
        if text:
            console.print(f"  {label}: {escape(text)}", soft_wrap=True)
    for address in datasets.fetching.addresses(entry.name):
        console.print(f"  from: {escape(address)}", soft_wrap=True)
    for relative, digest in entry.files.items():
        place = "bundled" if entry.bundled else datasets.data_root() / relative
        console.print(f"  file: {escape(str(place))} {_check(entry.name, digest)}", soft_wrap=True)
    for note in entry.notes:
        console.print(f"  note: {escape(note)}", soft_wrap=True)


def _check(name: str, digest: str | None) -> str:
    """How nareg checks a file before it uses it."""
    if digest is not None:
        kind, _, value = digest.rpartition(":")
        return f"digest of its arrays {value}" if kind else f"sha256 {value}"
    return "checked by a digest of its temperatures" if name == "molene" else "your own file, no checksum"


@datasets_app.command("fetch", epilog="Example: nareg datasets fetch cora")
def datasets_fetch(
    name: Annotated[
        str, typer.Argument(help="Name of a data set, as nareg datasets list shows it.", autocompletion=dataset_names)
    ],
    folder: Annotated[Path | None, typer.Option(help="Data folder. Default: $NAREG_DATA, else the user's cache.")] = None,
) -> None:
    """Download a data set from its public source, convert and check it, and put it into the data folder."""
    from nareg import datasets

    with stage_bar() as progress:
        path = datasets.fetch(name, folder, progress=progress)
    console.print(f"ready: {escape(str(path))}", soft_wrap=True)


@datasets_app.command("export", epilog="Example: nareg datasets export us-weather")
def datasets_export(
    name: Annotated[str, typer.Argument(help="Name of a sensor network.", autocompletion=sensor_network_names)],
    out: Annotated[Path | None, typer.Option(help="Folder for the tables. Default: the data set's name.")] = None,
) -> None:
    """Write stations.csv and readings.csv of a sensor network, as nareg clean reads them."""
    from nareg import datasets
    from nareg.errors import InputError

    network = datasets.load(name)
    if not isinstance(network, datasets.SensorNetwork):
        raise InputError(f"{name} is a graph for node classification, not a sensor network: see `nareg datasets list`.")
    folder = network.to_csv(Path(name) if out is None else out)
    console.print(f"written: {escape(str(folder / 'stations.csv'))} and {escape(str(folder / 'readings.csv'))}", soft_wrap=True)


def dataset_names(incomplete: str) -> list[str]:
    """Names of data sets that begin like this."""
    from nareg import datasets

    return [name for name in datasets.names() if name.startswith(incomplete)]


def sensor_network_names(incomplete: str) -> list[str]:
    """Names of sensor networks that begin like this."""
    from typing import get_args

    from nareg.datasets.loaders import SensorName

    return [name for name in get_args(SensorName) if name.startswith(incomplete)]
