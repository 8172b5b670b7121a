"""Safe readers of NumPy's files: what a header declares is checked against the file before anything is allocated.

A file of a few bytes can declare an array of any size, and a compressed one can expand a thousandfold. Nothing is unpickled.
Of a design file the headers are compared with each other, and then the facts beside the arrays are checked.
"""

from __future__ import annotations

import json
import math
import numbers
import os
import stat
import sys
import threading
import tokenize
import zipfile
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import numpy as np

from nareg._core import checks
from nareg.errors import InputError, TooLargeError, read_errors

#: Bytes that a file of any size may expand to, and how many times its own size a larger one may.
FREE, EXPANSION = 2**28, 200
#: NumPy's compression; other methods need memory that no header declares.
METHODS = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)
#: Bytes in front of the numbers of files that are written in parts.
NPY_HEADER = 128
#: Flag of an encrypted member.
ENCRYPTED = 0x1

#: Python 3.11 counts the depth of what it parses for all threads at once, and raises SystemError where two parse (gh-106905).
_PARSING = threading.Lock()
_HEADERS = {(1, 0): np.lib.format.read_array_header_1_0, (2, 0): np.lib.format.read_array_header_2_0}
#: Bytes of the facts beside the arrays of a design: so many, and so many times the size of the file.
FACTS, SHARE = 2**24, 16
#: Lists and tables in them: so many, and so many for each node.
LISTS = 10
#: Arrays of a design, and those that every design has.
DESIGN_ARRAYS = ("weights", "penalty_data", "penalty_indices", "penalty_indptr", "meta", "data_weight", "omega")
NEEDED = DESIGN_ARRAYS[:5]
#: What the facts of a design are.
DESIGN_FACTS: dict[str, type | tuple[type, ...]] = {
    "format": str, "method": str, "objective": numbers.Real, "status": str, "certificate": dict, "timings": dict,
    "settings": dict, "graph_hash": str, "version": str,
}  # fmt: skip
#: And those of the certificate.
CERTIFICATE: dict[str, type | tuple[type, ...]] = {
    "smallest_eigenvalue": numbers.Real, "violation": numbers.Real, "solver": str, "solver_status": str,
    "relaxed_objective": (numbers.Real, type(None)), "gradient_norm": (numbers.Real, type(None)), "details": dict,
}  # fmt: skip


@dataclass(frozen=True)
class Header:
    """Shape and type of an array that is not read yet, and whether it lies column after column."""

    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    n_bytes: int
    by_columns: bool


class Npz:
    """An open ``.npz`` file: its headers, checked, and each array on demand."""

    def __init__(self, archive: zipfile.ZipFile, path: Path, only: Collection[str] | None = None) -> None:
        self._archive, self._path = archive, path
        #: Of each array, by its name.
        self.headers: dict[str, Header] = {}
        for member in archive.infolist():
            name = member.filename.removesuffix(".npy")
            if only is not None and name not in only:
                continue
            if name == member.filename or name in self.headers:
                raise InputError(
                    f"{path} is not an NPZ file of plain arrays: {member.filename!r} is not one, or appears twice."
                )
            if member.flag_bits & ENCRYPTED:
                raise InputError(f"{path}: {member.filename!r} is encrypted: write the file again without a password.")
            if member.compress_type not in METHODS:
                raise InputError(f"{path}: {member.filename!r} is not compressed as NumPy does: write it with numpy.savez.")
            with archive.open(member) as handle:
                self.headers[name] = header_of(handle, member.file_size, f"{path}: array {name!r}")
        refuse_expanding(path, sum(header.n_bytes for header in self.headers.values()))

    def read(self, name: str) -> np.ndarray:
        """One array."""
        checks.memory(f"the array {name!r} in {self._path}", self.headers[name].n_bytes, alternative="take a part of it")
        with self._archive.open(f"{name}.npy") as handle:
            what = f"{self._path}: array {name!r}"
            return _array(handle, header_of(handle, self._archive.getinfo(f"{name}.npy").file_size, what), what)

    def pieces(self, name: str, count: int) -> Iterator[np.ndarray]:
        """One array of one dimension, so many of its numbers at a time."""
        header = self.headers[name]
        with self._archive.open(f"{name}.npy") as handle:
            header_of(handle, self._archive.getinfo(f"{name}.npy").file_size, f"{self._path}: array {name!r}")
            for first in range(0, header.shape[0], count):
                data = handle.read(min(count, header.shape[0] - first) * header.dtype.itemsize)
                yield checked_texts(np.frombuffer(data, header.dtype), f"{self._path}: array {name!r}")


@contextmanager
def open_npz(path: str | os.PathLike[str], *, only: Collection[str] | None = None) -> Iterator[Npz]:
    """An ``.npz`` file, with checked headers; ``only`` some of its arrays, where others may hold what is not read.

    Raises
    ------
    InputError
        If a header does not fit the file, or the file is encrypted, or expands to more than is plausible.
    zipfile.BadZipFile, OSError, ...
        One of ``nareg.errors.UNREADABLE`` if it is no such file.
    """
    refuse_special(path)
    with zipfile.ZipFile(path) as archive:
        yield Npz(archive, Path(path), only)


def read_npz(path: str | os.PathLike[str]) -> dict[str, np.ndarray]:
    """All arrays of an ``.npz`` file; raises as :func:`open_npz`."""
    with open_npz(path) as archive:
        return {name: archive.read(name) for name in archive.headers}


def read_npy(path: str | os.PathLike[str], opened: IO[bytes] | None = None) -> np.ndarray:
    """The array of an ``.npy`` file, which may be open already; raises as :func:`open_npz`."""
    if opened is None:
        refuse_special(path)
    with open(path if opened is None else os.dup(opened.fileno()), "rb") as handle:
        handle.seek(0)
        header = header_of(handle, os.fstat(handle.fileno()).st_size, f"{path}", more=True)
        checks.memory(f"the array in {path}", header.n_bytes, alternative="take a part of it")
        return _array(handle, header, str(path))


def npy_header(dtype: np.dtype[Any], shape: tuple[int, ...], *, by_columns: bool = False) -> bytes:
    """The first :data:`NPY_HEADER` bytes of an ``.npy`` file, whatever its shape; in C order, or column after column."""
    text = f"{{'descr': '{dtype.newbyteorder('<').str}', 'fortran_order': {by_columns}, 'shape': {shape}, }}"
    length = NPY_HEADER - 10  # after magic, version and this length itself
    return b"\x93NUMPY\x01\x00" + length.to_bytes(2, "little") + text.ljust(length - 1).encode("ascii") + b"\n"


def map_npy(path: str | os.PathLike[str]) -> np.ndarray:
    """The array of an ``.npy`` file, memory-mapped for reading; an InputError if it is no such file."""
    with read_errors(f"{path} cannot be read", "write it again"):
        refuse_special(path)
        with open(path, "rb") as handle:
            header = header_of(handle, os.fstat(handle.fileno()).st_size, f"{path}")
            if not header.n_bytes:  # nothing to map
                return np.empty(header.shape, header.dtype)
            order: Any = "F" if header.by_columns else "C"
            array = np.memmap(handle, header.dtype, "r", handle.tell(), header.shape, order)
        return checked_texts(array, str(path))


def refuse_special(path: str | os.PathLike[str]) -> None:
    """Refuse folders, and pipes, which would block."""
    if not stat.S_ISREG(os.stat(path).st_mode):
        raise InputError(f"{path} is a folder or a device, a file is expected.")


def refuse_expanding(
    path: str | os.PathLike[str], n_bytes: int, *, size: int | None = None, remedy: str = "write it again uncompressed"
) -> None:
    """Refuse more bytes than a file of this size can plausibly hold; ``size`` is given of a file in an archive."""
    size = os.stat(path).st_size if size is None else size
    if n_bytes > FREE + EXPANSION * size:
        raise TooLargeError(
            f"{path} has {size} bytes and declares {n_bytes}, more than {EXPANSION} times as many: it is damaged or malicious; "
            f"otherwise {remedy}."
        )


def header_of(handle: IO[bytes], size: int, what: str, *, more: bool = False) -> Header:
    """Of an array that is the rest of a file or member of this size, or (``more``) the beginning of the rest."""
    version = np.lib.format.read_magic(handle)
    if version not in _HEADERS:
        raise InputError(f"{what} has version {version} of NumPy's format: write it again as numbers or texts.")
    counted = _Counted(handle)
    try:
        with _PARSING:
            shape, by_columns, dtype = _HEADERS[version](counted)
    except (ValueError, SyntaxError, tokenize.TokenError, RecursionError, MemoryError) as error:
        raise InputError(f"{what} has a header that cannot be read ({type(error).__name__}): it is damaged.") from None
    if dtype.hasobject:
        raise InputError(f"{what} holds Python objects, which are not read from files: write numbers or texts.")
    if any(length < 0 for length in shape):
        raise InputError(f"{what} has the shape {shape}: it is damaged.")
    count = math.prod(shape)
    if count and not dtype.itemsize:
        raise InputError(f"{what} declares {count} values of no size: it is damaged.")
    n_bytes = count * dtype.itemsize
    rest = size - np.lib.format.MAGIC_LEN - counted.count
    if n_bytes > rest or (n_bytes < rest and not more):
        raise InputError(f"{what} declares {shape} of {dtype}, {n_bytes} bytes, but has {rest}: it is cut off or damaged.")
    return Header(shape, dtype, n_bytes, by_columns)


class _Counted:
    """A handle that counts the bytes read: members of an archive have no position."""

    def __init__(self, handle: IO[bytes]) -> None:
        self._handle, self.count = handle, 0

    def read(self, size: int = -1, /) -> bytes:
        """So many bytes, or all that are left."""
        data = self._handle.read(size)
        self.count += len(data)
        return data


def _array(handle: Any, header: Header, what: str) -> np.ndarray:
    """The numbers behind a header."""
    data = np.empty(header.n_bytes, np.uint8)
    if handle.readinto(data.data) != header.n_bytes:
        raise InputError(f"{what} is cut off: copy or write it again.")
    return checked_texts(np.ndarray(header.shape, header.dtype, data, order="F" if header.by_columns else "C"), what)


def checked_texts(array: np.ndarray, what: str) -> np.ndarray:
    """The array itself; refused if it holds a text, in a field or alone, with a code that is no character.

    NumPy keeps texts as 32-bit codes and does not look at them; Python's own texts raise SystemError on what is beyond Unicode.
    """
    for field in array.dtype.names or ():
        checked_texts(array[field], f"{what}, field {field!r}")
    if array.dtype.kind == "U" and array.size and array.dtype.itemsize:
        codes = np.ascontiguousarray(array).reshape(-1).view(np.dtype(np.uint32).newbyteorder(array.dtype.byteorder))
        bad = (codes > sys.maxunicode) | ((codes >= 0xD800) & (codes <= 0xDFFF))
        if bad.any():
            at = int(bad.argmax()) // (array.dtype.itemsize // 4)
            raise InputError(f"{what} is damaged: text {at} holds {int(codes[bad][0]):#x}, no character: write it again.")
    return array


def read_design(path: str | os.PathLike[str], form: str) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
    """Arrays and facts of a design; other arrays in the file are not read.

    Raises
    ------
    ValueError, OSError, ...
        One of ``nareg.errors.UNREADABLE`` if it is no such file.
    """
    with open_npz(path) as stored:
        n = _compared(stored, os.stat(path).st_size)
        text = str(stored.read("meta"))
        if text.count("[") + text.count("{") > LISTS * (n + 1000):
            raise ValueError("its facts are nested too deeply")
        facts = _typed(json.loads(text), DESIGN_FACTS)
        if facts["format"] != form:
            raise ValueError(f"format {facts['format']!r}, expected {form!r}")
        _typed(facts["certificate"], CERTIFICATE)
        _typed(facts["timings"], dict.fromkeys(facts["timings"], numbers.Real))
        return {name: stored.read(name) for name in DESIGN_ARRAYS if name in stored.headers and name != "meta"}, facts


def _compared(stored: Npz, size: int) -> int:
    """Number of nodes, if the arrays are declared as those of one design."""
    headers = stored.headers
    absent = [name for name in NEEDED if name not in headers]
    if absent:
        raise ValueError(f"it has no array {absent[0]!r}")
    starts, entries, meta = (headers[name].shape for name in ("penalty_indptr", "penalty_data", "meta"))
    if len(starts) != 1 or len(entries) != 1 or headers["penalty_indices"].shape != entries or starts[0] < 2:
        raise ValueError(f"its penalty has row starts of shape {starts} and entries of shape {entries}")
    n = starts[0] - 1
    shapes = {name: header.shape for name, header in headers.items()}
    weights = shapes["weights"]
    if len(weights) != 1 or not n <= weights[0] <= n + entries[0]:
        raise ValueError(f"weights has shape {weights} for {n} nodes")
    for name, expected in (("data_weight", (n,)), ("omega", (n, n))):
        if shapes.get(name, expected) != expected:
            raise ValueError(f"{name} has shape {shapes[name]} for {n} nodes")
    for name in ("weights", "data_weight", "omega"):
        if name in headers and headers[name].dtype.kind != "f":
            raise ValueError(f"{name} has dtype {headers[name].dtype}")
    if meta != () or headers["meta"].dtype.kind != "U" or headers["meta"].n_bytes > FACTS + SHARE * size:
        raise ValueError(f"meta has shape {meta} and {headers['meta'].n_bytes} bytes of {headers['meta'].dtype.kind!r}")
    return n


def _typed(value: Any, types: dict[str, Any]) -> dict[str, Any]:
    """A table that has these, of these types, and nothing else."""
    if not isinstance(value, dict) or set(value) != set(types):
        raise ValueError("its facts are not those of a design")
    for name, wanted in types.items():
        if not isinstance(value[name], wanted) or isinstance(value[name], bool):
            raise ValueError(f"{name} is a {type(value[name]).__name__}")
        if isinstance(value[name], int):
            value[name] = float(value[name])  # or OverflowError
    return value
