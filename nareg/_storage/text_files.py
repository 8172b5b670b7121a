"""Numbers from text files: tables in chunks, whose every cell is a number, and MatrixMarket files as strictly."""

from __future__ import annotations

import bz2
import gzip
import os
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO

import numpy as np
import scipy.sparse as sp

from nareg._core import checks
from nareg._storage import sparse_files
from nareg._storage.array_files import refuse_expanding, refuse_special
from nareg.errors import UNREADABLE, InputError, brief

#: Bytes of a text that are read at a time.
TEXT = 2**22
#: Longest line: that of 3 million cells.
LONGEST = 2**26
SPACES = bytes.maketrans(b",;\t\r", b"    ")


def opened(path: Path) -> IO[bytes]:
    """A file, through its compression if its name ends in ``.gz`` or ``.bz2``."""
    refuse_special(path)
    compressed = {".gz": gzip.open, ".bz2": bz2.open}
    return compressed.get(path.suffix.lower(), open)(path, "rb")  # type: ignore[operator, no-any-return]


def numbers_of_lines(
    path: Path, widths: tuple[int, ...] | None = None, *, comment: bytes = b"#", skip: int = 0
) -> Iterator[tuple[np.ndarray, float]]:
    """Numbers of a text in chunks, (lines, numbers per line), and the share of the file that has been read.

    Lines in front that start with a comment sign, and one header without digits, are passed over.
    """
    size, width, line, started, headed, rest = os.stat(path).st_size, 0, 1, False, False, b""
    with opened(path) as handle:
        while True:
            try:
                block = handle.read(TEXT)
            except UNREADABLE as error:
                raise InputError(f"{path} cannot be read ({brief(error)}): write it again.") from None
            text, rest = _whole_lines(rest + block, last=not block)
            if len(rest) > LONGEST:
                raise InputError(
                    f"{path}, line {line}, has more than {LONGEST} characters: it is damaged, or no table of numbers."
                )
            begin = 0
            while begin < len(text) and not started:
                end = text.find(b"\n", begin) + 1 or len(text)
                words = text[begin:end].strip().lower()
                named = bool(words) and not any(c in b"0123456789" for c in words) and words not in (b"nan", b"inf")
                passed = line <= skip or not words or words[:1] in (*[bytes([c]) for c in comment],)
                started = not (passed or (named and not headed))
                headed |= named and not passed
                begin, line = (begin, line) if started else (end, line + 1)
            text = text[begin:]
            if text:
                numbers, lines = _parsed(text, path, line, width, widths)
                width, line = numbers.shape[1], line + lines
                if numbers.size:
                    yield numbers, min(_position(handle) / max(size, 1), 1.0)
            if not block:
                return


def _position(handle: IO[bytes]) -> int:
    """Bytes read of the file itself, compressed or not."""
    raw = getattr(handle, "fileobj", None)
    return int((raw or handle).tell())


def _whole_lines(data: bytes, *, last: bool) -> tuple[bytes, bytes]:
    """The lines that are complete, and the rest."""
    end = len(data) if last else data.rfind(b"\n") + 1
    return data[:end], data[end:]


def _parsed(text: bytes, path: Path, line: int, width: int, widths: tuple[int, ...] | None) -> tuple[np.ndarray, int]:
    """Numbers (lines, width), and the lines that were passed, empty ones too."""
    plain = text.translate(SPACES)
    if not plain.endswith(b"\n"):
        plain += b"\n"
    letters = np.frombuffer(plain, np.uint8)
    blank = letters <= 32
    begins = ~blank & np.concatenate([[True], blank[:-1]])
    ends = np.flatnonzero(letters == 10)
    counts = np.diff(np.cumsum(begins)[ends], prepend=0)
    filled = counts > 0
    if not filled.any():
        return np.zeros((0, width)), ends.size
    width = width or int(counts[filled][0])
    wrong = filled & (counts != width)
    if widths is not None and width not in widths:
        raise InputError(f"{path}, line {line}: {width} values, {' or '.join(map(str, widths))} are expected.")
    if wrong.any():
        at = int(wrong.argmax())
        raise InputError(f"{path}, line {line + at}: {counts[at]} values where other lines have {width}: correct the line.")
    with warnings.catch_warnings():
        warnings.simplefilter("error", DeprecationWarning)  # how NumPy says that a text is no number
        try:
            numbers = np.fromstring(plain.decode("latin-1"), sep=" ")
        except (DeprecationWarning, ValueError):
            numbers = np.zeros(0)
    if numbers.size != counts.sum():
        raise _no_number(plain, path, line)
    return numbers.reshape(-1, width), ends.size


def _no_number(text: bytes, path: Path, line: int) -> InputError:
    """Names the first cell that is no number."""
    for number, cells in enumerate(text.split(b"\n"), line):
        for cell in cells.split():
            try:
                float(cell)
                good = b"_" not in cell
            except ValueError:
                good = False
            if not good:
                return InputError(f"{path}, line {number}: {cell[:80].decode('latin-1')!r} is not a number: correct it.")
    return InputError(f"{path}, from line {line} on: the text cannot be read as numbers: write it again.")


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


def matrix_market_header(path: Path) -> MatrixHeader:
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


def read_matrix_market(path: str | os.PathLike[str]) -> sp.csr_array | np.ndarray:
    """A MatrixMarket file of real numbers: sparse, or dense for the layout "array".

    SciPy's reader takes ``1.5x`` as 1.5. It ends the process where the last number is cut off or holds a zero byte (scipy
    issue 19949).

    Raises
    ------
    InputError
        If its entries are more than it can hold or others than it declares, or a value is not finite or not real.
    OSError, ...
        One of ``nareg.errors.UNREADABLE`` if it cannot be read.
    """
    path = Path(path)
    head = matrix_market_header(path)
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
