"""What stands above and below the rows of a text: lines of loggers, titles, comments, sums; and cells between spaces."""

from __future__ import annotations

import csv
import re
from collections.abc import Collection, Sequence

from nareg.errors import InputError
from nareg.io._dates import parse
from nareg.io._notes import Notes, count, listed, verb
from nareg.io._numbers import looks_numeric
from nareg.io._vocabulary import CALENDAR, MISSING, STATED, TIME, plain

#: Campbell loggers: lines before the header, and after it (units, kinds of averages), by the first cell of the file.
CAMPBELL = {"TOA5": (1, 2), "TOACI1": (1, 0)}
CAMPBELL_BINARY = ("TOB1", "TOB2", "TOB3")
#: What the United States Geological Survey writes below the header of its RDB files: width and type of each column.
RDB_WIDTH = re.compile(r"\d+[sdn]", re.IGNORECASE)
#: Starts of texts that hold no table, and what they are.
NO_TABLES = ((re.compile(r"\{|\[\s*[{\[]"), "JSON"), (re.compile(r"<(\?xml|!|[A-Za-z])"), "XML or HTML"))
SPLIT = re.compile(r"[,;\t|]")
#: Further names and values in a comment; a name and a value in two cells; a longitude that is west; an altitude in meters.
APART = re.compile(r"[,;|\t]\s*(?=[^,;|\t:=]+[:=])")
CELL = re.compile(r"^([^,;|\t:=]+)[,;|\t]\s*(?=[^,;|\t:=]+[,;|\t\s]*$)")
HEMISPHERE = re.compile(r"[(\[](?:.*\b)?([WS])(?:est|outh)?[)\]]\s*$")
GRADES = re.compile(r"\s*(?:grad(?:os|i)?|deg(?:rees?|\.)?|°)$", re.IGNORECASE)
FEET = re.compile(r"[(\[_\s](?:ft|feet|foot)\b", re.IGNORECASE)
HEIGHT = re.compile(r"([+-]?\d+(?:\.\d+)?)\s*(?:m|met(?:er|re)s?|m ?a\.?s\.?l\.?)?", re.IGNORECASE)
#: Lines by which cells between spaces are recognized, and cells that they have at least.
LINES, CELLS = 6, 4
SEPARATORS = (",", ";", "\t", "|")
#: What to do about a table of numbers alone, and about one whose first line is one of its rows.
NAME_COLUMNS = "name its columns by --header (header= of a recipe), such as --header time,A,B"
WITHOUT_TIMES = "A table without times is read with --step and --start."
#: Rows by which separator and layout are recognized; of wide tables as many as have so many cells, three at least.
SAMPLE, SAMPLE_CELLS = 20, 10_000
#: A line of text below the rows, which is none that is cut off; and first words of lines of sums and means.
TEXT = re.compile(r"(?![\d+]|[-.]\d).*[^\W\d]{2}")
SUMS = frozenset(
    ("total", "totals", "sum", "average", "avg", "mean", "median", "min", "max", "minimum", "maximum", "count", "std", "stddev",
     "summe", "gesamt", "mittel", "mittelwert", "durchschnitt", "totale", "somme", "moyenne", "totaal", "som", "gemiddeld",
     "gemiddelde", "media", "promedio", "suma")
)  # fmt: skip
#: Parts of a date's format below a header, as in TT.MM.JJJJ hh:mm.
FORMAT = frozenset(
    ("tt", "dd", "d", "jj", "gg", "mm", "m", "yy", "yyyy", "jjjj", "aaaa", "aa", "hh", "h", "hh24", "mi", "mn", "nn", "ss", "s",
     "uu", "oo")
)  # fmt: skip
#: Lines of titles above a header, at most.
TITLES = 40


def stated_in(comments: list[str]) -> dict[str, str]:
    """Station, latitude, longitude and altitude that comments state as ``# Name: value``, those alone that are unmistakable."""
    stated: dict[str, list[str]] = {}
    for line in comments:
        for part in APART.split(CELL.sub(r"\1:", line.lstrip("# \t"))):
            name, mark, value = (text.strip(" \t\"',;") for text in re.split("([:=])", part + "::", maxsplit=1))
            value = value.removesuffix("::").strip(" \t\"',;")
            role = next((role for role, words in STATED.items() if plain(name) in words), None)
            if role in ("latitude", "longitude"):
                value = GRADES.sub("", value)
            if mark and value and role is not None and not (role == "altitude" and FEET.search(name)):
                west = HEMISPHERE.search(name)
                stated.setdefault(role, []).append(
                    f"{value} {west[1]}" if west and looks_numeric([value], comma=False) else value
                )
    heights = [number[1] for text in stated.pop("altitude", []) if (number := HEIGHT.fullmatch(text))]
    known = {role: values[0] for role, values in stated.items() if len({*values}) == 1}
    placed = "latitude" in known and "longitude" in known
    name = known.get("station", known.get("site") if placed else None)  # a site alone may be another name than the file's
    return {
        **({"station": name} if name is not None else {}),
        **({"latitude": known["latitude"], "longitude": known["longitude"]} if placed else {}),
        **({"altitude": heights[0]} if placed and len({*heights}) == 1 else {}),
    }


def with_header(lines: list[str], start: int, header: str, source: str, missing: Collection[str]) -> int | None:
    """Insert, in place, the names of columns above the first row, at ``start`` or below; its index, or None of a header."""
    names = next(csv.reader([header], skipinitialspace=True))
    start = row_without_header(lines, start, len(names)) or start
    first = lines[start].strip(" ")
    cuts = {mark: next(csv.reader([first], delimiter=mark)) for mark in (";", "\t", "|", ",") if mark in first}
    if not cuts or (
        {*cuts} == {","} and all("," not in c or looks_numeric([c], comma=True) for c in first.split())
    ):  # 2024 05 01 3,5
        cuts[" "] = first.split()
    fits = [mark for mark, cells in cuts.items() if len(cells) >= len(names) and not any(cells[len(names) :])]
    mark = fits[0] if fits else max(cuts, key=lambda one: len(cuts[one]))
    cells, below = cuts[mark], next((line for line in lines[start + 1 :] if line.strip()), first)
    other = below.split() if mark == " " else next(csv.reader([below], delimiter=mark))
    words = [
        cell.strip().lower() not in missing and not looks_numeric([cell], comma=True) and not parse(cell) for cell in cells
    ]
    dated = any(parse(one) and parse(cell) for one, cell in zip(cells, other, strict=False))
    # numbers name stations; below a date are dates
    if all(words) or (not dated and any(word and _is_value(cell) for word, cell in zip(words, other, strict=False))):
        return None
    if not fits:
        raise InputError(
            f"{source}, line {start + 1}: {len(cells)} cells, but header names {count(len(names), 'column')} "
            f"({listed(names)}): name each, with commas between."
        )
    if mark == " ":
        mark = ";" if "," in first else ","
        lines[start:] = [mark.join(line.split()) for line in lines[start:]]
    lines.insert(start, mark.join(f'"{name.strip()}"' if mark in name else name.strip() for name in names))
    return start


def row_without_header(lines: list[str], start: int, width: int | None = None) -> int | None:
    """Index of the first row of so many cells that the one below is like, where only other lines than a header are above it."""
    near = [i for i in range(start, min(start + TITLES + SAMPLE, len(lines))) if lines[i].strip()]
    for above, i, below in zip(near, near[1:], near[2:], strict=False):
        if rows_alike(lines[above], lines[i]):
            return None
        for mark in SEPARATORS:
            before, *cells = (len(next(csv.reader([lines[j]], delimiter=mark))) for j in (above, i, below))
            if width is None and above == start and 1 < before == cells[0] - 1:
                continue  # a header without the name of the first column
            if before != cells[0] == cells[1] == (width or max(2, cells[0])) and rows_alike(lines[i], lines[below]):
                return i
    return None


def rows_alike(one: str, other: str) -> bool:
    """Whether two lines have dates, numbers and words in the same cells, two values at least, as rows of one kind have."""
    mark = next((mark for mark in (";", "\t", "|", ",") if mark in one), " ")
    rows = [[cell.strip(' "') for cell in line.strip().split(mark)] for line in (one, other)]
    kinds = [[cell and (parse(cell) is not None or looks_numeric([cell], comma=mark != ",")) for cell in row] for row in rows]
    pairs = [(a, b) for a, b in zip(*kinds, strict=False) if "" not in (a, b)]
    return len(rows[0]) == len(rows[1]) and all(a == b for a, b in pairs) and sum(a for a, _ in pairs) > 1


def about_header(names: Sequence[str]) -> str:
    """What to do where the names of columns may be a row of readings; empty where they are none."""
    return f" If the first line is a row of readings, {NAME_COLUMNS}." if any(map(_is_value, names)) else ""


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
    return _after_titles(lines, start, notes)


def _after_titles(lines: list[str], start: int, notes: Notes) -> int:
    """Index of the header below lines of a title or a name and a value: the first of as many words as most rows have cells."""
    if lines[start][:4].lower() == "sep=":
        return start

    def begins(two: list[list[str]]) -> bool:  # a table of one column
        return len(two) == 2 and plain(two[0][0]) in TIME and not parse(two[0][1]) and parse(two[1][0]) is not None

    near = [i for i in range(start, min(start + TITLES + SAMPLE, len(lines))) if lines[i].strip()]
    title = [
        all(len(list(filter(str.strip, next(csv.reader([lines[i]], delimiter=separator))))) <= 2 for separator in SEPARATORS)
        for i in near
    ]
    for separator in SEPARATORS:
        cells = [[cell.strip() for cell in row] for row in csv.reader((lines[i] for i in near), delimiter=separator)]
        if len(cells) != len(near):  # a quoted cell goes on over lines
            continue
        filled = [sum(map(bool, row)) for row in cells]
        header = next((k for k, number in enumerate(filled) if number > 2 or (number == 2 and begins(cells[k : k + 2]))), 0)
        width = len(cells[header])
        words = not any(parse(cell) or looks_numeric([cell], comma=False) for cell in cells[header] if cell)
        same = [len(row) for row in cells[header + 1 :] if len(row) >= width]
        if 0 < header <= TITLES and all(title[:header]) and words and 2 * len(same) > len(cells) - header - 1:
            notes.guess(
                f"{count(header, 'line')} above the header {verb(header)} left out ({_shown(lines[start])})",
                "delete the lines above the header",
            )
            return near[header]
    return _after_other_tables(lines, near, notes)


def _shown(line: str) -> str:
    """A line in a note, without separators at its ends."""
    return repr(line.strip(" ,;\t")[:40])


def _after_other_tables(lines: list[str], near: list[int], notes: Notes) -> int:
    """Index of the header below lines of other numbers of cells, such as a station's name: the last that has words alone."""
    for separator in SEPARATORS:
        cells = list(csv.reader((lines[i] for i in near), delimiter=separator))
        widths = list(map(len, cells))
        first = next((k for k in range(len(widths)) if len({*widths[k:]}) == 1), 0)
        if len(cells) != len(near) or widths[0] == widths[-1] or widths[-1] < 2:
            continue
        for k in range(first, len(cells) - SAMPLE + 1):
            words = [cell.strip() for cell in cells[k]]
            if all(words[:2]) and not any(map(_is_value, words)) and any(map(_is_value, cells[k + 1])):
                notes.guess(
                    f"{count(k, 'line')} above the header {verb(k)} left out ({_shown(lines[near[0]])})",
                    "delete the lines above the header",
                )
                above = [cell.strip() for cell in cells[k - 1]] if k > first and _is_format(words[0]) else [""]
                return near[k - 1] if all(above) and len({*above}) == len(above) and not any(map(_is_value, above)) else near[k]
    return near[0]


def _is_format(cell: str) -> bool:
    """Whether a cell says how dates are written, as a row of units does."""
    parts = re.findall(r"[^\W_]+", cell.casefold())
    return len(parts) > 2 and FORMAT.issuperset(parts)


def is_header(comment: str, row: str) -> bool:
    """Whether a comment has the names of the columns of the row below it, which is one of readings."""
    for separator in SEPARATORS:
        names, cells = ([cell.strip() for cell in text.split(separator)] for text in (comment.strip(" \t#"), row))
        if 2 < len(names) == len(cells) and all(names) and not any(map(_is_value, names)) and all(map(_is_value, cells[:2])):
            return True
    return False


def _is_value(cell: str) -> bool:
    text = cell.strip()
    return bool(text) and (parse(text) is not None or looks_numeric([text], comma=False))


def one_header(lines: list[str], start: int, notes: Notes) -> int:
    """Index of the header, where its words stand in two or three lines: the last one names the times.

    In the first of two nothing stands above the times (WeatherLink), or the times and groups of columns, each in the first cell
    of its group (Ecowitt); of three, the first have the logger's ports and sensors.
    """
    for count_of in (2, 3):
        for separator in SEPARATORS:
            rows = [[cell.strip() for cell in line.split(separator)] for line in lines[start : start + count_of + 1]]
            *above, last, values = rows if len(rows) > count_of else [[], [], []]
            if last[:1] == [""] and "" in above[-1] and plain(above[-1][0]) in TIME:
                last[0], above[-1][0] = above[-1][0], ""
                for k, group in enumerate(above[-1]):
                    above[-1][k] = group or above[-1][max(k - 1, 0)]
            if not 2 < len(last) <= len(values) or any(len(row) != len(last) for row in above) or '"' in lines[start]:
                continue
            named = not above[0][0] if count_of == 2 else plain(last[0]) in TIME
            if not named or not all(last) or any(map(_is_value, sum(above, last))) or not _is_value(values[0]):
                continue
            joined = [" ".join(filter(None, cells)) for cells in zip(*above, last, strict=True)]
            if len({*joined}) < len(joined):
                continue
            lines[start : start + count_of] = [*[""] * (count_of - 1), separator.join([last[0], *joined[1:]])]
            notes.guess(f"the {count_of} lines of the header are joined", "write one line")
            return start + count_of - 1
    return start


def without_end(lines: list[str], start: int, notes: Notes) -> None:
    """Leave out, in place, the last lines where they are no rows: comments, a line of text, sums and means of the columns."""

    def cells(k: int) -> list[str]:
        return [cell.strip(' "') for cell in SPLIT.split(lines[below[k]])]

    def sums(k: int) -> bool:
        first = next(iter(cells(k)[0].split()), "")
        return first.strip(":.").casefold() in SUMS and not any(map(parse, cells(k)))

    def no_row(k: int) -> bool:
        line = lines[below[k]].strip(' "')
        width = len(SPLIT.split(lines[start]))
        few = 2 * len(cells(k)) <= width or sum(map(bool, map(str.strip, line.split(mark)))) == 1
        prose = few and len(line.split()) > max(2, worded) and not any(map(_is_value, cells(k)))
        alone = (len(cells(k)) == 1 < width) or prose
        text = alone and TEXT.match(line) and parse(line.strip(",;|\t ")) is None
        return lines[below[k]].count('"') % 2 == 0 and bool(line.startswith("#") or text or sums(k))

    mark = max(SEPARATORS, key=lines[start].count)
    below = [i for i in range(max(start + 1, len(lines) - 4 * TITLES), len(lines)) if lines[i].strip()]
    rows = [lines[i].split(mark) for i in below]  # names and dates may have several words, too
    worded = max((len(row[0].split()) for row in rows if any(map(_is_value, row))), default=0)
    first = len(below)
    while first and no_row(first - 1):
        first -= 1
    first = first or len(below)  # names alone
    # a station may be called Max: below rows that begin with words, a sum is one that lacks the date
    above = cells(first - 1) if first else [""]
    date = next((k for k, cell in enumerate(above) if parse(cell)), None)
    if not above[0][:1].isdigit():
        while first < len(below) and sums(first) and (date is None or any(cells(first)[date : date + 1])):
            first += 1
    if first < len(below):
        number, text = len(below) - first, _shown(lines[below[first]])
        notes.guess(
            f"{count(number, 'line')} below the rows {verb(number)} left out ({text})", "delete the lines below the rows"
        )
        del lines[below[first] :]


def without_inside(lines: list[str], start: int, separator: str, notes: Notes, *, quotes: bool) -> None:
    """Empty, in place, lines among the rows that are none: the header again, and comments.

    With ``quotes`` a line may be part of a cell, and comments stay.
    """
    header, width = lines[start], lines[start].count(separator)
    if not width or _is_value(header.split(separator)[0]):
        return
    inside = range(start + 1, len(lines))
    again = [i for i in inside if lines[i] == header]
    marked = [] if quotes else [i for i in inside if lines[i][:1] == "#"]
    row = next((lines[i] for i in inside if lines[i].strip() and lines[i][:1] != "#"), "") if marked else ""
    below = next((i for i in inside if lines[i].strip()), -1)
    units = [cell.strip() for cell in lines[below].split(separator)[1:]]  # where they are: of single words
    if any(cell.lower() not in MISSING for cell in units) and not any(" " in cell or _is_value(cell) for cell in units):
        marked = [i for i in marked if i != below or len(units) != width]
    comments = [i for i in marked if lines[i].count(separator) != width or not _is_like(lines[i], row, separator)]
    for what, there in (("with the header again", again), ("of comments among the rows", comments)):
        if there:
            notes.guess(f"{count(len(there), 'line')} {what} {verb(len(there))} left out", "delete such lines")
        for i in there:
            lines[i] = ""


def _is_like(line: str, row: str, separator: str) -> bool:
    """Whether a line that starts with "#" has a date where a row has one; a number where that has no date."""
    own, others = (text.split(separator) for text in (line, row))
    date = next((k for k, cell in enumerate(others) if parse(cell.strip()) is not None), None)
    if date is not None:
        return parse(own[date].strip()) is not None
    return not row or any(_is_value(one) for one, other in zip(own, others, strict=False) if _is_value(other))


def with_commas(lines: list[str], start: int, notes: Notes) -> list[str]:
    """The lines, with commas where cells below a header are separated by spaces alone; line numbers stay."""
    header, below = lines[start].split(), next((i for i in range(start + 1, len(lines)) if lines[i].strip()), len(lines))
    units = lines[below] if below < len(lines) and lines[below].lstrip().startswith("#") else ""
    if units and len(units.split()) == len(header) and not any(map(_is_value, SPLIT.split(units))):
        lines[below] = ""  # of a header that starts with "#", too
        notes.fact("the row of units below the header is left out")
    sample = [line for line in lines[start : start + 4 * LINES] if line.strip()][:LINES]
    named = plain(header[0]) in CALENDAR[0] or all(re.match(r"[^\W\d]", cell) for cell in header)
    if len(header) < CELLS or not named or {len(line.split()) for line in sample} != {len(header)}:
        return lines
    if any(SPLIT.search(line) for line in sample):
        return lines
    notes.guess("the cells are separated by spaces", "separate them by commas")
    return [*lines[:start], *(",".join(line.split()) for line in lines[start:])]


def refuse_spaces(lines: list[str], start: int, notes: Notes) -> None:
    """Refuse a text whose cells are separated by spaces alone."""
    sample = [line for line in lines[start : start + 4 * LINES] if line.strip()][:LINES]
    widths = {len(line.split()) for line in sample[-max(len(sample) - 2, 1) :]}
    if len(widths) == 1 and widths.pop() >= CELLS and not any(SPLIT.search(line) for line in sample):
        raise InputError(
            f"{notes.source}: the cells are separated by spaces: write commas between them, below a header with 'time', then "
            f"one column per station. {WITHOUT_TIMES}{about_header(lines[start].split())}"
        )
