"""Units and kinds of the readings of a long table, where other columns state them."""

from __future__ import annotations

import numpy as np

from nareg.errors import InputError
from nareg.io._frames import Table
from nareg.io._layout import Layout
from nareg.io._notes import Notes, SeveralQuantities, listed
from nareg.io._vocabulary import KIND, MISSING, UNIT, plain, unit_in

#: Repeats of station and time are many from this share of the readings on; a column names kinds with so many values at most.
MANY, KINDS = 0.25, 50


def one_unit(table: Table, layout: Layout, notes: Notes) -> str | None:
    """The unit that the table or a column of units states; more than one is refused."""
    stated = table.units.get("")  # of all readings
    if len(layout.values) == 1:
        stated = table.units.get(table.header[layout.values[0]], stated)
    in_names = {unit_in(table.header[column]) for column in layout.values}
    if stated is None and len(in_names) == 1:
        stated = in_names.pop() or None
    for column in layout.extra:
        if plain(table.header[column]) not in UNIT:
            continue
        cells = rows_of_kind(table, layout, [column])[0]
        units = sorted({cell for cell in cells if cell.lower() not in MISSING})
        if len(units) > 1:
            _refuse_kinds(table, layout, notes)
            other = int(np.flatnonzero(cells != cells[0])[0])
            place = "" if layout.kind else f", {table.line(other)}"
            raise InputError(
                f"{notes.source}{place}: {table.column(column)} holds {len(units)} units ({listed(units)}): "
                "convert the readings to one unit, or keep the rows of one."
            )
        stated = units[0] if units else stated
    return stated


def _refuse_kinds(table: Table, layout: Layout, notes: Notes) -> None:
    """Refuse rows of several kinds, each of which may have its own unit, by their names."""
    for column in layout.extra if layout.kind is None else ():
        if plain(table.header[column]) in KIND:
            (cells,), _ = table.load([column], [])
            kinds = list(dict.fromkeys(cells.tolist()))
            if 1 < len(kinds) <= KINDS and "" not in kinds:
                raise SeveralQuantities(
                    f"{notes.source}: {table.column(column)} names {len(kinds)} quantities ({listed(kinds)}): name the one to "
                    "read by --value, or value= of a recipe.",
                    kinds,
                )


def rows_of_kind(table: Table, layout: Layout, columns: list[int]) -> list[np.ndarray]:
    """Texts of columns, of the rows that are read."""
    texts, _ = table.load([*columns, *([] if layout.kind is None else [layout.kind[0]])], [])
    return texts if layout.kind is None else [cells[texts[-1] == layout.kind[1]] for cells in texts[:-1]]


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
    for column in layout.extra:
        (cells,), _ = table.load([column], [])
        kind, kinds = np.unique(cells[row].astype(str), return_inverse=True)
        if 1 < len(kind) <= KINDS and len(np.unique(place * len(kind) + kinds)) == len(place):
            by_value = plain(table.header[column]) in KIND
            raise SeveralQuantities(
                f"{notes.source}: a station has several readings at one time, which {table.column(column)} tells apart "
                f"({listed(kind.tolist())}): keep the rows of one of them"
                + (f", or name it by --value, such as --value {kind[0]}." if by_value else "."),
                kind.tolist() if by_value else (),
            )
