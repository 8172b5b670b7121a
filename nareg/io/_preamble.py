"""Lines around the header that loggers and agencies write, and texts that are no tables of cells at all."""

from __future__ import annotations

import re

from nareg.errors import InputError
from nareg.io._notes import Notes, listed

#: Campbell loggers: lines before the header, and after it (units, kinds of averages), by the first cell of the file.
CAMPBELL = {"TOA5": (1, 2), "TOACI1": (1, 0)}
CAMPBELL_BINARY = ("TOB1", "TOB2", "TOB3")
#: What the United States Geological Survey writes below the header of its RDB files: width and type of each column.
RDB_WIDTH = re.compile(r"\d+[sdn]", re.IGNORECASE)
#: Starts of texts that hold no table, and what they are.
NO_TABLES = ((re.compile(r"\{|\[\s*[{\[]"), "JSON"), (re.compile(r"<(\?xml|!|[A-Za-z])"), "XML or HTML"))
SPLIT = re.compile(r"[,;\t|]")
#: Lines by which cells between spaces are recognized, and cells that they have at least.
LINES, CELLS = 6, 4


def after_preamble(lines: list[str], start: int, notes: Notes) -> int:
    """Index of the header, where ``start`` is the first line with content. Lines that are no rows are emptied.

    Raises
    ------
    InputError
        For texts that are no tables, with the remedy for their kind.
    """
    first = lines[start].strip()
    kind = next((what for mark, what in NO_TABLES if mark.match(first)), None)
    if kind is not None:
        raise InputError(f"{notes.source} is {kind}, a CSV file is expected: export the readings as a table of commas.")
    mark = SPLIT.split(first)[0].strip('" ')
    if mark in CAMPBELL_BINARY:
        raise InputError(f"{notes.source} is a binary table of a Campbell logger ({mark}): convert it to TOA5, or to CSV.")
    if mark in CAMPBELL and len(lines) > start + 1:
        before, after = CAMPBELL[mark]
        start += before
        left_out = lines[start + 1 : start + 1 + after]
        units = dict.fromkeys(cell.strip('" ') for cell in SPLIT.split(left_out[0])[2:]) if left_out else {}
        units.pop("", None)
        lines[start + 1 : start + 1 + after] = [""] * len(left_out)
        what = f"; units are {listed(list(units))}" if units else ""
        notes.fact(f"the file is a Campbell logger's ({mark}), whose lines beside the header are left out{what}")
    below = next((i for i in range(start + 1, len(lines)) if lines[i].strip()), None)
    if below is not None and "\t" in lines[start] and all(map(RDB_WIDTH.fullmatch, lines[below].strip("\n").split("\t"))):
        lines[below] = ""
        notes.fact("the line of widths below the header (RDB) is left out")
    return start


def refuse_spaces(lines: list[str], start: int, notes: Notes) -> None:
    """Refuse a text whose cells are separated by spaces alone."""
    sample = [line for line in lines[start : start + 4 * LINES] if line.strip()][:LINES]
    widths = {len(line.split()) for line in sample[-max(len(sample) - 2, 1) :]}
    if len(widths) == 1 and widths.pop() >= CELLS and not any(SPLIT.search(line) for line in sample):
        raise InputError(
            f"{notes.source}: the cells are separated by spaces: write commas between them, below a header with 'time', then "
            "one column per station."
        )
