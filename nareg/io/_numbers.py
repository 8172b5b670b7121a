"""Cells of text to numbers: missing words, decimal commas, limits such as ``<2``, and a sentence for everything else."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Protocol, TypeAlias

import numpy as np

from nareg.errors import InputError
from nareg.io._notes import Notes, count, verb
from nareg.io._vocabulary import MISSING, unit_in

#: Cells of one kind, with their rows and columns; and what names the place of a row and a column.
Cells: TypeAlias = list[tuple[str, int, int]]
Where: TypeAlias = Callable[[int, int], str]

#: Characters of a cell that a message quotes.
SHOWN = 80
NUMBER = re.compile(r"[+-]?(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][+-]?\d+)?", re.ASCII)
#: A number with a decimal comma.
COMMA = re.compile(r"[+-]?(?:\d+,\d*|,\d+)(?:[eE][+-]?\d+)?", re.ASCII)
#: The sign of the number is in the letter.
HEMISPHERE = re.compile(r"\d+(?:[.,]\d+)?\s*°?\s*[NSEW]", re.IGNORECASE)
UNIT = re.compile(r"(?P<number>[+-]?\d+(?:[.,]\d+)?)\s*(?P<unit>[^\d\s.,+\-:/_()].*)", re.ASCII)
#: Units that may be names, such as of a station at 10 m.
LETTERS = ("m", "M", "f", "F", "k", "K", "c", "C", "ft", "cm", "km")


#: A word per so many numbers of a column is a slip, in a table of so many rows.
RARE, MANY = 30, 100


class OddCells(Protocol):
    """Reads cells that are no numbers, where the table's role tells what they mean."""

    def read(self, cell: str, row: int, column: int) -> float | None:
        """The number, or None where the cell has no meaning either."""

    def finish(self, values: np.ndarray, notes: Notes, where: Where) -> None:
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
    missing : frozenset of str
        Cells that mean that there is no reading, in lower case.
    """

    def __init__(
        self, notes: Notes, where: Where, *, comma: bool, finite: bool = False, odd: OddCells | None = None,
        missing: frozenset[str] = MISSING,
    ) -> None:  # fmt: skip
        self.odd, self.missing = odd, missing
        self.notes, self.where, self.comma, self.finite = notes, where, comma, finite or notes.strict
        self.infinite = self.commas = 0
        self._first: dict[str, tuple[str, str]] = {}  # of each kind of cell, its place and text
        self._words: list[tuple[str, str, int]] = []  # cells without a digit: place, text and column

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
            if not cell or cell.lower() in self.missing:
                continue
            if NUMBER.fullmatch(cell):
                values[i] = float(cell)  # beside a space that pandas does not know
                continue
            meant = None if self.odd is None else self.odd.read(cell, row + i // width, column + i % width)
            if meant is None and not self.finite and len(cell) <= SHOWN and not any(map(str.isdigit, cell)):
                self._words.append((at(i), cell, column + i % width))
                meant = float("nan")
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
        """Note decimal commas, infinite values and rare words; refuse decimal commas beside points, and frequent words."""
        for column in sorted({column for *_, column in self._words}):
            words = [(place, cell) for place, cell, own in self._words if own == column]
            if len(values) < max(MANY, RARE * len(words)):
                raise InputError(f"{self.notes.source}, {words[0][0]}: {_refusal(words[0][1])}.")
            self.notes.guess(
                f"{count(len(words), 'cell')} that {verb(len(words))} no number, such as {words[0][1]!r} ({words[0][0]}), "
                f"{'counts' if len(words) == 1 else 'count'} as missing",
                "leave such cells empty",
            )
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
    if thousands := THOUSANDS.fullmatch(cell):
        return f"{cell!r} has a mark between thousands; pass --decimal {'.' if thousands['mark'] == ',' else ','!r}"
    if COMMA.fullmatch(cell):
        return f"{cell!r} holds a comma; write a decimal point, or pass --decimal ','"
    if HEMISPHERE.fullmatch(cell):
        return f"{cell!r} is a number with a mark; write the number alone, and degrees west or south with a minus"
    if UNIT.fullmatch(cell):
        return f"{cell!r} is a number with a unit or a mark; write the number alone"
    return f"{cell!r} is not a number; leave it empty, or pass --missing {cell!r}, if it is missing"


_LIMIT = re.compile(r"(?P<side>[<>≤≥])\s*=?\s*(?P<number>[+-]?(?:\d+(?:[.,]\d*)?|[.,]\d+)(?:[eE][+-]?\d+)?)", re.ASCII)
#: Below a limit of detection that the cell does not name.
UNDETECTED = frozenset(
    ("nd", "n.d.", "n.d", "not detected", "nondetect", "non-detect", "bdl", "bql", "bloq", "blq", "<lod", "<loq",
     "<dl", "<mdl", "<rl", "<ql")
)  # fmt: skip
#: What the United States Geological Survey writes where an instrument gave no reading: equipment, ice, backwater, ...
REMARKS = frozenset(("eqp", "ice", "ssn", "bkw", "mnt", "dis", "rat", "fld", "tst", "pmp", "zfl", "***"))
#: Too little to measure: below half of the smallest step of a rain gauge.
TRACE = frozenset(("t", "tr", "tr.", "trace", "traces", "ip"))
WORDS = {"trace": TRACE, "undetected": UNDETECTED, "remark": REMARKS}
#: A reading with a mark behind it, such as E for estimated: a letter behind a space, or E behind decimals. Others may be units,
#: and 1,234* a number with a mark between thousands.
MARK = r"[*#?!]{1,2}|[eErRpPqQM]"
MARKED = re.compile(
    r"(?P<number>(?![+-]?\d+(?:,\d{3}(?!\d)|[eE]$))[+-]?(?:\d+(?:[.,]\d*)?|[.,]\d+))"
    rf"(?:\s+(?P<apart>{MARK})|(?P<mark>[*#?!]{{1,2}}|[eE]))",
    re.ASCII,
)
#: A number with marks between thousands, which cannot be decimal marks.
THOUSANDS = re.compile(r"[+-]?\d{1,3}(?P<mark>[.,])\d{3}(?:(?P=mark)\d{3})*(?!(?P=mark))[.,]\d*", re.ASCII)
#: Letters behind more than this share of a column are its unit.
MOST = 0.5


def looks_read(cells: list[str], *, comma: bool) -> bool:
    """Whether all of these cells are numbers, missing, or of the kinds that :class:`LimitCells` reads; not words alone."""
    words = frozenset().union(*WORDS.values())
    others = [
        cell for cell in map(str.strip, cells)
        if cell.lower() not in words and not _LIMIT.fullmatch(cell) and not MARKED.fullmatch(cell) and not with_unit(cell)
        and not _lacks_number(cell)
    ]  # fmt: skip
    return looks_numeric(others, comma=comma) and (not cells or len(others) > 0 or any(map(_LIMIT.fullmatch, cells)))


def with_unit(cell: str) -> tuple[str, str] | None:
    """A number and the unit behind it, such as ``21.3 °C``; None of other cells."""
    parts = UNIT.fullmatch(cell)
    unit = "" if parts is None else unit_in(f"({parts['unit'].strip()})")
    return (parts["number"], unit) if parts is not None and unit and unit not in LETTERS else None


def _lacks_number(cell: str) -> bool:
    """Whether a cell has a unit behind a word for missing, such as ``--- %``."""
    word, _, unit = cell.rpartition(" ")
    return word != "" and word.strip().lower() in MISSING and with_unit(f"1 {unit}") is not None


class LimitCells:
    """Reads such cells of a table of readings: as the limit, or as 0 where they are traces of rain; and numbers with a mark.

    A unit behind most numbers of a column, the same behind all, is read as such.

    Those with a mark that is ``bad`` are ``left_out``: so many.
    """

    def __init__(self, bad: Sequence[str] = ()) -> None:
        self._bad, self.left_out = {*bad}, 0
        self._seen: dict[str, Cells] = {}  # cells of each kind
        self._limits: dict[int, list[float]] = {}
        self._marks: dict[str, Cells] = {}
        self._units: dict[int, dict[str, list[tuple[str, int]]]] = {}

    def read(self, cell: str, row: int, column: int) -> float | None:
        """The limit, 0 for a trace, NaN for a remark or for a limit without a number (until :meth:`finish`); else None."""
        kind = next((kind for kind, words in WORDS.items() if cell.lower() in words), None)
        kind = "remark" if kind is None and _lacks_number(cell) else kind
        if kind is not None:
            self._seen.setdefault(kind, []).append((cell, row, column))
            return 0.0 if kind == "trace" else float("nan")
        marked = MARKED.fullmatch(cell)
        if marked is not None:
            self._marks.setdefault(marked["mark"] or marked["apart"], []).append((cell, row, column))
            return float(marked["number"].replace(",", "."))
        measured = with_unit(cell)
        if measured is not None:
            number, unit = measured
            self._units.setdefault(column, {}).setdefault(unit, []).append((cell, row))
            return float(number.replace(",", "."))
        parsed = _LIMIT.fullmatch(cell)
        if parsed is None:
            return None
        limit, below = float(parsed["number"].replace(",", ".")), parsed["side"] in "<≤"
        if below:
            self._limits.setdefault(column, []).append(limit)
        self._seen.setdefault("below" if below else "above", []).append((cell, row, column))
        return limit

    def finish(self, values: np.ndarray, notes: Notes, where: Where) -> None:
        """Complete limits without a number, and note how many readings are limits."""
        for side in ("below", "above"):
            if cells := self._seen.get(side):
                how = f"read as the limit itself: the true values lie {side} it"
                _guess(notes, cells, where, how, "write the limit")
        for mark, cells in self._marks.items():
            self._read_marked(mark, cells, values, notes, where)
        self._note_units(values, notes, where)
        if absent := sorted(self._bad - {*self._marks}):
            notes.fact(
                f"no number has the mark {', '.join(map(repr, absent))} behind it; if a column has it, pass --flag-column"
            )
        if remarks := self._seen.get("remark"):
            cell, row, column = remarks[0]
            notes.guess(
                f"{count(len(remarks), 'cell')} such as {cell!r} {'says' if len(remarks) == 1 else 'say'} why there is no "
                "reading, and count as missing",
                "leave such cells empty",
                place=where(row, column),
            )
        if undetected := self._seen.get("undetected"):
            self._complete(undetected, values, notes, where)
        if traces := self._seen.get("trace"):
            _refuse_other_than_rain(traces, values, notes, where)

    def _read_marked(self, mark: str, cells: Cells, values: np.ndarray, notes: Notes, where: Where) -> None:
        """Note how many numbers have a mark; refuse letters behind most numbers of a column, which are a unit."""
        readings = np.isfinite(values).sum(axis=0)
        number = np.bincount([column for *_, column in cells], minlength=len(readings))
        most = np.flatnonzero(mark.isalpha() & (number > MOST * readings))
        cell, row, column = next(one for one in cells if not most.size or one[2] == most[0])
        if most.size:
            raise InputError(f"{notes.source}, {where(row, column)}: {_refusal(cell)}.")
        if mark in self._bad:
            values[[row for _, row, _ in cells], [column for *_, column in cells]] = np.nan
            self.left_out += len(cells)
            _guess(notes, cells, where, f"left out, since {mark!r} marks bad ones", "leave their cells empty")
            return
        how = f"read without the mark {mark!r} behind the number; --bad leaves them out"
        _guess(notes, cells, where, how, "write the marks in a column of their own")

    def _note_units(self, values: np.ndarray, notes: Notes, where: Where) -> None:
        for column, cells in sorted(self._units.items(), reverse=True):  # to name the first one
            (cell, row), *_ = min(cells.values(), key=len)
            if len(cells) > 1 or sum(map(len, cells.values())) <= MOST * np.isfinite(values[:, column]).sum():
                raise InputError(f"{notes.source}, {where(row, column)}: {_refusal(cell)}.")
        if self._units:
            notes.guess(
                f"readings of {count(len(self._units), 'column')} such as {cell!r} have their unit in the cell",
                "write the unit in the header", place=where(row, column),
            )  # fmt: skip

    def _complete(self, cells: Cells, values: np.ndarray, notes: Notes, where: Where) -> None:
        cell, row, column = cells[0]
        every = [limit for limits in self._limits.values() for limit in limits]
        if not every:
            raise InputError(
                f"{notes.source}, {where(row, column)}: {cell!r} may mean not detected or no data: write the limit of "
                f"detection, such as <0.5, or say that it means no data by --missing {cell!r} (missing= of a recipe)."
            )
        for _, i, j in cells:
            values[i, j] = float(np.median(self._limits.get(j, every)))
        _guess(notes, cells, where, "read as the limit of detection that other cells name", "write the limit", such="")


def _guess(notes: Notes, cells: Cells, where: Where, how: str, remedy: str, such: str = "such as ") -> None:
    """Note how some cells were read, and where the first of them is."""
    cell, row, column = cells[0]
    said = f"{count(len(cells), 'reading')} {such}{cell!r} {verb(len(cells))} {how}"
    notes.guess(said, remedy, place=where(row, column))


def _refuse_other_than_rain(cells: Cells, values: np.ndarray, notes: Notes, where: Where) -> None:
    cell, row, column = cells[0]
    zeros = int((values == 0).sum()) - len(cells)
    if np.nanmin(values) < 0 or not zeros:
        raise InputError(
            f"{notes.source}, {where(row, column)}: {cell!r} is not a number; write 0 if it is a trace of rain, and leave "
            "it empty if it is missing."
        )
    _guess(notes, cells, where, "read as 0: a trace, too little to measure", "write 0", such="")
