"""A reader of the few pickles that are data: numbers, texts, lists, dicts, NumPy arrays and SciPy's CSR matrices.

A pickle is a program: loading one from elsewhere can run anything. The files of Planetoid are pickles of Python 2, and no other
copy of them is the source. They are read in two steps. First all instructions are looked at, without running any: only those
that these files use are admitted, and no memo slot beyond their number (a large one would allocate as much). No tuple may be
a key: thirty instructions nest one whose hash takes 2^30 steps. Then they run with six names, each of which stands for a class
of this module that keeps plain data. No array, type or matrix is made by the pickle. At the end the raw bytes of the result,
not of all that refers to them, become arrays through ``numpy.frombuffer``, and matrices through a reader that checks every
index. Messages show no value: to write one may take forever.
"""

from __future__ import annotations

import io
import os
import pickle
import pickletools
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from nareg._storage.sparse_files import csr
from nareg.errors import UNREADABLE, DatasetCorruptError, brief

#: Instructions that these files use, all of protocol 2.
INSTRUCTIONS = frozenset((
    "PROTO", "GLOBAL", "BINPUT", "LONG_BINPUT", "BINGET", "LONG_BINGET", "EMPTY_TUPLE", "EMPTY_DICT", "EMPTY_LIST", "MARK",
    "SHORT_BINSTRING", "BINSTRING", "BININT", "BININT1", "BININT2", "TUPLE", "TUPLE1", "TUPLE2", "TUPLE3", "NEWOBJ", "REDUCE",
    "BUILD", "NONE", "NEWFALSE", "NEWTRUE", "SETITEM", "SETITEMS", "APPEND", "APPENDS", "STOP",
))  # fmt: skip
#: Types of array elements, by their code.
ELEMENTS = ("f4", "f8", "i4", "i8", "u1", "b1")


class _Sealed:
    """Whatever has a name here takes no state from a pickle, so that no pickle can change it for the next one."""

    def __setstate__(self, state: Any) -> None:
        raise pickle.UnpicklingError("it gives a state to something that has none")


class _Dtype(_Sealed):
    """Element type of an array: a code and a byte order."""

    def __init__(self, code: Any = None, *_: Any) -> None:
        self.code, self.order = code, "<"

    def __setstate__(self, state: Any) -> None:
        self.order = state[1]

    def numpy(self) -> np.dtype[Any]:
        """The type itself, if it is one of :data:`ELEMENTS`."""
        if self.code not in ELEMENTS or self.order not in ("<", ">", "|"):
            raise ValueError("arrays of another type than " + ", ".join(ELEMENTS))
        return np.dtype(self.order.replace("|", "<") + self.code)


class _Array(_Sealed):
    """An array: what its state says, taken only from raw bytes, when it is asked for."""

    state: Any

    def __setstate__(self, state: Any) -> None:
        self.state = state

    @property
    def value(self) -> np.ndarray:
        """The array itself."""
        _, shape, dtype, by_columns, data = self.state
        if not isinstance(dtype, _Dtype) or not isinstance(data, str):
            raise TypeError("an array without raw bytes")
        flat = np.frombuffer(data.encode("latin-1"), dtype.numpy())
        return flat.reshape(_shape(shape), order="F" if by_columns else "C")


class _Matrix(_Sealed):
    """A CSR matrix: its parts by name."""

    parts: dict[str, Any]

    def __setstate__(self, state: Any) -> None:
        if not isinstance(state, dict):
            raise TypeError("a matrix without named parts")
        self.parts = state


class _ListType(_Sealed):
    """What ``list`` stands for: a factory that is never called, since lists of lists would multiply."""

    def __new__(cls, *_: Any) -> Any:
        raise TypeError("a list made of something")


class _ArrayType(_Sealed):
    """What ``numpy.ndarray`` stands for."""


class _Reconstruct(_Sealed):
    """What makes an array without content, which its state then gives."""

    def __new__(cls, kind: Any, *_: Any) -> Any:
        if kind is not _ArrayType:
            raise TypeError("an array of another class")
        return _Array()


class _Dict(_Sealed, dict[Any, Any]):
    """What ``collections.defaultdict`` stands for: absent keys stay absent."""

    def __init__(self, factory: Any = None) -> None:
        super().__init__()


#: All names that a pickle may use.
NAMES: dict[tuple[str, str], type] = {
    ("numpy", "ndarray"): _ArrayType,
    ("numpy", "dtype"): _Dtype,
    ("numpy.core.multiarray", "_reconstruct"): _Reconstruct,
    ("scipy.sparse.csr", "csr_matrix"): _Matrix,
    ("collections", "defaultdict"): _Dict,
    ("__builtin__", "list"): _ListType,
}


class _Reader(pickle.Unpickler):
    def find_class(self, module: str, name: str, /) -> Any:
        """One of :data:`NAMES`."""
        if (module, name) not in NAMES:
            raise pickle.UnpicklingError(f"it names {module}.{name}")
        return NAMES[module, name]


def read_pickle(path: str | os.PathLike[str]) -> Any:
    """The array, CSR matrix, or dict of lists that a file holds.

    Raises
    ------
    DatasetCorruptError
        If the file is no such pickle, or uses any other name or instruction; nothing of it has run then.
    """
    path = Path(path)
    try:
        text = path.read_bytes()
        with warnings.catch_warnings():  # about escapes in names, which are refused anyway
            warnings.simplefilter("ignore", DeprecationWarning)
            _refuse_instructions(text)
        return _plain(_Reader(io.BytesIO(text), encoding="latin-1").load(), str(path))
    except (pickle.UnpicklingError, *UNREADABLE) as error:
        raise DatasetCorruptError(
            f"{path} is not a pickle of arrays, matrices, lists and dicts ({brief(error)}): it is damaged or malicious; "
            "delete it."
        ) from None


def _refuse_instructions(text: bytes) -> None:
    slots, length = 0, 0
    tuples = _Tuples()
    argument: Any
    for instruction, argument, position in pickletools.genops(text):
        if instruction.name not in INSTRUCTIONS:
            raise pickle.UnpicklingError(f"instruction {instruction.name} at byte {position}")
        length += 1
        if instruction.name.endswith("PUT"):
            slots = max(slots, argument)
        if instruction.name == "GLOBAL" and tuple(argument.split(" ", 1)) not in NAMES:
            raise pickle.UnpicklingError(f"it names {argument.replace(' ', '.')}")
        tuples.follow(instruction.name, argument)
    if slots > length:
        raise pickle.UnpicklingError(f"memo slot {slots} in {length} instructions")


class _Tuples:
    """Follows the stack of a pickle by what is a tuple on it, and refuses one as a key."""

    def __init__(self) -> None:
        self._stack: list[bool] = []
        self._marks: list[int] = []
        self._memo: dict[int, bool] = {}

    def follow(self, name: str, argument: Any) -> None:
        """The next instruction."""
        if name == "MARK":
            self._marks.append(len(self._stack))
        elif name.endswith("PUT"):
            self._memo[argument] = self._top(1)[0]
        elif name.endswith("GET"):
            self._stack.append(self._memo.get(argument, False))
        elif name.startswith("TUPLE"):
            del self._stack[self._since_mark() if name == "TUPLE" else len(self._stack) - len(self._top(int(name[5:]))) :]
            self._stack.append(True)
        elif name in ("NEWOBJ", "REDUCE"):
            self._top(2)
            self._stack[-2:] = [False]
        elif name in ("SETITEM", "SETITEMS"):
            first = len(self._stack) - len(self._top(2)) if name == "SETITEM" else self._since_mark()
            if any(self._stack[first::2]):
                raise pickle.UnpicklingError("a tuple as a key")
            del self._stack[first:]
        elif name in ("APPEND", "BUILD", "APPENDS"):
            del self._stack[self._since_mark() if name == "APPENDS" else len(self._stack) - len(self._top(1)) :]
        elif name not in ("PROTO", "STOP"):
            self._stack.append(False)

    def _top(self, count: int) -> list[bool]:
        if len(self._stack) < count:
            raise pickle.UnpicklingError("it takes more values than it has")
        return self._stack[-count:]

    def _since_mark(self) -> int:
        if not self._marks:
            raise pickle.UnpicklingError("it goes back to a mark that is not there")
        return self._marks.pop()


def _plain(value: Any, what: str) -> np.ndarray | sp.csr_array | dict[int, list[int]]:
    """The value itself in the place of its stand-in."""
    if isinstance(value, _Array):
        return value.value
    if isinstance(value, _Matrix):
        data, indices, indptr = (value.parts[part].value for part in ("data", "indices", "indptr"))
        return csr(data, indices, indptr, _shape(value.parts["_shape"]), what=what)
    if isinstance(value, dict) and all(_is_row(*row) for row in value.items()):
        return dict(value)
    raise TypeError(f"a {type(value).__name__}")


def _shape(value: Any) -> tuple[int, ...]:
    if type(value) is not tuple or not all(type(length) is int for length in value):
        raise TypeError("a shape that is not of integers")
    return value


def _is_row(node: Any, neighbors: Any) -> bool:
    return type(node) is int and type(neighbors) is list and all(type(other) is int for other in neighbors)
