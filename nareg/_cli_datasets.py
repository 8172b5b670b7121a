"""``nareg datasets list | info | fetch``."""

from __future__ import annotations

from typing import Annotated

import typer
from rich.markup import escape
from rich.table import Table

from nareg._cli_input import console
from nareg.errors import NaregError

datasets_app = typer.Typer(no_args_is_help=True, help="List, describe and fetch data sets.")


@datasets_app.command("list")
def datasets_list() -> None:
    """List the data sets and whether they are on this machine."""
    from nareg import datasets

    table = Table("name", "what", "size", "here")
    for name in datasets.names():
        entry = datasets.info(name)
        try:
            datasets.load(name)
            here = "yes"
        except NaregError:
            here = "no"
        table.add_row(name, entry.title, entry.shape, here)
    console.print(table)
    console.print(f"data folder: {escape(str(datasets.data_root()))}", soft_wrap=True)


@datasets_app.command("info", epilog="Example: nareg datasets info molene")
def datasets_info(name: Annotated[str, typer.Argument(help="Name of a data set.")]) -> None:
    """Origin, licence, citation and files of a data set."""
    from nareg import datasets

    entry = datasets.info(name)
    console.print(f"[bold]{entry.name}[/]: {entry.title}", soft_wrap=True)
    rows = {
        "size": entry.shape,
        "source": entry.source,
        "licence": entry.licence,
        "cite": entry.citation,
        "get it": entry.how_to_get,
    }
    for label, text in rows.items():
        if text:
            console.print(f"  {label}: {escape(text)}", soft_wrap=True)
    for relative, digest in entry.files.items():
        place = "bundled" if entry.bundled else datasets.data_root() / relative
        console.print(f"  file: {escape(str(place))} sha256 {digest or 'checked by content'}", soft_wrap=True)
    for note in entry.notes:
        console.print(f"  note: {escape(note)}", soft_wrap=True)


@datasets_app.command("fetch", epilog="Example: nareg datasets fetch molene")
def datasets_fetch(
    name: Annotated[str, typer.Argument(help="Name of a data set with a public address.")],
    sha256: Annotated[str | None, typer.Option(help="Checksum that the download must have.")] = None,
) -> None:
    """Download a data set into the data folder."""
    from nareg import datasets

    with console.status(f"downloading {name}"):
        path = datasets.fetch(name, sha256=sha256)
    console.print(f"written: {escape(str(path))}", soft_wrap=True)
