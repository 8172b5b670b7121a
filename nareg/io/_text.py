"""The text of a file in whatever encoding it was written, cut into cells; and texts that a spreadsheet would run."""

from __future__ import annotations

import codecs
import csv
import gzip
import os
import re
import zlib
from collections.abc import Iterable, Iterator, Sequence
from io import BytesIO
from pathlib import Path

from nareg._storage.array_files import EXPANSION, FREE, refuse_expanding
from nareg.errors import InputError, brief
from nareg.io._notes import NoReadings, Notes, count, verb
from nareg.io._numbers import NUMBER

#: First bytes of files that are no text, and what they are. Workbooks are read before.
BINARY = (
    (b"PK\x03\x04", "an archive"),
    (b"PAR1", "a Parquet file"),
    (b"ARROW1", "an Arrow file"),
    (b"\x89HDF", "an HDF5 or NetCDF file"),
    (b"CDF", "a NetCDF file"),
    (b"BZh", "compressed"),
    (b"\xfd7zXZ", "compressed"),
)
#: First bytes of files that hold no table at all.
PICTURES = (
    *((start, "a picture") for start in (b"\x89PNG", b"\xff\xd8\xff", b"GIF8", b"II*\0", b"MM\0*", b"<svg")),
    (b"%PDF", "a PDF document"),
)
#: Shares of letters and digits by which a text is told from a table, and lines that are looked at; words of a sentence.
LETTERS, FIGURES, LOOKED_AT, SENTENCE = 0.75, 0.1, 200, 4
GZIP = b"\x1f\x8b"
#: Lines of nothing but zero bytes and spaces; and what is behind the last one.
ZEROS = re.compile(r"(?m)^[\0 ]*\0[\0 ]*(?:\n|\Z)|\0+\Z")
#: A minus as typesetters have it, or a dash, at the start of a number.
MINUS = re.compile(r"(?<![^\s,;|\"'])[−–](?=[.,]?\d)")
#: Endings of the same, for files that cannot be told by their first bytes.
ENDINGS = (".feather", ".h5")
REMEDY = "export it as CSV, or read it with pandas and pass the frame from Python"
MARKS = (
    (codecs.BOM_UTF8, "utf-8-sig"),
    (codecs.BOM_UTF32_LE, "utf-32"),
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)


def starts(path: str | os.PathLike[str], mark: bytes, after: int = 0) -> bool:
    """Whether a file begins with some bytes, after so many others."""
    with open(path, "rb") as file:
        file.seek(after)
        return file.read(len(mark)) == mark


#: A word of letters beyond ASCII, as Latin languages have none, and encodings of such words, told by so many bytes.
WORD = re.compile(rb"[\x80-\xff]{4}")
SAMPLED = 2**18
#: What letters of Central Europe, such as ł and ş, are as Latin-1, inside a word or before it.
CENTRAL = re.compile(r"(?<=[^\W\d_])[³¹¿ªº¼¾](?=[^\W\d_])|[£¯¥](?=[^\W\d_]{2})")
OTHERS = ("cp932", "cp949", "gb18030", "big5", "cp1251", "cp1253")


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
    if data.startswith(GZIP):
        data = _decompressed(path, data)
    return decoded(path, data, notes)


def decoded(path: str | os.PathLike[str], data: bytes, notes: Notes) -> str:
    """The bytes of a file as text whose lines end as in Unix."""
    picture = next((what for start, what in PICTURES if data.startswith(start)), None)
    if picture is not None:
        raise NoReadings(f"{path} is {picture}, of which no table can be made: export the readings as CSV.")
    kind = next((what for start, what in BINARY if data.startswith(start)), None)
    if kind is None and Path(path).suffix.lower() in ENDINGS:
        kind = f"a {Path(path).suffix.lower()} file by its name"
    if kind is not None:
        raise InputError(f"{path} is {kind}, a CSV file is expected: {REMEDY}.")
    text = _decode(path, data, notes).replace("\r\n", "\n").replace("\r", "\n")
    if "\0" in text:
        without, number = ZEROS.subn("", text)  # what a logger writes that loses its power
        if "\0" not in without:
            text = without
            notes.guess(f"{count(number, 'line')} of zero bytes {verb(number)} left out", "delete these lines")
    if "\0" in text:
        raise InputError(f"{path} holds zero bytes and is not a text file: {REMEDY}.")
    text, number = (text, 0) if text.isascii() else MINUS.subn("-", text)
    if number:
        notes.guess(f"{count(number, 'number')} with a typeset minus {verb(number)} read as negative", "write hyphens")
    return text


def _decompressed(path: str | os.PathLike[str], data: bytes) -> bytes:
    """The bytes in a gzip file, unless it expands to more than a table does."""
    limit = FREE + EXPANSION * len(data)
    try:
        with gzip.GzipFile(fileobj=BytesIO(data)) as file:
            inside = file.read(limit + 1)
    except (OSError, EOFError, zlib.error) as error:
        raise InputError(f"{path} is a damaged gzip file ({error}): write it again.") from None
    refuse_expanding(path, len(inside))
    return inside


def _decode(path: str | os.PathLike[str], data: bytes, notes: Notes) -> str:
    marked = next((encoding for mark, encoding in MARKS if data.startswith(mark)), None)
    try:
        return data.decode(marked or "utf-8")
    except UnicodeDecodeError:
        if marked is not None:
            raise InputError(f"{path} starts like {marked.upper()} text but is damaged: save it as CSV UTF-8.") from None
    if b"\0" in data:
        raise InputError(f"{path} holds zero bytes and is not a text file: {REMEDY}.")
    for encoding in (_of_other_letters(data), "cp1252", "latin-1"):
        try:
            text = data.decode(encoding or "utf-8")
        except UnicodeDecodeError:
            continue
        if encoding == "cp1252" and CENTRAL.search(text):
            encoding, text = "cp1250", data.decode("cp1250", "replace")
        name = encoding if encoding in (*OTHERS, "cp1250") else "Latin-1"
        notes.guess(f"the text is not UTF-8 and is read as {name}", "save it as CSV UTF-8", refusal="the text is not UTF-8")
        break
    return text


def _of_other_letters(data: bytes) -> str | None:
    """The encoding of a text with words of other letters than Latin ones; None where there are none, or it is not known."""
    if not WORD.search(data):
        return None
    from charset_normalizer import from_bytes  # when first needed

    end = data.find(b"\n", SAMPLED)  # a whole line
    best = from_bytes(data if end < 0 else data[:end], cp_isolation=list(OTHERS)).best()
    return None if best is None else best.encoding


def is_prose(lines: Sequence[str]) -> bool:
    """Whether lines are sentences, as of a readme or a license: many letters, few figures, and no equal number of cells."""
    text = [line for line in lines[:LOOKED_AT] if line.strip()]
    letters = "".join("".join(text).split())
    cells = [re.split(r"[,;\t|]", line) for line in text]
    widths = {*map(len, cells)}
    sentences = any(line.rstrip().endswith((".", "!", "?")) for line in text)
    if len(text) > 1 and widths == {1} and sentences and not any(map(str.isdigit, letters)):
        return True  # however short they are
    return (
        len(text) > 1
        and sum(map(str.isalpha, letters)) > LETTERS * len(letters)
        and sum(map(str.isdigit, letters)) < FIGURES * len(letters)
        and (len(widths) > 1 or widths == {1})
        and 2 * sum(len(line.split()) >= SENTENCE for line in text) >= len(text)
        and all(sum(bool(re.fullmatch(r"[\W\d]*\d[\W\d]*", cell)) for cell in row) < 2 for row in cells)
    )


def stem(source: str) -> str:
    """The name of a file without folders and endings."""
    return Path(source.removesuffix(".gz")).stem


def rows(source: str, lines: Iterable[str], separator: str = ",", *, first: int = 1) -> Iterator[tuple[int, list[str]]]:
    """Line number and stripped cells of every row with content; ``first`` is the number of the first line.

    Raises
    ------
    InputError
        For a quote that is not closed, which would take in the rest of the file.
    """
    reader = csv.reader((f"{line}\n" for line in lines), delimiter=separator, skipinitialspace=True, strict=True)
    try:
        for row in reader:
            cells = [cell.strip() for cell in row]
            if any(cells):
                yield reader.line_num + first - 1, cells
    except csv.Error as error:
        raise InputError(
            f"{source}, line {reader.line_num + first - 1}: the line cannot be read as CSV ({brief(error)}); correct its "
            "quotes."
        ) from None


def read_rows(path: str | os.PathLike[str]) -> list[tuple[int, list[str]]]:
    r"""Read a small CSV file as it is: line number and stripped cells of every row with content.

    Parameters
    ----------
    path : path
        The file, in UTF-8, with commas. A header is a row like any other.

    Returns
    -------
    list of (int, list of str)
        Line numbers count from 1.

    Raises
    ------
    InputError
        If the file cannot be read as CSV.

    Examples
    --------
    >>> import tempfile, pathlib
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "edges.csv"
    >>> _ = path.write_text("u,v\n\n3, 5\n")
    >>> read_rows(path)
    [(1, ['u', 'v']), (3, ['3', '5'])]
    """
    return list(rows(str(path), read_text(path, Notes(str(path), strict=True)).split("\n")))


#: What begins a formula; more apostrophes before it are part of the text.
_FORMULA = re.compile(r"'*[=+\-@\t\r＝＋－＠].", re.DOTALL)


def shield(text: str) -> str:
    """The text, with an apostrophe where a spreadsheet would take it for a formula.

    Examples
    --------
    >>> shield("=cmd()"), shield("-12.5"), shield("Weir 2")
    ("'=cmd()", '-12.5', 'Weir 2')
    """
    return f"'{text}" if _FORMULA.match(text) and not NUMBER.fullmatch(text) else text


def unshield(text: str) -> str:
    """The text that :func:`shield` was given."""
    return text[1:] if text[:1] == "'" and _FORMULA.match(text) else text
