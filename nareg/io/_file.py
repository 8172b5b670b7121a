"""A text file as header and blocks of cells, with the line of every row.

Text with quotes is cut into cells by :mod:`._text`; text without one by its separators alone, which is much faster.
pandas' own reader fills short rows silently and gives no line numbers.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice, repeat

import numpy as np

from nareg.errors import InputError
from nareg.io._around import (
    CELLS,
    NAME_COLUMNS,
    SAMPLE,
    SAMPLE_CELLS,
    SEPARATORS,
    after_preamble,
    is_header,
    one_header,
    refuse_spaces,
    row_without_header,
    stated_in,
    with_commas,
    with_header,
    without_end,
    without_inside,
)
from nareg.io._notes import NoReadings, Notes, count, verb
from nareg.io._numbers import Numbers, OddCells
from nareg.io._text import is_prose, read_text, rows, unshield
from nareg.io._vocabulary import CALENDAR, MISSING, SENSOR, STATION, TIME, kinds_in, plain, unit_in

#: A line above the header that states the unit of all readings.
UNIT_LINE = re.compile(r'\W*(?:units?|einheit)\W*[:=;,\t|]\W*?([^;,\t|"\s][^;,\t|"]{0,19})[\s;,\t|"]*', re.IGNORECASE)
#: Headings of HOBOware: name, unit, serial numbers of logger and sensor.
SERIAL = re.compile(r"^([^,]+?)(?:, ([^,]+?))? \(LGR S/N: [^)]*\)$")
LABELED = "are named by the labels of their sensors"
LABEL = re.compile(r"\(LGR S/N: [^)]*LBL: ([^),]+)\)$")
#: A first cell in apostrophes, as other files have quotes.
APOSTROPHES = re.compile(r"\s*'[^']+'\s*[,;\t]")
#: A cell in apostrophes below other headings.
WRAPPED = re.compile(r"(^|[,;|\t])'([^',;|\t]*)'(?=[,;|\t]|$)")
#: Numbers with a decimal mark, and with the other mark between thousands.
MARKED = {
    ",": re.compile(r"[+-]?(?:\d{1,3}(?:\.\d{3})+|\d*)(?:,\d*)?", re.ASCII),
    ".": re.compile(r"[+-]?\d{1,3}(?:,\d{3})+(?:\.\d*)?", re.ASCII),
}
SHOWN = {",": "comma", ";": "semicolon", "\t": "tab", "|": "vertical bar"}
#: Names of a first column by which a line that starts with "#" is a header, not a comment.
HEADERS = frozenset((*STATION, *SENSOR, *TIME))
#: Cells in memory as text at a time.
BLOCK = 1 << 19


class FileTable:
    """A CSV file: header, a sample of rows, then all rows on request.

    Parameters
    ----------
    path : path
        The file.
    notes : Notes
        Collects the guesses.
    missing : frozenset of str
        Cells that mean that there is no reading, beside the usual ones.
    text : str, optional
        What the file holds, where it was read already.
    decimal : str, optional
        Decimal mark, where it is known; the other mark separates thousands.
    header : str, optional
        Names of the columns, where the file has none.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        notes: Notes,
        missing: frozenset[str] = frozenset(),
        *,
        text: str | None = None,
        decimal: str | None = None,
        header: str | None = None,
    ) -> None:
        self.source, self.notes, self.missing = str(path), notes, MISSING | missing
        self.units: dict[str, str] = {}
        #: The station of the table and its place, where comments or headings state them.
        self.stated: dict[str, str] = {}
        self.failed: dict[str, int] = {}
        self._decimal = decimal
        text = read_text(path, notes) if text is None else text
        self._quotes, self._apostrophes = '"' in text, "'" in text
        self._lines = text.rstrip("\n").split("\n")
        del text
        if is_prose(self._lines):
            raise NoReadings(
                f"{self.source} is a text of sentences, of which no table can be made: pass the table of readings."
            )
        start = self._after_comments()
        if start is None:
            raise InputError(f"{self.source} is empty: a header line and at least one row are needed.")
        named = start + (self._lines[start][:4].lower() == "sep=" and start + 1 < len(self._lines))
        own = None if header is None else with_header(self._lines, named, header, self.source, self.missing)
        self._inserted = int(own is not None)
        self._quotes |= '"' in self._lines[own or named]
        first = start
        if own is not None and own > named:
            start = own
            notes.fact(f"{count(own - first, 'line')} above the rows {verb(own - first)} left out")
        else:
            start = after_preamble(self._lines, start, notes)
        start = one_header(self._lines, start, notes)
        self.stated |= stated_in(self._lines[first:start])
        without_end(self._lines, start, notes)
        stated = {match[1].strip() for line in self._lines[:start] if (match := UNIT_LINE.fullmatch(line))}
        if len(stated) == 1:
            self.units[""] = stated.pop()
        if not self._quotes and APOSTROPHES.match(self._lines[start]):
            self._lines, self._quotes = [line.replace("'", '"') for line in self._lines], True
        elif self._apostrophes and any(map(WRAPPED.search, self._lines[start + 1 : start + 2])):
            self._lines = [WRAPPED.sub(r"\1\2", line) for line in self._lines]
        self._lines = with_commas(self._lines, start, notes)
        declared = None
        if self._lines[0][:4].lower() == "sep=" and len(self._lines[0]) == 5 and len(self._lines) > 1:
            declared, start = self._lines[0][4], 1  # a line by which spreadsheets name the separator
        self._start = start
        self._separator = self._choose_separator(declared)
        without_inside(self._lines, start, self._separator, notes, quotes=self._quotes)
        names, *self._sample = self._first(self._separator, checked=True)
        self.header = self._without_serial_numbers([unshield(name) for name in names])
        if not self._sample:
            raise NoReadings(f"{self.source} has a header but no rows: add at least one.")
        self.lines = np.empty(0, dtype=np.int64)

    def _after_comments(self) -> int | None:
        """Index of the first line with content that is no comment, or None. A header that starts with "#" loses it."""
        comments, last = 0, 0
        for i, line in enumerate(self._lines):
            text = line.strip()
            marked = text.startswith("#")
            if text and not marked and comments and is_header(self._lines[last], text):
                i, text = last, self._lines[last].strip(" \t#")
                self._lines[last], comments = text, comments - 1
            apart = text[1:].split()
            buoy = len(apart) >= CELLS and plain(apart[0]) in CALENDAR[0]
            if marked and (buoy or plain(re.split(r"[,;\t|]", text[1:])[0].strip(' "')) in HEADERS):
                self._lines[i], marked = text[1:].lstrip(), False
            if text and not marked:
                self.stated = stated_in(self._lines[:i])
                if comments:
                    self.notes.fact(f"{count(comments, 'line')} of comments before the header {verb(comments)} left out")
                return i
            comments, last = comments + marked, i if marked else last
        return None

    def _without_serial_numbers(self, headings: list[str]) -> list[str]:
        """Names of columns. Labels of HOBOware's sensors name the station, or columns that nothing else tells apart."""
        names = [SERIAL.sub(_named, heading) for heading in headings]
        labels = [label[1].strip() if (label := LABEL.search(heading)) else "" for heading in headings]
        every = {label for label in labels if label}
        if len(every) == 1 and not kinds_in(*every):  # a label such as "Air Temp" is of what is read
            self.stated.setdefault("station", *every)
        twice = {name for name in names if names.count(name) > 1}
        if len(every) > 1 and twice == {name for name, label in zip(names, labels, strict=True) if label} and len(twice) == 1:
            self.units.setdefault("", unit_in(*twice))
            self.notes.fact(f"the columns {next(iter(twice))!r} {LABELED}")
            return [label or name for name, label in zip(names, labels, strict=True)]
        return names

    @property
    def comma(self) -> bool:
        """Whether a comma may be a decimal mark."""
        return self._decimal is None and self._separator != ","

    def _marked(self, cell: str) -> str:
        """A number with a decimal point and without marks between thousands, where the decimal mark is known."""
        if self._decimal is None or not MARKED[self._decimal].fullmatch(cell):
            return cell
        return cell.replace(".", "").replace(",", ".") if self._decimal == "," else cell.replace(",", "")

    def head(self, index: int) -> list[str]:
        """The first cells of a column, empty where they mean missing."""
        own = self.missing - MISSING
        return ["" if row[index].strip().lower() in own else self._marked(unshield(row[index])) for row in self._sample]

    def leave_out_first(self) -> None:
        """Leave out the first row, which has no reading."""
        first = next(i for i in range(self._start + 1, len(self._lines)) if self._lines[i].strip(self._separator + " \t"))
        self._lines[first] = ""
        del self._sample[0]

    def column(self, index: int) -> str:
        """The name of a column in messages."""
        return f"column {self.header[index]!r}" if self.header[index] else f"column {index + 1}, which has no name"

    def line(self, row: int) -> str:
        """The place of a row that was loaded."""
        return f"line {self.lines[row]}"

    def place(self, row: int, column: int) -> str:
        """The place of a cell that was loaded."""
        return f"{self.line(row)}, {self.column(column)}"

    def load(
        self, texts: Sequence[int], numbers: Sequence[int], *, finite: bool = False, odd: OddCells | None = None
    ) -> tuple[list[np.ndarray], np.ndarray]:
        """Texts of some columns and numbers (R, C) of others, by ``odd`` where their cells are no numbers."""
        lines: list[np.ndarray] = []
        done = 0

        def where(row: int, column: int) -> str:
            line = self.lines[row] if finished else lines[-1][row - done]
            return f"line {line}, {self.column(numbers[column])}"

        finished = False
        converter = Numbers(self.notes, where, comma=self.comma, finite=finite, odd=odd, missing=self.missing)
        words: list[list[np.ndarray]] = [[] for _ in texts]
        values = []
        every = len(numbers) and list(numbers) == list(range(numbers[0], numbers[0] + len(numbers)))
        for line, cells in self._blocks():
            lines.append(line)
            for column, parts in zip(texts, words, strict=True):
                stripped = map(str.strip, cells[:, column])
                parts.append(np.array(list(map(unshield, stripped) if self._apostrophes else stripped), dtype=object))
            wanted = cells[:, numbers[0] : numbers[-1] + 1] if every else cells[:, list(numbers)]
            if self._decimal is not None:
                marked = [self._marked(cell.strip()) for cell in wanted.ravel()]
                wanted = np.array(marked, dtype=object).reshape(wanted.shape)
            values.append(converter.convert(wanted, done))
            done += len(line)
        self.lines, table, finished = np.concatenate(lines), np.concatenate(values), True
        converter.finish(table)
        return [np.concatenate(parts) for parts in words], table

    def _choose_separator(self, declared: str | None) -> str:
        """The separator that gives the first rows as many cells as the header, at least two."""
        if declared is not None:
            self.notes.guess(f"the cells are separated by {declared!r}, as the first line says", "separate them by commas")
            return declared
        first = self._lines[self._start]
        widths: dict[str, tuple[bool, int]] = {}
        for separator in SEPARATORS:
            if separator not in first:
                continue
            try:
                sample = self._first(separator, checked=False)
            except InputError:
                continue
            width = len(sample[0])
            if width > 1 and all(len(row) == width or not any(row[width:]) for row in sample):
                # "Date Time, GMT+01:00;Temp" has two cells by commas as well, but its rows have not
                widths[separator] = all(len(row) >= width for row in sample), width
        # where none fits, the commas or the only other one, so that the sentence about the first ragged row is right
        present = [s for s in SEPARATORS if s in first]
        if not present:
            refuse_spaces(self._lines, self._start, self.notes)
        best = max(widths, key=lambda s: widths[s]) if widths else "," if "," in first or len(present) != 1 else present[0]
        if best != ",":
            self.notes.guess(
                f"the cells are separated by a {SHOWN[best]}", "separate them by commas and write decimal points",
                refusal=f"the separator must be a comma (and the decimal mark a point); the header is {first[:80]!r}",
            )  # fmt: skip
        return best

    def _first(self, separator: str, *, checked: bool) -> list[list[str]]:
        """The header and a few rows below."""
        numbered = self._rows(separator, checked=checked)
        _, header = next(numbered, (0, None))
        if header is None:
            raise InputError(f"{self.source} has no cell with content: a header line and at least one row are needed.")
        number = min(SAMPLE, max(3, SAMPLE_CELLS // len(header)))
        return [header, *(row for _, row in islice(numbered, number))]

    def _rows(self, separator: str, *, checked: bool = True) -> Iterator[tuple[int, list[str]]]:
        """Line number and cells, stripped, of each row with content; the header is the first."""
        width = 0
        for line, cells in rows(
            self.source, islice(self._lines, self._start, None), separator, first=self._start + 1 - self._inserted
        ):
            width = width or len(cells)
            yield line, self._checked(line, cells, width) if checked else cells

    def _checked(self, line: int, cells: list[str], width: int) -> list[str]:
        if len(cells) < width or any(cell.strip() for cell in cells[width:]):
            row = None if self._inserted else row_without_header(self._lines, self._start)
            if row is not None:
                raise InputError(f"{self.source}: no line above line {row + 1} names the columns of its rows: {NAME_COLUMNS}.")
            if width == 1 or self._is_title():
                title = self._lines[self._start].strip()
                raise InputError(
                    f"{self.source}, line {self._start + 1}: {title[:80]!r} is no header, since line {line} has {len(cells)} "
                    "cells: delete the lines above the header."
                )
            self._refuse_preamble(line, width)
            raise InputError(f"{self.source}, line {line}: {len(cells)} cells, but the header has {width}: correct the line.")
        return cells[:width]  # without separators at the end of the line

    def _is_title(self) -> bool:
        """Whether what is taken as the header has its first cell alone."""
        first, *others = (cell.strip(' "') for cell in self._lines[self._start].split(self._separator))
        return bool(first) and not any(others)

    def _refuse_preamble(self, line: int, width: int) -> None:
        """Refuse a table that begins below other lines: most lines from here on have another number of cells."""
        try:
            below = rows(self.source, islice(self._lines, line - 1 + self._inserted, None), self._separator, first=line)
            widths = [len(cells) for _, cells in islice(below, SAMPLE)]
        except InputError:
            return
        common = max(set(widths), key=widths.count)
        if common != width and len(widths) > 2 and 2 * widths.count(common) > len(widths):
            title = self._lines[self._start].strip()
            raise InputError(
                f"{self.source}, line {self._start + 1}: {title[:80]!r} has {width} cells, but the lines from {line} on have "
                f"{common}: delete the lines above the header, or repair the header."
            )

    def _blocks(self) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """Line numbers (R,) and cells (R, C) of the rows below the header, some at a time."""
        size = max(1, BLOCK // len(self.header))
        return self._quoted(size) if self._quotes else self._plain(size)

    def _quoted(self, size: int) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        numbered = self._rows(self._separator)
        next(numbered)
        while some := list(islice(numbered, size)):
            yield self._block([line for line, _ in some], [cell for _, row in some for cell in row])

    def _plain(self, size: int) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """Blocks of a text without quotes, many rows at a time."""
        separator, width = self._separator, len(self.header)
        for start in range(self._start + 1, len(self._lines), size):
            lines = self._lines[start : start + size]
            numbers: Iterable[int] = range(start + 1 - self._inserted, start + 1 - self._inserted + len(lines))
            if set(map(str.count, lines, repeat(separator))) != {width - 1}:
                cut = [
                    (n, line.split(separator)) for n, line in zip(numbers, lines, strict=True) if line.strip(separator + " \t")
                ]
                lines = [separator.join(self._checked(n, row, width)) for n, row in cut]
                numbers = [n for n, _ in cut]
            if lines:
                block, cells = self._block(numbers, separator.join(lines).split(separator))
                blank = np.flatnonzero(cells[:, 0] == "")
                blank = blank[[not any(cell.strip() for cell in cells[row]) for row in blank]] if blank.size else blank
                yield np.delete(block, blank), np.delete(cells, blank, axis=0) if blank.size else cells

    def _block(self, numbers: Iterable[int], flat: list[str]) -> tuple[np.ndarray, np.ndarray]:
        return np.array(list(numbers), dtype=np.int64), np.array(flat, dtype=object).reshape(-1, len(self.header))


def _named(heading: re.Match[str]) -> str:
    return heading[1] + (f" ({heading[2]})" if heading[2] else "")
