"""A path to tables, whatever stands there: a text, a named format, or an archive of them. Nothing is extracted to the disk."""

from __future__ import annotations

import gzip
import io
import os
import re
import zipfile
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING

from nareg._storage.array_files import refuse_expanding
from nareg.errors import InputError
from nareg.io._around import SEPARATORS, rows_alike, without_end
from nareg.io._database import is_database, read_database
from nareg.io._dates import parse
from nareg.io._file import FileTable
from nareg.io._formats import named_format
from nareg.io._frames import FrameTable, Table
from nareg.io._layout import kinds_of
from nareg.io._marks import is_flag
from nareg.io._notes import NoReadings, Notes, count, listed, verb
from nareg.io._numbers import COMMA, looks_numeric
from nareg.io._recipe import Recipe
from nareg.io._text import GZIP, REMEDY, decoded, read_text, rows, starts
from nareg.io._vocabulary import CALENDAR, CLOCK, KIND, SENSOR, STATION, TIME, UNNAMED, VALUE, kinds_in, plain, unit_in
from nareg.io._workbook import WORKBOOKS, SheetText, is_workbook, sheets, side_by_side

if TYPE_CHECKING:
    import pandas as pd

#: Bytes by which files of one kind are recognized.
START = 8192
#: Lines above two headers, at most.
ABOVE = 10
#: What tells series of one site apart before the parameter's code.
SERIES = re.compile(r"^\d+_(?=\d{5})")
#: Statistics, media, heights, positions and marks beside a quantity are no stations.
NO_STATION = re.compile(
    r"min|max|mean|avg|average|std|sd|sum|med(?:ian)?|total|count|n|qc|flag|raw|air|soil|water|dew|snow|surface|ground|top|bottom"
    r"|upper|lower|shallow|deep|\d+(?:_\d+)+|\d+(?:\.\d+)?\s*(?:m|cm|mm|ft)", re.IGNORECASE
)  # fmt: skip
#: Members of archives that are no tables.
BESIDE = (".pdf", ".md", ".xml", ".html", ".json", ".png", ".jpg")


def open_tables(path: str | os.PathLike[str], notes: Notes, recipe: Recipe) -> list[Table]:
    """The tables of a text file or an archive, one or more; each has notes of its own.

    Raises
    ------
    InputError
        If nothing is recognized, with the remedy.
    """
    if "\0" in str(path):
        return [_table(str(path), read_text(path, notes), notes, recipe)]
    if is_workbook(path):
        return _each(path, _of_workbook(str(path), path, recipe), notes, recipe)
    if zipfile.is_zipfile(path):
        return _of_archive(path, notes, recipe)
    if is_database(path):
        return [read_database(path, notes, recipe)]
    text = read_text(path, notes)
    parts = _of_survey(text)
    if len(parts) > 1:
        return _each(path, {f"{path}/{k}": partial(_noted, part) for k, part in enumerate(parts, 1)}, notes, recipe)
    return [_table(str(path), text, notes, recipe)]


def _noted(text: str, own: Notes) -> str:
    own.fact("the columns are named by their parameters, without the numbers of series, which each table has of its own")
    return text


def _of_survey(text: str) -> list[str]:
    """The tables of a text of the United States Geological Survey (RDB), one per site, with the numbers of their lines."""
    lines = text.split("\n") if text.count("\nagency_cd\tsite_no\t") > 1 else []
    starts_of = [k for k, line in enumerate(lines) if line.startswith("agency_cd\tsite_no\t")]
    parts = []
    for k, end in pairwise([*starts_of, len(lines)]):
        names = lines[k].split("\t")
        bare = [SERIES.sub("", name) for name in names]
        rows_of = ["" if line.startswith("#") else line for line in lines[k + 1 : end]]
        parts.append("\n".join([*[""] * k, "\t".join(bare if len({*bare}) == len(bare) else names), *rows_of]))
    return parts


def alike(one: str | os.PathLike[str], other: str | os.PathLike[str]) -> bool:
    """Whether two files are of one kind: of a named format, or with the same first line, or rows alike, below comments too."""
    try:
        heads = [_head(path) for path in (one, other)]
    except OSError:
        return False
    first, second = (named_format(head) for head in heads)
    if first is not None or second is not None:
        return first is not None and second is not None and first.name == second.name
    lines = [head.partition("\n")[0] for head in heads]
    if all(line.startswith("#") for line in lines) and lines[0] != lines[1]:  # such as the name of each one's station
        lines = [next((line for line in head.split("\n") if line.strip() and line[0] != "#"), "") for head in heads]
    return rows_alike(*lines) or (lines[0] == lines[1] and bool(lines[0].strip(" ,;")))


def _head(path: str | os.PathLike[str]) -> str:
    """The beginning of a file, or of the first sheet of a workbook."""
    if is_workbook(path):
        return next((sheet.text for sheet in sheets(str(path), path, None).values() if sheet.text), "")[:START]
    with gzip.open(path) if starts(path, GZIP) else open(path, "rb") as file:
        return file.read(START).decode("latin-1").replace("\r\n", "\n").replace("\r", "\n")


def _table(source: str, text: str, notes: Notes, recipe: Recipe) -> Table:
    form = named_format(text)
    if form is None:
        numbers = None if recipe.start is None or recipe.header is not None else _only_numbers(text)
        if numbers is not None:
            return FrameTable(numbers, notes, recipe.words)
        grouped = _two_headers(source, text, notes) if (recipe.decimal, recipe.header) == (None, None) else None
        if grouped is not None:
            return FrameTable(grouped, notes, recipe.words)
        table = FileTable(source, notes, recipe.words, text=text, decimal=recipe.decimal, header=recipe.header)
        return _with_kinds_in_rows(table, notes, recipe) or _with_quantities_in_names(table, notes, recipe) or table
    try:
        frame = form.read(text, Path(source).stem)
    except InputError as error:
        raise NoReadings(f"{source}: {error}") from None
    except Exception as error:  # of pandas and its parsers, of many types
        reason = f"{type(error).__name__}: {str(error).partition(chr(10))[0][:120]}"
        raise InputError(
            f"{source} begins as a {form.name} file but cannot be read as one ({reason}): export it as CSV."
        ) from None
    notes.fact(f"the file is read as {form.name}")
    for note in frame.attrs["notes"]:
        notes.fact(note)
    if frame.empty:
        raise NoReadings(f"{source}: the {form.name} file has no readings: leave it out.")
    return FrameTable(frame, notes, recipe.words)


def _with_kinds_in_rows(table: FileTable, notes: Notes, recipe: Recipe) -> FrameTable | None:
    """A long table of one with a column per station, and one that names the quantity of each row; None of others."""
    import pandas as pd

    words = [plain(name) for name in table.header]
    kind = next((k for k, word in enumerate(words) if word in (*KIND, "type")), None)
    if kind is None or {*words} & {*STATION, *SENSOR, *VALUE} or len(kinds_of(table.head(kind))) < 2:
        return None
    times = [k for k, word in enumerate(words) if word in (*TIME, *CLOCK, *sum(CALENDAR, ()))]
    columns = [k for k in range(len(words)) if k not in (*times, kind)]
    names = [table.header[k] for k in columns]
    if (
        len(columns) < 2
        or not times
        or not all(re.search(r"\d", name) for name in names)  # as stations have; others are results, depths and marks
        or len(kinds_of(names)) > 1
        or not looks_numeric([cell for k in columns for cell in table.head(k)], comma=True)
    ):
        return None
    notes.guess(
        f"{table.column(kind)} is read as quantities ({listed(list(dict.fromkeys(table.head(kind))))}), and the columns beside "
        f"it as stations ({listed(names)})",
        "write the columns time, station and one per quantity",
    )
    texts, values = table.load([*times, kind], columns)
    keys = {
        name: cells.repeat(len(columns))
        for name, cells in zip([*(table.header[k] for k in times), KIND[0]], texts, strict=True)
    }
    return FrameTable(pd.DataFrame(keys | {"station": names * len(values), "value": values.ravel()}), notes, recipe.words)


def _with_quantities_in_names(table: FileTable, notes: Notes, recipe: Recipe) -> FrameTable | None:
    """A long table of one with a column per station and quantity, such as ``Weir_temp``; None of others."""
    import pandas as pd

    of_times = {*TIME, *CLOCK, *UNNAMED}.union(*CALENDAR)
    times = [k for k, name in enumerate(table.header) if plain(name) in of_times]
    columns = [k for k in range(len(table.header)) if k not in times]
    names = [table.header[k] for k in columns]
    long = {*map(plain, names)} & {*STATION, *SENSOR, *VALUE}
    split = _split(names) if times and names and not long else None
    if split is None or not looks_numeric([cell for k in columns for cell in table.head(k)], comma=True):
        return None
    stations, quantities, place = split
    notes.guess(
        f"columns such as {names[0]!r} are read as stations ({listed(stations)}) and quantities ({listed(quantities)})",
        "write the columns time, station and one per quantity",
    )
    texts, values = table.load(times, columns)
    keys = {table.header[k]: cells.repeat(len(stations)) for k, cells in zip(times, texts, strict=True)}
    readings = {one: values[:, [names.index(place[station, one]) for station in stations]].ravel() for one in quantities}
    return FrameTable(pd.DataFrame(keys | {"station": stations * len(values)} | readings), notes, recipe.words)


def _split(names: list[str]) -> tuple[list[str], list[str], dict[tuple[str, str], str]] | None:
    """Stations and quantities that every name is put together of, and the name by both; None where they are not."""
    for mark in re.finditer(r"[\s_.:/|\-]+", names[0] if len({*names}) == len(names) else ""):
        ends = [name[mark.end() :] for name in names if name.startswith(names[0][: mark.end()])]
        starts_of = [name.removesuffix(mark[0] + ends[0]) for name in names if name.endswith(mark[0] + ends[0])]
        if min(len(starts_of), len(ends)) < 2 or len(starts_of) * len(ends) != len(names):
            continue
        place = {(one, other): one + mark[0] + other for one in starts_of for other in ends}
        if {*place.values()} != {*names}:
            continue
        kinds = [_are_quantities(part) for part in (starts_of, ends)]
        if kinds == [False, True] and not any(map(NO_STATION.fullmatch, starts_of)):
            return starts_of, ends, place
        if kinds == [True, False] and not any(map(NO_STATION.fullmatch, ends)):
            return ends, starts_of, {pair[::-1]: name for pair, name in place.items()}
    return None


def _are_quantities(names: list[str]) -> bool:
    """Whether words are of several quantities, with letters such as T among them: CO may be Colorado beside NM."""
    said = [kinds_in(name) or {unit_in(name)} - {""} for name in names]
    return (
        any(said)
        and all(kinds or len(name) == 1 for name, kinds in zip(names, said, strict=True))
        and len({*map(frozenset, said)}) > 1
    )


def _two_headers(source: str, text: str, notes: Notes) -> pd.DataFrame | None:
    """A long table of one with quantities above the names of the stations, or below; None of others.

    Every station has every quantity, and the names tell which are the quantities.
    """
    import pandas as pd

    lines = text.rstrip("\n").split("\n")
    separator, skipped = next((mark for mark in SEPARATORS if mark in lines[0]), ","), 0
    if separator not in lines[0]:
        cells = [line.count(separator) for line in lines[: ABOVE + 3]]
        skipped = next((k for k, n in enumerate(cells[:-2]) if n > 1 and {n} == {*cells[k : k + 3]}), 0)
        lines = lines[skipped:]
    if len(lines) < 3 or lines[1].count(separator) != lines[0].count(separator) or '"' in lines[0] + lines[1]:
        return None
    above, below = ([cell.strip() for cell in line.split(separator)] for line in lines[:2])
    apart = next((k for k, (top, name) in enumerate(zip(above, below, strict=True)) if top not in ("", name)), len(above))
    groups: list[str] = []
    for top in above[apart:]:
        groups.append(top or (groups[-1] if groups else ""))  # of joined cells the first has the text
    pairs, further, last = list(zip(groups, below[apart:], strict=True)), 0, [""] * len(groups)
    while len({*pairs}) < len(pairs):  # headers below tell them apart
        more = [cell.strip() for cell in lines.pop(2).split(separator)] if len(lines) > 3 else [""]
        if len(more) != len(below) or any(more[:apart]):
            return None
        further, last = further + 1, more[apart:]
        below[apart:] = [f"{name} {word}".strip() for name, word in zip(below[apart:], last, strict=True)]
        pairs = list(zip(groups, below[apart:], strict=True))
    tops, names = list(dict.fromkeys(groups)), list(dict.fromkeys(below[apart:]))
    timed = plain(below[0]) in (*TIME, *CALENDAR[0]) or parse(lines[2].split(separator)[0].strip()) is not None
    known = apart and timed and "" not in names
    if not known or (len(tops) < 2 and "" in above[apart:]) or len(pairs) != len(tops) * len(names):
        return None
    alone = len(pairs) > len(tops) == 1 and bool(kinds_in(*tops))  # one quantity, above each station
    marked = any(map(is_flag, names))  # each station has its readings and their status
    if (len(kinds_of(tops)) > 1 or alone) == (len(kinds_of(names)) > 1 or marked):
        return None
    beside = {name: word for (_, name), word in zip(pairs, last, strict=True) if word and not is_flag(word)}
    beside = {} if len(beside) == len(names) else beside  # what is read is named there
    stations, quantities = (names, tops) if len(kinds_of(tops)) > 1 or alone else (tops, names)
    place = {pair if stations is tops else pair[::-1]: apart + k for k, pair in enumerate(pairs)}
    without_end(lines, 1, notes)
    body = [cells for _, cells in rows(source, lines[2:], separator, first=3 + skipped + further)]
    if any(len(cells) != len(below) for cells in body):
        return None  # which is refused with its line
    comma = next((cell for cells in body for cell in cells[apart:] if COMMA.fullmatch(cell.strip())), None)
    if separator != "," and comma is not None and not any("." in cell for cells in body for cell in cells[apart:]):
        notes.guess(f"numbers such as {comma.strip()!r} are read with a decimal comma", "write decimal points")
        body = [[*cells[:apart], *(cell.replace(",", ".") for cell in cells[apart:])] for cells in body]
    if skipped:
        notes.guess(f"{count(skipped, 'line')} above the headers {verb(skipped)} left out", "delete these lines")
    if beside:
        notes.fact(f"columns that the last header calls {listed(list(dict.fromkeys(beside.values())))} are left out")
    quantities = [one for one in quantities if one not in beside]
    notes.guess(
        f"{('two', 'three', 'four')[min(further, 2)]} lines of headers are read as quantities ({listed(quantities)}) and "
        f"stations ({listed(stations)})",
        "write the columns time, station and one per quantity",
    )
    units: dict[str, str] = {}
    if body and not any(parse(cell) or looks_numeric([cell], comma=False) for cell in body[0] if cell):
        under = body.pop(0)
        notes.guess(f"the row of units below the headers ({listed(list(filter(None, under)))}) is left out", "delete the row")
        units = {one: under[place[stations[0], one]] for one in quantities}
    table = {name: [cells[k] for cells in body for _ in stations] for k, name in enumerate(below[:apart])}
    table["station"] = stations * len(body)
    values = {one: [cells[place[station, one]] for cells in body for station in stations] for one in quantities}
    frame = pd.DataFrame(table | values)
    frame.attrs["units"] = {one: unit for one, unit in units.items() if unit}
    return frame


def _only_numbers(text: str) -> pd.DataFrame | None:
    """A table of numbers without times; its first row has the names where it alone has whole numbers, all different."""
    import pandas as pd

    rows = text.strip("\n").split("\n", 2)
    separator = next((mark for mark in (",", ";", "\t") if mark in rows[0]), None)
    first, second = (row.split(separator) for row in (rows * 2)[:2])
    if not looks_numeric(first, comma=False):
        return None
    named = len({*first}) == len(first) and all(map(str.isdecimal, first)) and not all(map(str.isdecimal, second))
    frame = pd.read_csv(io.StringIO(text), sep=separator or r"\s+", header=0 if named else None)
    return frame if named else frame.rename(columns=lambda k: str(k + 1))


def _of_archive(path: str | os.PathLike[str], notes: Notes, recipe: Recipe) -> list[Table]:
    """The tables of a zip archive, in memory."""
    with zipfile.ZipFile(path) as archive:
        inside = [one for one in archive.infolist() if not one.is_dir() and not Path(one.filename).name.startswith((".", "__"))]
        refuse_expanding(path, sum(one.file_size for one in inside))
        texts_of, books = (
            [one for one in inside if (Path(one.filename).suffix.lower() in WORKBOOKS) == book] for book in (0, 1)
        )
        chosen = [one for one in texts_of if Path(one.filename).suffix.lower() not in BESIDE]
        texts: dict[str, Callable[[Notes], str]] = {}
        for one in [*chosen, *books]:
            if one in books[:1] and _are_timed(texts, recipe):  # not beside a readme or a table of stations alone
                break
            source = f"{path}/{one.filename}"
            try:
                data = archive.read(one)
            except (zipfile.BadZipFile, NotImplementedError, RuntimeError, EOFError) as error:
                raise InputError(f"{source} cannot be read from the archive ({error}): unzip it.") from None
            book = is_workbook(io.BytesIO(data))
            texts |= _of_workbook(source, io.BytesIO(data), recipe) if book else {source: partial(decoded, source, data)}
            chosen += [one] if one in books else []
        if len(chosen) < len(inside):
            left = [one.filename for one in inside if one not in chosen]
            notes.fact(f"{count(len(left), 'member')} of the archive that {verb(len(left))} no table left out: {listed(left)}")
    return _each(path, texts, notes, recipe)


def _are_timed(texts: Mapping[str, Callable[[Notes], str]], recipe: Recipe) -> bool:
    """Whether a text that is no workbook's has a column of times."""
    for source, text in texts.items():
        own = Notes(source, strict=False)
        with suppress(InputError):
            table = _table(source, text(own), own, recipe)
            for k, name in enumerate(table.header):
                cells = list(filter(None, table.head(k)))
                if plain(name) in (*TIME, *CALENDAR[0]) or (cells and all(map(parse, cells))):
                    return True
    return False


def _of_workbook(source: str, file: str | os.PathLike[str] | io.BytesIO, recipe: Recipe) -> dict[str, Callable[[Notes], str]]:
    """The texts of a workbook's sheets by their sources; a sheet that is alone has the source of the workbook."""
    texts = sheets(source, file, recipe.decimal)
    tables = {name: sheet for name, sheet in texts.items() if sheet.text}
    alike = len({sheet.text.partition("\n")[0] for sheet in tables.values()}) == 1
    if alike and len(kinds_of(list(tables))) > 1 and (joined := side_by_side(tables)).text:
        texts = {**{name: sheet for name, sheet in texts.items() if not sheet.text}, "quantities": joined}
    return {source if len(texts) == 1 else f"{source}/{name}": partial(_sheet, sheet) for name, sheet in texts.items()}


def _sheet(sheet: SheetText, own: Notes) -> str:
    if not sheet.text:
        raise NoReadings(f"{own.source} has few numbers: pass the table of readings.")
    if sheet.comma:
        own.guess(f"texts such as {sheet.comma!r} are read with a decimal comma", "pass --decimal , (decimal= of a recipe)")
    return sheet.text


def _each(
    path: str | os.PathLike[str], texts: Mapping[str, Callable[[Notes], str]], notes: Notes, recipe: Recipe
) -> list[Table]:
    """The tables of several texts, each of which is given its notes; those without readings are left out."""
    tables = []
    for source, text in texts.items():
        own = Notes(source, notes.strict) if source != str(path) else notes
        try:
            tables.append(_table(source, text(own), own, recipe))
        except NoReadings as error:
            if len(texts) == 1:
                raise
            notes.fact(error.note)
    if not tables:
        raise NoReadings(f"{path} holds no table of readings: {REMEDY}.")
    return tables
