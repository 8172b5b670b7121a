"""Graphs from files as entries in chunks: edge lists as text or NPY, MatrixMarket, and SciPy's NPZ."""

from __future__ import annotations

import gzip
import os
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import IO

import numpy as np

from nareg import _array_files, _sparse_files
from nareg._graph_files.sorting import Entries, EntrySource
from nareg.errors import UNREADABLE, InputError

#: Bytes of a text, and entries of an array, that are read at a time.
TEXT, PIECE = 2**22, 2**21
#: Endings of edge lists.
EDGE_LISTS = (".csv", ".tsv", ".txt", ".edges")
SPACES = bytes.maketrans(b",;\t\r", b"    ")


def entry_source(path: Path, n_nodes: int | None = None) -> EntrySource:
    """A graph file that is read in chunks.

    Parameters
    ----------
    path : path
        ``.csv``, ``.tsv``, ``.txt`` or ``.edges`` (a line per edge: two node numbers and perhaps a weight; ``.gz`` may follow),
        ``.mtx``, ``.npz`` of ``scipy.sparse.save_npz``, or ``.npy`` with an ``edge_index`` (2, E).
    n_nodes : int, optional
        For edge lists; default the largest node plus one.

    Raises
    ------
    InputError
        If it is no such file.
    """
    kind = Path(path.stem if path.suffix.lower() == ".gz" else path).suffix.lower()
    if not path.exists():
        raise InputError(f"{path} does not exist.")
    if kind in EDGE_LISTS:
        return EntrySource(str(path), lambda: _edge_list(path), n_nodes, is_matrix=False, is_text=True)
    readers = {".mtx": _matrix_market, ".npz": _scipy, ".npy": _edge_index}
    if kind not in readers:
        raise InputError(f"{path}: a graph's name ends in {', '.join((*EDGE_LISTS, *readers))}, or is a .graph folder.")
    try:
        return readers[kind](path, n_nodes)
    except InputError:
        raise
    except (*UNREADABLE, MemoryError) as error:
        raise InputError(f"{path} cannot be read ({error}): write it again.") from None


def _opened(path: Path) -> IO[bytes]:
    _array_files.refuse_special(path)
    return gzip.open(path, "rb") if path.suffix.lower() == ".gz" else open(path, "rb")  # type: ignore[return-value]


def _edge_list(path: Path) -> Iterator[Entries]:
    """Node numbers, and a weight in a third column; a header and comments may stand in front."""
    for numbers, done in numbers_of_lines(path, (2, 3), comment=b"#%"):
        rows, columns = (_nodes(numbers[:, k], path) for k in (0, 1))
        yield Entries(rows, columns, numbers[:, 2].copy() if numbers.shape[1] == 3 else None, done)


def numbers_of_lines(
    path: Path, widths: tuple[int, ...] | None = None, *, comment: bytes = b"#", skip: int = 0
) -> Iterator[tuple[np.ndarray, float]]:
    """Numbers of a text in chunks, (lines, numbers per line), and the share of the file that has been read.

    Lines in front that start with a comment sign, and one header without digits, are passed over.
    """
    size, width, line, started, headed, rest = os.stat(path).st_size, 0, 1, False, False, b""
    with _opened(path) as handle:
        while True:
            try:
                block = handle.read(TEXT)
            except UNREADABLE as error:
                raise InputError(f"{path} cannot be read ({error}): write it again.") from None
            text, rest = _whole_lines(rest + block, last=not block)
            while text and not started:
                head, _, tail = text.partition(b"\n")
                words = head.strip().lower()
                named = bool(words) and not any(c in b"0123456789" for c in words) and words not in (b"nan", b"inf")
                passed = line <= skip or not words or words[:1] in (*[bytes([c]) for c in comment],)
                started = not (passed or (named and not headed))
                headed |= named and not passed
                text, line = (text, line) if started else (tail, line + 1)
            if text:
                numbers, lines = _parsed(text, path, line, width, widths)
                width, line = numbers.shape[1], line + lines
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
                return InputError(f"{path}, line {number}: {cell.decode('latin-1')!r} is not a number: correct it.")
    return InputError(f"{path}, from line {line} on: the text cannot be read as numbers: write it again.")


def _nodes(numbers: np.ndarray, path: Path) -> np.ndarray:
    whole = (numbers == np.floor(numbers)) & (np.abs(numbers) < 2**53)
    if not whole.all():
        raise InputError(f"{path} names node {numbers[~whole][0]:g}: node numbers are whole numbers from 0.")
    return numbers.astype(np.int64)


def _matrix_market(path: Path, n_nodes: int | None) -> EntrySource:
    """A sparse MatrixMarket file: real, integer or pattern; general or symmetric."""
    with _opened(path) as handle:
        head = handle.readline(1024).decode("latin-1").lower().split()
        skip = 1
        while (line := handle.readline(1024)).startswith(b"%") or not line.strip():
            skip += 1
            if not line:
                break
    kinds = {"real": 3, "double": 3, "integer": 3, "unsigned-integer": 3, "pattern": 2}
    if len(head) != 5 or head[:2] != ["%%matrixmarket", "matrix"]:
        raise InputError(f"{path} is not a MatrixMarket file: use scipy.io.mmwrite.")
    layout, field, symmetry = head[2:]
    if layout != "coordinate" or field not in kinds or symmetry not in ("general", "symmetric"):
        raise InputError(f"{path} is {' '.join(head[2:])}: coordinate, real or pattern, general or symmetric is expected.")
    shape = [int(part) for part in line.split()] if line.replace(b" ", b"").strip().isdigit() else []
    if len(shape) != 3 or shape[0] != shape[1]:
        raise InputError(f"{path} declares the size {line.decode('latin-1').strip()!r}: a square matrix is expected.")
    rows, _, n_entries = shape

    def chunks() -> Iterator[Entries]:
        listed = 0
        for numbers, done in numbers_of_lines(path, (kinds[field],), comment=b"%", skip=skip + 1):
            i, j = (_nodes(numbers[:, k], path) - 1 for k in (0, 1))
            weight = numbers[:, 2].copy() if field != "pattern" else None
            listed += i.size
            if symmetry == "symmetric":  # one of two mirrored entries is listed
                off = i != j
                i, j = np.concatenate([i, j[off]]), np.concatenate([j, i[off]])
                weight = None if weight is None else np.concatenate([weight, weight[off]])
            yield Entries(i, j, np.ones(i.size) if weight is None else weight, done)
        if listed != n_entries:
            raise InputError(f"{path} declares {n_entries} entries and has {listed}: it is cut off or damaged, write it again.")

    return EntrySource(str(path), chunks, rows, is_matrix=True, is_text=True)


def _scipy(path: Path, n_nodes: int | None) -> EntrySource:
    """A matrix in SciPy's NPZ: CSR is read in pieces, other formats as a whole."""
    with _array_files.open_npz(path) as archive:
        streamed = _is_csr(archive)
        if streamed:
            shape = archive.read("shape").tolist()
            starts = archive.read("indptr").astype(np.int64)
            count, kind = archive.headers["indices"].shape[0], archive.headers["data"].dtype
            whole = (
                starts.size == shape[0] + 1 and starts[0] == 0 and starts[-1] == count and (np.diff(starts) >= 0).all()
                and archive.headers["data"].shape == (count,) and archive.headers["indices"].dtype.kind in "iu"
                and kind.kind in "fiub"
            )  # fmt: skip
            if not whole:
                raise InputError(f"{path} is damaged: its row starts, indices and data do not fit: write it again.")
    if not streamed:
        matrix = _sparse_files.read_npz(path)
        shape, starts, count, kind = list(matrix.shape), matrix.indptr, matrix.nnz, matrix.dtype
    if shape[0] != shape[1]:
        raise InputError(f"{path} has shape {tuple(shape)}: a square adjacency is expected.")

    def chunks() -> Iterator[Entries]:
        first = 0
        for column, weight in _pieces(path) if streamed else [(matrix.indices, matrix.data)]:
            row = np.searchsorted(starts, np.arange(first, first + column.size), side="right") - 1
            first += column.size
            yield Entries(row, column.astype(np.int64), weight.astype(np.float64), first / max(count, 1))

    rounding = max(1e-12, 4 * float(np.finfo(kind).eps)) if kind.kind == "f" else 1e-12
    return EntrySource(str(path), chunks, shape[0], is_matrix=True, rounding=rounding)


def _is_csr(archive: _array_files.Npz) -> bool:
    headers = archive.headers
    if not {"format", "shape", "indptr", "indices", "data"} <= set(headers) or headers["format"].n_bytes > 64:
        return False
    form = archive.read("format")
    flat = all(len(headers[name].shape) == 1 for name in ("indptr", "indices", "data", "shape"))
    return flat and form.size == 1 and form.item() in (b"csr", "csr") and headers["indptr"].dtype.kind in "iu"


def _pieces(path: Path) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    with _array_files.open_npz(path) as archive:
        yield from zip(archive.pieces("indices", PIECE), archive.pieces("data", PIECE), strict=True)


def _edge_index(path: Path, n_nodes: int | None) -> EntrySource:
    """Edges as an integer array (2, E), memory-mapped."""
    index = _array_files.map_npy(path)
    if index.ndim != 2 or index.shape[0] != 2 or index.dtype.kind not in "iu":
        raise InputError(
            f"{path} has shape {index.shape} and dtype {index.dtype}: an edge_index (2, E) of integers is expected."
        )

    def chunks() -> Iterator[Entries]:
        for first in range(0, index.shape[1], PIECE):
            row, column = (index[k, first : first + PIECE].astype(np.int64) for k in (0, 1))
            yield Entries(row, column, None, min((first + PIECE) / index.shape[1], 1.0))

    return EntrySource(str(path), chunks, n_nodes, is_matrix=False)
