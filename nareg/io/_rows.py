"""Cells of a CSV text, row by row: the one place where the package cuts text into cells."""

from __future__ import annotations

import csv
import os
from collections.abc import Iterable, Iterator

from nareg.errors import InputError, brief
from nareg.io._notes import Notes
from nareg.io._text import read_text


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
