"""Arrays in ``.npy`` files, of which each rank reads and writes its rows."""

from __future__ import annotations

import os
import secrets
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import numpy as np

from nareg._solvers._petsc.library import load
from nareg._solvers._petsc.ranks import agreed
from nareg._storage import array_files
from nareg._storage.files import DRAFT, clear_drafts, resolved
from nareg._storage.signals import SignalFile
from nareg.errors import InputError

#: Bytes that are written at a time: MPI counts them in 31 bits.
PIECE = 2**28


def vector_rows(name: str, value: Any, n_nodes: int, place: slice) -> np.ndarray:
    """Some rows of (N,) float64 numbers: of a file, an array, or one number for all nodes."""
    if isinstance(value, (int, float, np.number)) and not isinstance(value, bool):
        value = np.broadcast_to(np.float64(value), n_nodes)
    source = SignalFile(name, value, n_nodes)
    if source.n_columns != 1:
        raise InputError(f"{name} has shape {source.shape}: one number per node, ({n_nodes},), is expected.")
    return source.rows(place, slice(0, 1))[:, 0].astype(np.float64)


@contextmanager
def parallel_writer(
    path: str | os.PathLike[str], shape: tuple[int, ...], dtype: np.dtype[Any]
) -> Iterator[Callable[[int, np.ndarray], None]]:
    """An ``.npy`` file that appears whole or not at all; the function, called by all ranks, writes rows from a first one on.

    The first rank makes a draft, all write into it with MPI-IO, and the first renames it when all are done.
    """
    library = load()
    MPI, comm = library.MPI, library.comm
    target = draft = None
    with agreed(comm):
        if comm.rank == 0:
            with _refusal(path):
                target = resolved(Path(path))
                target.parent.mkdir(parents=True, exist_ok=True)
                if target.is_dir():
                    raise IsADirectoryError("it is a folder")
                clear_drafts(target)
                draft = target.with_name(f".{target.name}.{secrets.token_hex(4)}.{DRAFT}")
                header = array_files.npy_header(dtype, shape)
                with open(draft, "xb") as handle:
                    handle.write(header)
                    handle.truncate(len(header) + dtype.itemsize * int(np.prod(shape)))
    name = comm.bcast(None if draft is None else str(draft))

    def write(first: int, rows: np.ndarray) -> None:
        data = np.ascontiguousarray(rows.astype(dtype, copy=False)).reshape(-1).view(np.uint8)
        offset = array_files.NPY_HEADER + first * dtype.itemsize * (shape[1] if len(shape) == 2 else 1)
        with agreed(comm):
            file = None
            try:
                file = MPI.File.Open(MPI.COMM_SELF, name, MPI.MODE_WRONLY)
                for start in range(0, data.size, PIECE):
                    file.Write_at(offset + start, data[start : start + PIECE])
                file.Sync()
            except MPI.Exception as error:
                raise InputError(f"{path} cannot be written ({error.Get_error_string()}): choose another path.") from None
            finally:
                if file is not None:
                    file.Close()

    try:
        yield write
        with agreed(comm):
            if target is not None and draft is not None:
                with _refusal(path):
                    os.replace(draft, target)
    finally:
        if draft is not None:
            with suppress(OSError):
                draft.unlink(missing_ok=True)


@contextmanager
def _refusal(path: str | os.PathLike[str]) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise InputError(f"{path} cannot be written ({error.strerror or error}): choose another path.") from None
