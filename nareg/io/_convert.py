"""Conversions between files of graphs and of signals, in parts."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from nareg._core import checks
from nareg._storage import array_files
from nareg._storage.files import atomic_write
from nareg._storage.graph_files import StoredGraph
from nareg._storage.graph_layout import INDEX
from nareg._storage.graph_sorting import SortOptions, sort
from nareg._storage.text_files import numbers_of_lines
from nareg.errors import InputError
from nareg.io._graphs import EDGE_LISTS, entry_source
from nareg.progress import Progress, ProgressCallback

#: Bytes of signals that are copied at a time.
PIECE = 2**24


def convert(
    source: str | os.PathLike[str],
    out: str | os.PathLike[str],
    *,
    dtype: str = "float64",
    n_nodes: int | None = None,
    symmetrize: bool = False,
    drop_loops: bool = False,
    memory: int = 2**28,
    progress: ProgressCallback | None = None,
) -> str:
    r"""Convert a graph to or from a folder that is read in parts, or signals to an array that can be memory-mapped.

    The source is read in chunks and sorted on disk: neither has to fit into memory.

    Parameters
    ----------
    source : path
        A graph: an edge list (``.csv``, ``.tsv``, ``.txt``, ``.edges``: two node numbers from 0 and perhaps a weight per line,
        ``.gz`` may follow), ``.mtx``, ``.npz`` of ``scipy.sparse.save_npz``, ``.npy`` with an ``edge_index`` (2, E), or a
        ``.graph`` folder. An edge of a list may stand in one direction or in both; a matrix must be symmetric. Or signals: a
        ``.csv`` with a line per node, or an ``.npy``, where ``out`` ends in ``.npy``.
    out : path
        ``NAME.graph``; ``.npz`` or ``.mtx`` from a folder; ``.npy`` for signals.
    dtype : {"float64", "float32"}
        Type of stored weights or signals.
    n_nodes : int, optional
        Nodes of an edge list. Default: the largest plus one.
    symmetrize : bool
        Join nodes where either points at the other, with the larger weight. Otherwise weights that differ are refused.
    drop_loops : bool
        Leave out self-loops. Otherwise they are refused.
    memory : int
        Bytes for the edges that are sorted at a time.
    progress : callable, optional
        Receives a :class:`nareg.progress.Progress` after each chunk.

    Returns
    -------
    str
        What was written, in a few words.

    Raises
    ------
    InputError
        If the source cannot be read or is no undirected graph, or the output cannot be written. Nothing is left half-written.

    Examples
    --------
    >>> import pathlib, tempfile, nareg
    >>> folder = pathlib.Path(tempfile.mkdtemp())
    >>> _ = (folder / "edges.csv").write_text("u,v\n0,1\n2,1\n")
    >>> nareg.io.convert(folder / "edges.csv", folder / "path.graph")
    '3 nodes, 2 edges'
    """
    source, out = Path(source), Path(out)
    if not source.exists():
        raise InputError(f"{source} does not exist.")
    kind = np.dtype(checks.choice("dtype", dtype, ("float64", "float32")))
    suffix = out.suffix.lower()
    if out.exists() and out.samefile(source):
        raise InputError(f"{out} is both source and output: name another output.")
    if (source / INDEX).is_file() and suffix in (".npz", ".mtx"):
        return _export(StoredGraph(source), out, progress)
    if suffix == ".npy":
        return _signals(source, out, kind, progress)
    if suffix != ".graph":
        raise InputError(f"{out}: name a .graph folder, a .npz or .mtx to convert a folder to, or a .npy for signals.")
    if n_nodes is not None:
        n_nodes = checks.integer("n_nodes", n_nodes, low=1)
    memory = checks.integer("memory", memory, low=2**16)
    options = SortOptions(kind, symmetrize, drop_loops, memory)
    sort(entry_source(source, n_nodes), out, options, progress)
    written = StoredGraph(out)
    isolated = written.n_edges > 0 and written.indptr[1] == 0
    return _size(written) + ("; node 0 has none: numbers count from 0" if isolated else "")


def _size(stored: StoredGraph) -> str:
    return ", ".join(f"{n} {what}{'s' * (n != 1)}" for n, what in ((stored.n_nodes, "node"), (stored.n_edges, "edge")))


def _export(stored: StoredGraph, out: Path, progress: ProgressCallback | None) -> str:
    what = _size(stored)
    indptr, indices, weights = stored.indptr, stored.indices, stored.weights
    with atomic_write(out) as handle:
        if out.suffix.lower() == ".npz":
            data = np.broadcast_to(1.0, indices.shape) if weights is None else weights
            shape = np.array([stored.n_nodes, stored.n_nodes])
            np.savez(handle, indices=indices, indptr=indptr, format=np.array(b"csr"), shape=shape, data=data, _is_array=True)
            return what
        field = "pattern" if weights is None else "real"
        head = f"%%MatrixMarket matrix coordinate {field} symmetric\n%\n{stored.n_nodes} {stored.n_nodes} {stored.n_edges}\n"
        handle.write(head.encode())
        for first, last in stored.row_ranges(2**22):
            rows = stored.rows(first, last)
            i = first + np.repeat(np.arange(last - first), np.diff(rows.indptr))
            below = rows.indices < i  # the lower triangle
            columns: list[Any] = [(i[below] + 1).tolist(), (rows.indices[below].astype(np.int64) + 1).tolist()]
            if rows.weights is not None:
                columns.append([repr(weight) for weight in rows.weights[below].astype(float).tolist()])
            handle.writelines(" ".join(map(str, line)).encode() + b"\n" for line in zip(*columns, strict=True))
            if progress is not None:
                progress(Progress("writing edges", last, stored.n_nodes, last / stored.n_nodes))
    return what


def _signals(source: Path, out: Path, kind: np.dtype[Any], progress: ProgressCallback | None) -> str:
    """Signals (N, T) as an array in C order."""
    pieces: Iterator[tuple[np.ndarray, float]]
    if source.suffix.lower() == ".npy":
        array = array_files.map_npy(source)
        if array.ndim not in (1, 2) or array.dtype.kind not in "fiu" or not array.size:
            raise InputError(
                f"{source} has shape {array.shape} and dtype {array.dtype}: real signals (N,) or (N, T) are expected."
            )
        rows = max(PIECE // max(array[0].nbytes, 1), 1)
        pieces = ((array[i : i + rows], min((i + rows) / len(array), 1.0)) for i in range(0, len(array), rows))
    elif source.suffix.lower() in (*EDGE_LISTS, ".gz"):
        pieces = numbers_of_lines(source)
    else:
        raise InputError(f"{source}: signals are a .csv or .npy.")
    shape: tuple[int, ...] = (0,)
    with atomic_write(out) as handle:
        handle.write(bytes(array_files.NPY_HEADER))
        for piece, done in pieces:
            bad = ~np.isfinite(piece)
            if bad.any():
                place = (shape[0] + int(np.argwhere(bad)[0][0]), *np.argwhere(bad)[0][1:].tolist())
                raise InputError(f"{source}: the value at {place} is {piece[bad].flat[0]}: fill or drop what is missing.")
            with np.errstate(over="ignore"):
                cast = piece.astype(kind)
            if not np.isfinite(cast).all():
                raise InputError(f"{source} holds {piece[~np.isfinite(cast)].flat[0]:g}, beyond {kind}: omit --float32.")
            handle.write(np.ascontiguousarray(cast).tobytes())
            shape = (shape[0] + len(piece), *piece.shape[1:])
            if progress is not None:
                progress(Progress("copying signals", shape[0], None, done))
        if shape[0] == 0:
            raise InputError(f"{source} is empty: write a line per node.")
        handle.seek(0)
        handle.write(array_files.npy_header(kind, shape))
    return f"{kind} signals of shape {shape}"
