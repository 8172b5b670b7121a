"""Sheets of workbooks (Excel, OpenDocument) as CSV, so that all that is known of text files holds for them."""

from __future__ import annotations

import csv
import datetime
import io
import os
import zipfile
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from nareg._storage.array_files import refuse_expanding
from nareg.errors import InputError
from nareg.io._numbers import COMMA
from nareg.io._text import REMEDY, starts

#: First bytes of an Excel workbook that is no archive, and members by which an archive is a workbook.
BEFORE_2007, MEMBERS = b"\xd0\xcf\x11\xe0", ("xl/workbook.xml", "xl/workbook.bin", "content.xml")
#: Their endings.
WORKBOOKS = (".xlsx", ".xls", ".xlsm", ".xlsb", ".ods")
MIDNIGHT = datetime.time()


class SheetText(NamedTuple):
    """A sheet as CSV, empty where it has no table; ``comma`` is a cell whose decimal comma became a point, if any."""

    text: str
    comma: str


def is_workbook(file: str | os.PathLike[str] | io.BytesIO) -> bool:
    """Whether this is a workbook, by what is in it."""
    if zipfile.is_zipfile(file):
        with zipfile.ZipFile(file) as archive:
            return any(name in MEMBERS for name in archive.namelist())
    if isinstance(file, io.BytesIO):
        return file.getvalue().startswith(BEFORE_2007)
    return os.path.isfile(file) and starts(file, BEFORE_2007)


def sheets(source: str, file: str | os.PathLike[str] | io.BytesIO, decimal: str | None) -> dict[str, SheetText]:
    """Sheets that are not empty, with a line per row; numbers are written with the ``decimal`` mark.

    Raises
    ------
    InputError
        If python-calamine is missing or cannot read the file.
    """
    try:
        from python_calamine import CalamineWorkbook
    except ImportError:
        raise InputError(f"{source} is a workbook: pip install 'nareg[tables]', or {REMEDY}.") from None
    if zipfile.is_zipfile(file):
        with zipfile.ZipFile(file) as archive:
            packed, whole = (sum(getattr(one, size) for one in archive.infolist()) for size in ("compress_size", "file_size"))
        refuse_expanding(source, whole, size=packed)
    if isinstance(file, io.BytesIO):
        file.seek(0)
    try:
        with CalamineWorkbook.from_object(file) as book:
            cells = {name: book.get_sheet_by_name(name).to_python(skip_empty_area=False) for name in book.sheet_names}
    except Exception as error:  # of calamine, of several types
        raise InputError(f"{source} cannot be read as a workbook ({str(error)[:120]}): {REMEDY}.") from None
    return {name: _text(rows, decimal) for name, rows in cells.items() if any(cell != "" for row in rows for cell in row)}


def side_by_side(sheets: Mapping[str, SheetText]) -> SheetText:
    """Sheets of one quantity each, with the same columns, as one text whose first line has the quantities.

    Empty where a time repeats in a sheet.
    """
    import pandas as pd

    frames = [pd.read_csv(io.StringIO(text), dtype=str, keep_default_na=False) for text, _ in sheets.values()]
    time, *columns = frames[0].columns
    if any(frame[time].duplicated().any() for frame in frames):
        return SheetText("", "")
    whole = pd.concat([frame.set_index(time) for frame in frames], axis=1).fillna("")
    file = io.StringIO()
    writer = csv.writer(file, lineterminator="\n")
    writer.writerows([["", *(name for name in sheets for _ in columns)], [time, *columns * len(frames)]])
    writer.writerows(whole.reset_index().itertuples(index=False))
    return SheetText(file.getvalue(), next((sheet.comma for sheet in sheets.values() if sheet.comma), ""))


def _text(rows: Sequence[Sequence[object]], decimal: str | None) -> SheetText:
    """Rows of cells as CSV, without columns that are empty; of a table half of the rows have numbers or dates."""
    filled = [row for row in rows if any(cell != "" for cell in row)]
    if 2 * sum(any(_figures(cell) for cell in row) for row in filled) < len(filled):
        return SheetText("", "")
    columns = [column for column in zip(*rows, strict=True) if any(cell != "" for cell in column)]
    # a date without a time of day has midnight
    dates = [all(cell.time() == MIDNIGHT for cell in column if isinstance(cell, datetime.datetime)) for column in columns]
    commas = [cell for row in filled for cell in row if isinstance(cell, str) and COMMA.fullmatch(cell)]
    comma = "" if decimal is not None or all(len(cell) - cell.index(",") == 4 for cell in commas) else commas[0]
    file = io.StringIO()
    writer = csv.writer(file, lineterminator="\n")
    for row in zip(*columns, strict=True):
        cells = [_cell(cell, decimal or ".", date=date) for cell, date in zip(row, dates, strict=True)]
        if comma:
            cells = [cell.replace(",", ".") if COMMA.fullmatch(cell) else cell for cell in cells]
        writer.writerow(cells if any(cells) else [])
    return SheetText(file.getvalue(), comma)


def _figures(cell: object) -> bool:
    return not isinstance(cell, (bool, str)) or (isinstance(cell, str) and cell[:1].isdigit())


def _cell(cell: object, decimal: str, *, date: bool) -> str:
    if isinstance(cell, bool):
        return str(cell)
    if isinstance(cell, (int, float)):  # to the digits that a workbook keeps
        return f"{cell:.15g}".replace(".", decimal)
    if isinstance(cell, datetime.datetime):  # kept as a fraction of days, so that whole seconds may be off by microseconds
        near = (cell + datetime.timedelta(microseconds=500)).replace(tzinfo=None)
        return str(near.date() if date else near.replace(microsecond=near.microsecond // 1000 * 1000))
    if isinstance(cell, datetime.timedelta):
        minutes, seconds = divmod(round(cell.total_seconds()), 60)
        return f"{minutes // 60:02d}:{minutes % 60:02d}:{seconds:02d}"
    return " ".join(str(cell).split())
