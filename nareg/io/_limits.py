"""Readings that are no numbers but say where the number lies: ``<2``, ``>2420``, not detected, a trace of rain."""

from __future__ import annotations

import re
from collections.abc import Callable

import numpy as np

from nareg.errors import InputError
from nareg.io._notes import Notes, count, is_or_are
from nareg.io._numbers import looks_numeric

_LIMIT = re.compile(r"(?P<side>[<>≤≥])\s*=?\s*(?P<number>[+-]?(?:\d+(?:[.,]\d*)?|[.,]\d+)(?:[eE][+-]?\d+)?)", re.ASCII)
#: Below a limit of detection that the cell does not name.
UNDETECTED = frozenset(
    ("nd", "n.d.", "n.d", "not detected", "nondetect", "non-detect", "bdl", "bql", "bloq", "blq", "<lod", "<loq",
     "<dl", "<mdl", "<rl", "<ql")
)  # fmt: skip
#: What the United States Geological Survey writes where an instrument gave no reading: equipment, ice, backwater, ...
REMARKS = frozenset(("eqp", "ice", "ssn", "bkw", "mnt", "dis", "rat", "fld", "tst", "pmp", "zfl", "***"))
#: Too little to measure: below half of the smallest step of a rain gauge.
TRACE = frozenset(("t", "tr", "tr.", "trace", "traces"))


def looks_read(cells: list[str], *, comma: bool) -> bool:
    """Whether all of these cells are numbers, missing, or of the kinds that :class:`LimitCells` reads; not words alone."""
    words = TRACE | UNDETECTED | REMARKS
    others = [cell for cell in cells if cell.strip().lower() not in words and not _LIMIT.fullmatch(cell.strip())]
    return looks_numeric(others, comma=comma) and (not cells or len(others) > 0 or any(map(_LIMIT.fullmatch, cells)))


class LimitCells:
    """Reads such cells of a table of readings: as the limit, or as 0 where they are traces of rain."""

    def __init__(self) -> None:
        self._below = self._above = 0
        self._first: dict[str, tuple[str, int, int]] = {}
        self._limits: dict[int, list[float]] = {}
        self._undetected: list[tuple[int, int]] = []
        self._traces = self._remarks = 0

    def read(self, cell: str, row: int, column: int) -> float | None:
        """The limit, 0 for a trace, NaN for a remark or for a limit without a number (until :meth:`finish`); else None."""
        word = cell.lower()
        if word in TRACE:
            self._traces += 1
            self._first.setdefault("trace", (cell, row, column))
            return 0.0
        if word in UNDETECTED:
            self._undetected.append((row, column))
            self._first.setdefault("undetected", (cell, row, column))
            return float("nan")
        if word in REMARKS:
            self._remarks += 1
            self._first.setdefault("remark", (cell, row, column))
            return float("nan")
        parsed = _LIMIT.fullmatch(cell)
        if parsed is None:
            return None
        limit, below = float(parsed["number"].replace(",", ".")), parsed["side"] in "<≤"
        if below:
            self._below += 1
            self._limits.setdefault(column, []).append(limit)
        else:
            self._above += 1
        self._first.setdefault("below" if below else "above", (cell, row, column))
        return limit

    def finish(self, values: np.ndarray, notes: Notes, where: Callable[[int, int], str]) -> None:
        """Complete limits without a number, and note how many readings are limits."""
        for side, number in (("below", self._below), ("above", self._above)):
            if number:
                cell, row, column = self._first[side]
                notes.guess(
                    f"{count(number, 'reading')} such as {cell!r} {is_or_are(number)} read as the limit itself: the true values "
                    f"lie {side} it",
                    "write the limit",
                    place=where(row, column),
                )
        if self._remarks:
            cell, row, column = self._first["remark"]
            notes.guess(
                f"{count(self._remarks, 'cell')} such as {cell!r} {'says' if self._remarks == 1 else 'say'} why there is no "
                "reading, and count as missing",
                "leave such cells empty",
                place=where(row, column),
            )
        if self._undetected:
            self._complete(values, notes, where)
        if self._traces:
            self._refuse_other_than_rain(values, notes, where)

    def _complete(self, values: np.ndarray, notes: Notes, where: Callable[[int, int], str]) -> None:
        cell, row, column = self._first["undetected"]
        every = [limit for limits in self._limits.values() for limit in limits]
        if not every:
            raise InputError(
                f"{notes.source}, {where(row, column)}: {cell!r} may mean not detected or no data: write the limit of "
                "detection, such as <0.5, or leave the cell empty."
            )
        for i, j in self._undetected:
            values[i, j] = float(np.median(self._limits.get(j, every)))
        number = len(self._undetected)
        notes.guess(
            f"{count(number, 'reading')} {cell!r} {is_or_are(number)} read as the limit of detection that other cells name",
            "write the limit",
            place=where(row, column),
        )

    def _refuse_other_than_rain(self, values: np.ndarray, notes: Notes, where: Callable[[int, int], str]) -> None:
        cell, row, column = self._first["trace"]
        zeros = int((values == 0).sum()) - self._traces
        if np.nanmin(values) < 0 or not zeros:
            raise InputError(
                f"{notes.source}, {where(row, column)}: {cell!r} is not a number; write 0 if it is a trace of rain, and leave "
                "it empty if it is missing."
            )
        notes.guess(
            f"{count(self._traces, 'reading')} {cell!r} {is_or_are(self._traces)} read as 0: a trace, too little to measure",
            "write 0",
            place=where(row, column),
        )
