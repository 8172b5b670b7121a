"""A path to tables, whatever stands there: a text, a named format, or an archive of them. Nothing is extracted to the disk."""

from __future__ import annotations

import os
import zipfile
from pathlib import Path

from nareg._storage.array_files import refuse_expanding
from nareg.errors import InputError
from nareg.io._file import FileTable
from nareg.io._formats import named_format
from nareg.io._frames import FrameTable
from nareg.io._layout import Table
from nareg.io._notes import NoReadings, Notes, count, listed, verb
from nareg.io._text import BINARY, REMEDY, decoded, read_text

#: Members of archives that are no tables.
BESIDE = (".xlsx", ".xls", ".pdf", ".md", ".xml", ".html", ".json", ".png", ".jpg")


def open_tables(path: str | os.PathLike[str], notes: Notes, missing: frozenset[str]) -> list[Table]:
    """The tables of a text file or an archive, one or more; each has notes of its own.

    Raises
    ------
    InputError
        If nothing is recognized, with the remedy.
    """
    if "\0" not in str(path) and zipfile.is_zipfile(path):
        return _of_archive(path, notes, missing)
    return [_table(str(path), read_text(path, notes), notes, missing)]


def _table(source: str, text: str, notes: Notes, missing: frozenset[str]) -> Table:
    form = named_format(text)
    if form is None:
        return FileTable(source, notes, missing, text=text)
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
    return FrameTable(frame, notes, missing)


def _of_archive(path: str | os.PathLike[str], notes: Notes, missing: frozenset[str]) -> list[Table]:
    """The tables of a zip archive, in memory."""
    with zipfile.ZipFile(path) as archive:
        inside = [one for one in archive.infolist() if not one.is_dir() and not Path(one.filename).name.startswith((".", "__"))]
        if any(one.filename == "xl/workbook.xml" for one in inside):
            return [_workbook(path, notes, missing)]
        refuse_expanding(path, sum(one.file_size for one in inside))
        chosen = [one for one in inside if Path(one.filename).suffix.lower() not in BESIDE]
        if len(chosen) < len(inside):
            left = [one.filename for one in inside if one not in chosen]
            notes.fact(f"{count(len(left), 'member')} of the archive that {verb(len(left))} no table left out: {listed(left)}")
        tables = []
        for one in chosen:
            own = Notes(f"{path}/{one.filename}", notes.strict)
            try:
                tables.append(_table(own.source, decoded(own.source, archive.read(one), own), own, missing))
            except NoReadings as error:
                notes.fact(f"a member without readings is left out ({one.filename}: {error})")
            except (zipfile.BadZipFile, NotImplementedError, RuntimeError, EOFError) as error:
                raise InputError(f"{own.source} cannot be read from the archive ({error}): unzip it.") from None
    if not tables:
        raise InputError(f"{path} holds no table of readings: {REMEDY}.")
    return tables


def _workbook(path: str | os.PathLike[str], notes: Notes, missing: frozenset[str]) -> FrameTable:
    """The first sheet of an Excel workbook."""
    import pandas as pd

    try:
        frame = pd.read_excel(path, sheet_name=0)
    except ImportError:
        raise InputError(f"{path} is {BINARY[1][1]}: pip install openpyxl, or {REMEDY}.") from None
    except Exception as error:  # of openpyxl, of many types
        raise InputError(f"{path} cannot be read as an Excel workbook ({type(error).__name__}): {REMEDY}.") from None
    notes.fact("the first sheet of the workbook is read")
    if frame.empty:
        raise NoReadings(f"{path}: the first sheet is empty: move the readings there, or {REMEDY}.")
    return FrameTable(frame, notes, missing)
