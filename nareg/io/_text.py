"""The text of a file in whatever encoding it was written."""

from __future__ import annotations

import codecs
import os
from pathlib import Path

from nareg.errors import InputError
from nareg.io._notes import Notes

#: First bytes of files that are no text, and what they are. A zip archive may be a workbook.
BINARY = (
    (b"PK\x03\x04", "an Excel workbook or another archive"),
    (b"\xd0\xcf\x11\xe0", "an Excel workbook"),
    (b"PAR1", "a Parquet file"),
    (b"ARROW1", "an Arrow file"),
    (b"\x89HDF", "an HDF5 or NetCDF file"),
    (b"CDF", "a NetCDF file"),
    (b"\x1f\x8b", "compressed"),
    (b"BZh", "compressed"),
    (b"\xfd7zXZ", "compressed"),
)
#: Endings of the same, for files that cannot be told by their first bytes.
ENDINGS = (".xlsx", ".xls", ".ods", ".feather", ".h5")
REMEDY = "export it as CSV, or read it with pandas and pass the frame from Python"
MARKS = (
    (codecs.BOM_UTF8, "utf-8-sig"),
    (codecs.BOM_UTF32_LE, "utf-32"),
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)


def read_text(path: str | os.PathLike[str], notes: Notes) -> str:
    """The file as text whose lines end as in Unix."""
    try:
        data = Path(path).read_bytes()
    except FileNotFoundError:
        raise InputError(f"{path} does not exist.") from None
    except IsADirectoryError:
        raise InputError(f"{path} is a folder, a CSV file is expected.") from None
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        raise InputError(f"{path} cannot be read ({reason}).") from None
    kind = next((what for start, what in BINARY if data.startswith(start)), None)
    if kind is None and Path(path).suffix.lower() in ENDINGS:
        kind = f"a {Path(path).suffix.lower()} file by its name"
    if kind is not None:
        raise InputError(f"{path} is {kind}, a CSV file is expected: {REMEDY}.")
    text = _decode(path, data, notes)
    if "\0" in text:
        raise InputError(f"{path} holds zero bytes and is not a text file: {REMEDY}.")
    return text.replace("\r\n", "\n").replace("\r", "\n")


def _decode(path: str | os.PathLike[str], data: bytes, notes: Notes) -> str:
    marked = next((encoding for mark, encoding in MARKS if data.startswith(mark)), None)
    try:
        return data.decode(marked or "utf-8")
    except UnicodeDecodeError:
        if marked is not None:
            raise InputError(f"{path} starts like {marked.upper()} text but is damaged: save it as CSV UTF-8.") from None
    if b"\0" in data:
        raise InputError(f"{path} holds zero bytes and is not a text file: {REMEDY}.")
    notes.guess("the text is not UTF-8 and is read as Latin-1", "save it as CSV UTF-8", refusal="the text is not UTF-8")
    try:
        return data.decode("cp1252")
    except UnicodeDecodeError:
        return data.decode("latin-1")
