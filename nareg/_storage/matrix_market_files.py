"""Matrices in MatrixMarket files, read as strictly as any other text of numbers.

SciPy's reader takes ``1.5x`` as 1.5. It ends the process where the last number is cut off or holds a zero byte (scipy issue
19949).
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import scipy.sparse as sp

from nareg._core import checks
from nareg._storage import sparse_files
from nareg._storage.array_files import refuse_expanding
from nareg._storage.number_lines import numbers_of_lines, opened
from nareg.errors import InputError

#: Fields with real numbers, and the numbers per line of an entry.
REAL = {"real": 3, "double": 3, "integer": 3, "unsigned-integer": 3, "pattern": 2}
SYMMETRIES = ("general", "symmetric", "skew-symmetric")
#: Characters that an entry takes at least: "1 1\n", "1\n".
COORDINATE, DENSE = 4, 2
#: How many times its own size a compressed text expands to at most.
DEFLATED = 1100


@dataclass(frozen=True)
class MatrixHeader:
    """What the lines in front of the numbers say, and how many they are."""

    layout: str
    field: str
    symmetry: str
    rows: int
    columns: int
    entries: int
    lines: int

    @property
    def width(self) -> int:
        """Numbers per line."""
        return 1 if self.layout == "array" else REAL[self.field]


def header(path: Path) -> MatrixHeader:
    """The first line, the comments, and the line of the sizes.

    Raises
    ------
    InputError
        If they are not those of a MatrixMarket file.
    OSError, ...
        One of ``nareg.errors.UNREADABLE`` if the file cannot be read.
    """
    with opened(path) as handle:
        head = handle.readline(1024).decode("latin-1").lower().split()
        lines = 2
        while (line := handle.readline(1024)).startswith(b"%") or (line and not line.strip()):
            lines += line.endswith(b"\n")
    if len(head) != 5 or head[:2] != ["%%matrixmarket", "matrix"] or head[2] not in ("coordinate", "array"):
        raise InputError(f"{path} is not a MatrixMarket file: use scipy.io.mmwrite.")
    layout, field, symmetry = head[2:]
    parts = line.split()
    whole = all(part.isdigit() and len(part) < 20 for part in parts)
    if not whole or len(parts) != (2 if layout == "array" else 3):
        raise InputError(f"{path} declares the size {line[:80].decode('latin-1').strip()!r}: whole numbers are expected.")
    rows, columns, *listed = (int(part) for part in parts)
    # of a (skew-)symmetric array the lower triangle is listed
    below = {"symmetric": rows * (rows + 1) // 2, "skew-symmetric": rows * (rows - 1) // 2}.get(symmetry, rows * columns)
    return MatrixHeader(layout, field, symmetry, rows, columns, listed[0] if listed else below, lines)


def read(path: str | os.PathLike[str]) -> sp.csr_array | np.ndarray:
    """A MatrixMarket file of real numbers: sparse, or dense for the layout "array".

    Raises
    ------
    InputError
        If its entries are more than it can hold or others than it declares, or a value is not finite or not real.
    OSError, ...
        One of ``nareg.errors.UNREADABLE`` if it cannot be read.
    """
    path = Path(path)
    head = header(path)
    if head.field not in REAL:
        raise InputError(f"{path} holds {head.field} numbers, real ones are expected.")
    if head.symmetry not in SYMMETRIES or (head.symmetry != "general" and head.rows != head.columns):
        raise InputError(f"{path} is {head.symmetry} of size {head.rows} x {head.columns}: it is damaged.")
    characters = os.stat(path).st_size * (DEFLATED if path.suffix.lower() in (".gz", ".bz2") else 1)
    dense = head.layout == "array"
    if (DENSE if dense else COORDINATE) * head.entries > characters + 1:  # the last line may have no end
        raise InputError(f"{path} declares {head.entries} entries but has {characters} characters at most: it is damaged.")
    if not dense:
        refuse_expanding(path, 8 * (head.rows + head.columns), remedy="leave out rows and columns without entries")
    checks.memory(f"the matrix in {path}", 16 * head.entries, alternative="take a part of it")
    return _dense(path, head) if dense else _sparse(path, head)


def _numbers(path: Path, head: MatrixHeader) -> np.ndarray:
    """All lines below the head, (entries, width)."""
    parts: list[np.ndarray] = []
    listed = 0
    for numbers, _ in numbers_of_lines(path, (head.width,), comment=b"%", skip=head.lines):
        parts.append(numbers)
        listed += len(numbers)
        if listed > head.entries:
            break
    if listed != head.entries:
        has = "more" if listed > head.entries else f"{listed}"
        raise InputError(f"{path} declares {head.entries} entries and has {has}: it is cut off or damaged, write it again.")
    return np.concatenate(parts) if parts else np.zeros((0, head.width))


def _sparse(path: Path, head: MatrixHeader) -> sp.csr_array:
    numbers = _numbers(path, head)
    places = numbers[:, :2]
    for name, place, count in (("row", places[:, 0], head.rows), ("column", places[:, 1], head.columns)):
        odd = ~((place == np.floor(place)) & (place >= 1) & (place <= count))
        if odd.any():
            raise InputError(f"{path} names {name} {place[odd][0]:.16g}: {name}s are numbered from 1 to {count}.")
    i, j = places.T.astype(np.int64) - 1
    values = numbers[:, 2] if head.width == 3 else np.ones(i.size)
    if head.symmetry != "general":  # one of two mirrored entries is listed
        off, sign = i != j, 1 if head.symmetry == "symmetric" else -1
        values = np.concatenate([values, sign * values[off]])
        i, j = np.concatenate([i, j[off]]), np.concatenate([j, i[off]])
    return sparse_files.from_entries(values, i, j, (head.rows, head.columns), what=str(path))


def _dense(path: Path, head: MatrixHeader) -> np.ndarray:
    values = _numbers(path, head).ravel()
    if not np.isfinite(values).all():
        raise InputError(f"{path} holds the value {values[~np.isfinite(values)][0]}, and all must be finite: write it again.")
    if head.symmetry == "general":
        return values.reshape(head.columns, head.rows).T  # column by column
    matrix = np.zeros((head.rows, head.columns))
    j, i = np.triu_indices(head.rows, 0 if head.symmetry == "symmetric" else 1)  # the lower triangle, column by column
    matrix[j, i] = values if head.symmetry == "symmetric" else -values
    matrix[i, j] = values
    return matrix
