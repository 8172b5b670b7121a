"""``nareg datasets list | info | fetch | export``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.markup import escape
from rich.table import Table

from nareg.cli.completions import dataset_names, sensor_network_names
from nareg.cli.inputs import console

datasets_app = typer.Typer(no_args_is_help=True, help="List, describe, fetch and export data sets.")


@datasets_app.command("list")
def datasets_list() -> None:
    """List all data sets and show which are on this machine."""
    from nareg import datasets

    table = Table()
    table.add_column("name", no_wrap=True, min_width=max(map(len, datasets.names())))
    for heading in ("what", "size", "here"):
        table.add_column(heading)
    for name in datasets.names():
        entry = datasets.info(name)
        table.add_row(name, entry.title, entry.shape, "yes" if datasets.available(name) else "no")
    console.print(table)
    console.print(f"data folder: {escape(str(datasets.data_root()))}", soft_wrap=True)


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
        "get it": entry.how_to_get,
    }
    for label, text in rows.items():
        if text:
            console.print(f"  {label}: {escape(text)}", soft_wrap=True)
    for relative, digest in entry.files.items():
        place = "bundled" if entry.bundled else datasets.data_root() / relative
        console.print(f"  file: {escape(str(place))} {_check(entry.name, digest)}", soft_wrap=True)
    for note in entry.notes:
        console.print(f"  note: {escape(note)}", soft_wrap=True)


def _check(name: str, digest: str | None) -> str:
    """How nareg checks a file before it uses it."""
    if digest is not None:
        return f"sha256 {digest}"
    return "checked by a digest of its temperatures" if name == "molene" else "your own file, no checksum"


@datasets_app.command("fetch", epilog="Example: nareg datasets fetch molene")
def datasets_fetch(
    name: Annotated[str, typer.Argument(help="Name of a data set with a public address.", autocompletion=dataset_names)],
    sha256: Annotated[str | None, typer.Option(help="Expected SHA-256 checksum of the download.")] = None,
) -> None:
    """Download a data set into the data folder."""
    from nareg import datasets

    with console.status(f"downloading {escape(name)}"):
        path = datasets.fetch(name, sha256=sha256)
    console.print(f"written: {escape(str(path))}", soft_wrap=True)


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
