"""The column of a long table that names the stations: by its name, by known stations, or by its words."""

from __future__ import annotations

from collections.abc import Sequence

from nareg.io._frames import Table
from nareg.io._marks import is_flag
from nareg.io._notes import Notes
from nareg.io._numbers import looks_read
from nareg.io._times import parse
from nareg.io._vocabulary import MISSING, SENSOR, STATION, loose


def station_column(
    table: Table, words: list[str], rest: list[int], chosen: int | None, stations: Sequence[str] | None, notes: Notes
) -> int | None:
    """The column of station names, if the table is long; ``chosen`` is that of the readings, if it is known."""
    others = [i for i in rest if i != chosen]
    names = {s.strip() for s in stations} if stations is not None else set()
    if sum(table.header[i] in names for i in rest) > 1:
        return None
    candidates = [i for word in (*STATION, *SENSOR) for i in others if words[i] == word]
    candidates = [i for i in candidates if len(rest) > 1 and not (table.header[i] in names and len(rest) > 2)]
    if names:  # of an id and a name, the one that the station table has; else any that has its names
        candidates.sort(key=lambda i: not any(cell in names for cell in table.head(i)))
        if not candidates or not any(cell in names for cell in table.head(candidates[0])):
            loosely_known = {loose(name) for name in names}
            wide = any(loose(table.header[i]) in loosely_known for i in rest)
            holding = [i for i in others if len(rest) > 1 and not wide and _holds(table.head(i), loosely_known)]
            if holding and holding[0] not in candidates[:1]:
                notes.guess(f"column {table.header[holding[0]]!r} holds the station names", "name it 'station'")
                return holding[0]
    if candidates:
        _note_other(table, candidates, notes)
        return candidates[0]
    rest = rest if len(rest) == 2 else others
    if len(rest) == 2 and not any(table.header[i] in names for i in rest):
        texts = [i for i in rest if all(map(word_alone, table.head(i)))]
        numbers = [i for i in rest if looks_read(table.head(i), comma=table.comma)]
        if len(texts) == len(numbers) == 1:
            notes.guess(f"column {table.header[texts[0]]!r} holds the station names", "name it 'station'")
            return texts[0]
    return None


def only_words(table: Table, rest: list[int], notes: Notes) -> int | None:
    """The column of words, where there is one and at least two of numbers: a long table of several quantities."""
    named = [i for i in rest if not is_flag(table.header[i]) and all(map(word_alone, table.head(i)))]
    numbers = [i for i in rest if any(table.head(i)) and looks_read(table.head(i), comma=table.comma)]
    if len(named) != 1 or len(numbers) < 2:
        return None
    notes.guess(f"column {table.header[named[0]]!r} holds the station names", "name it 'station'")
    return named[0]


def _note_other(table: Table, candidates: list[int], notes: Notes) -> None:
    """Say which column is taken where another one would make other stations of the rows."""
    taken, *others = [i for i in candidates if any(table.head(i))] or candidates
    if not others:
        return
    taken_cells, *other_cells = table.load([taken, *others], [])[0]
    own = len(set(taken_cells.tolist()))
    for i, cells in zip(others, other_cells, strict=True):
        pairs = len(set(zip(taken_cells.tolist(), cells.tolist(), strict=True)))
        if pairs > own or pairs > len(set(cells.tolist())):
            notes.guess(
                f"columns {table.header[taken]!r} and {table.header[i]!r} may both name the stations, and the first is taken",
                "name the right one by --station-column (station= of a recipe)",
            )
            return


def _holds(cells: list[str], loosely_known: set[str]) -> bool:
    """Whether most cells of a column are station names, given without case and leading zeros."""
    return 2 * sum(loose(cell) in loosely_known for cell in cells if cell) > len(cells)


def word_alone(cell: str) -> bool:
    """Whether a cell is a name, not a damaged number, a missing reading or a date."""
    return cell[:1].isalpha() and cell.lower() not in MISSING and parse(cell) is None
