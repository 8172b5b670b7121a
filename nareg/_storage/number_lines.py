"""Numbers of a text file, in chunks: every cell is a number or the file is refused."""

from __future__ import annotations

import bz2
import gzip
import os
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import IO

import numpy as np

from nareg._storage.array_files import refuse_special
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
