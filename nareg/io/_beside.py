"""Columns beside time, station and value in a long table: they may say that its rows measure different things."""

from __future__ import annotations

import numpy as np

from nareg.errors import InputError
from nareg.io._layout import Layout, Table
from nareg.io._notes import Notes, listed
from nareg.io._vocabulary import MISSING, UNIT, plain

#: Repeats of station and time are many from this share of the readings on; a column names kinds with so many values at most.
MANY, KINDS = 0.25, 50


def one_unit(table: Table, layout: Layout, notes: Notes) -> str | None:
    """The unit that a column of units states; more than one is refused."""
    stated: str | None = None
    for column in layout.beside:
        if plain(table.header[column]) not in UNIT:
            continue
        (cells,), _ = table.load([column], [])
        units = sorted({cell for cell in cells if cell.lower() not in MISSING})
        if len(units) > 1:
            other = int(np.flatnonzero(cells != cells[0])[0])
            raise InputError(
                f"{notes.source}, {table.line(other)}: {table.column(column)} holds {len(units)} units ({listed(units)}): "
                "convert the readings to one unit, or keep the rows of one."
            )
        stated = units[0] if units else stated
    return stated


def refuse_mixed_kinds(table: Table, layout: Layout, place: np.ndarray, row: np.ndarray, notes: Notes) -> None:
    """Refuse a table with many repeats that one column tells apart, as ``parameter`` does for temperature and humidity.

    Parameters
    ----------
    table, layout, notes
        The table.
    place : (R,) int array
        Number of station and time of every reading.
    row : (R,) int array
        Row of the table that has the reading.
    """
    repeats = len(place) - len(np.unique(place))
    if repeats < MANY * len(place):
        return
    for column in layout.beside:
        (cells,), _ = table.load([column], [])
        kind, kinds = np.unique(cells[row].astype(str), return_inverse=True)
        if 1 < len(kind) <= KINDS and len(np.unique(place * len(kind) + kinds)) == len(place):
            raise InputError(
                f"{notes.source}: a station has several readings at one time, which {table.column(column)} tells apart "
                f"({listed(kind.tolist())}): keep the rows of one of them."
            )
