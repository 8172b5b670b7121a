"""Cells of text to numbers: missing words, decimal commas, infinite values, and a sentence for everything else."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Protocol

import numpy as np

from nareg.errors import InputError
from nareg.io._notes import Notes, count
from nareg.io._vocabulary import MISSING

#: Characters of a cell that a message quotes.
SHOWN = 80
NUMBER = re.compile(r"[+-]?(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][+-]?\d+)?", re.ASCII)
COMMA = re.compile(r"[+-]?(?:\d+,\d*|,\d+)(?:[eE][+-]?\d+)?", re.ASCII)
#: The sign of the number is in the letter.
HEMISPHERE = re.compile(r"\d+(?:[.,]\d+)?\s*°?\s*[NSEW]", re.IGNORECASE)
UNIT = re.compile(r"[+-]?\d+(?:[.,]\d+)?\s*[^\d\s.,+\-:/_()].*", re.ASCII)


class OddCells(Protocol):
    """Reads cells that are no numbers, where the table's role tells what they mean."""

    def read(self, cell: str, row: int, column: int) -> float | None:
        """The number, or None where the cell has no meaning either."""

    def finish(self, values: np.ndarray, notes: Notes, where: Callable[[int, int], str]) -> None:
        """Note what was read. ``values`` (R, C) are those of the whole table, and may be completed in place."""


class Numbers:
    """Converts blocks of cells; :meth:`finish` checks the whole table (R, C).

    Parameters
    ----------
    notes : Notes
        Collects the guesses.
    where : callable
        ``where(row, column)`` names a cell: ``"line 5, column 'A'"``. Rows count from 0 over all blocks.
    comma : bool
        Whether a comma may be a decimal mark: not where it separates the cells.
    finite : bool
        Refuse infinite values even where guesses are allowed.
    odd : OddCells, optional
        Reads cells that are no numbers. They are refused otherwise.
    """

    def __init__(
        self, notes: Notes, where: Callable[[int, int], str], *, comma: bool, finite: bool = False, odd: OddCells | None = None
    ) -> None:
        self.odd = odd
        self.notes, self.where, self.comma, self.finite = notes, where, comma, finite or notes.strict
        self.infinite = self.commas = 0
        self._first: dict[str, tuple[str, str]] = {}  # of each kind of cell, its place and text

    def convert(self, cells: np.ndarray, row: int = 0, column: int = 0) -> np.ndarray:
        """Float64 of an object array (R, C) of texts, whose first cell is at this row and column of the table."""
        import pandas as pd

        flat = cells.ravel()
        commas = [i for i, cell in enumerate(flat.tolist()) if "," in cell and "." not in cell] if self.comma else []
        pointed = flat
        if commas:
            pointed = flat.copy()
            pointed[commas] = [cell.replace(",", ".", 1) for cell in flat[commas].tolist()]
        values = np.array(pd.to_numeric(pointed, errors="coerce"), dtype=float)
        if pd.__version__ < "3":  # it misses the nearest float64 of every third number
            finite = np.isfinite(values)
            values[finite] = pointed[finite].astype(float)
        width = max(cells.shape[1], 1)
        at = lambda i: self.where(row + int(i) // width, column + int(i) % width)  # noqa: E731
        read = [i for i, failed in zip(commas, np.isnan(values[commas]).tolist(), strict=True) if not failed] if commas else []
        if read:
            self.commas += len(read)
            self._first.setdefault("comma", (at(read[0]), str(flat[read[0]]).strip()))
        odd = np.flatnonzero(np.isnan(values))
        for i, raw in zip(odd.tolist(), flat[odd].tolist(), strict=True):
            cell = raw.strip()
            if not cell or cell.lower() in MISSING:
                continue
            if NUMBER.fullmatch(cell):
                values[i] = float(cell)  # beside a space that pandas does not know
                continue
            meant = None if self.odd is None else self.odd.read(cell, row + i // width, column + i % width)
            if meant is None:
                raise InputError(f"{self.notes.source}, {at(i)}: {_refusal(cell)}.")
            values[i] = meant
        if self.comma and "point" not in self._first:
            point = next((k for k, cell in enumerate(flat) if "." in cell and not np.isnan(values[k])), None)
            if point is not None:
                self._first["point"] = (at(point), flat[point].strip())
        infinite = np.isinf(values)
        if infinite.any():
            if self.finite:
                first = int(np.flatnonzero(infinite)[0])
                cell = flat[first].strip()
                raise InputError(f"{self.notes.source}, {at(first)}: {cell!r} is infinite; leave it empty if it is missing.")
            self.infinite += int(infinite.sum())
            values[infinite] = np.nan
        return values.reshape(cells.shape)

    def finish(self, values: np.ndarray) -> None:
        """Note decimal commas and infinite values; refuse decimal commas beside decimal points."""
        if self.odd is not None:
            self.odd.finish(values, self.notes, self.where)
        if self.commas:
            place, cell = self._first["comma"]
            if "point" in self._first:
                other, point = self._first["point"]
                raise InputError(
                    f"{self.notes.source}, {place}: {cell!r} has a comma where {other} has a point ({point!r}): write one "
                    "decimal mark in the whole file, and no mark between thousands."
                )
            self.notes.guess(f"numbers such as {cell!r} are read with a decimal comma", "write decimal points", place=place)
        if self.infinite:
            self.notes.fact(f"{count(self.infinite, 'reading is', 'readings are')} infinite and taken as missing")


def looks_numeric(cells: list[str], *, comma: bool) -> bool:
    """Whether all of these cells are numbers or missing."""
    plain = (cell.strip() for cell in cells)
    return all(
        cell.lower() in MISSING
        or NUMBER.fullmatch(cell)
        or (comma and COMMA.fullmatch(cell))
        or cell.lower().strip("+-") in ("inf", "infinity")
        for cell in plain
    )


def _refusal(cell: str) -> str:
    if len(cell) > SHOWN:
        return f"the cell, {cell[:SHOWN]!r} and so on, is not a number"
    if COMMA.fullmatch(cell):
        return f"{cell!r} holds a comma; write a decimal point"
    if HEMISPHERE.fullmatch(cell):
        return f"{cell!r} is a number with a mark; write the number alone, and degrees west or south with a minus"
    if UNIT.fullmatch(cell):
        return f"{cell!r} is a number with a unit or a mark; write the number alone"
    return f"{cell!r} is not a number; leave it empty if it is missing"
