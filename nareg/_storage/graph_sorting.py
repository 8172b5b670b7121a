"""From entries in any order to sorted rows on disk, with a part of them in memory at a time.

Two passes: the first counts the entries of every few rows, the second puts both directions of every entry into one file for
each range of rows (a bucket). Then each bucket is sorted in memory and appended to the graph.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from nareg._storage.graph_layout import index_type
from nareg._storage.graph_writer import GraphWriter
from nareg.errors import InputError
from nareg.progress import Progress, ProgressCallback

#: Rows that are counted together, as a power of two.
CELL = 6
#: Bytes of memory that sorting an entry takes, and a row.
PER_ENTRY, PER_ROW = 64, 32
#: Files that are open at the same time.
MOST_BUCKETS = 400
#: Nodes above which an unnamed number of nodes is compared with the entries, and nodes per entry that are then refused.
MANY, GAPS = 10**7, 100


class Entries(NamedTuple):
    """Some entries of a source; ``weight`` None is all ones, ``done`` the share of the source that has been read."""

    row: np.ndarray
    column: np.ndarray
    weight: np.ndarray | None
    done: float


@dataclass(frozen=True)
class EntrySource:
    """A graph as entries in any order.

    Parameters
    ----------
    what : str
        The source's name in messages.
    chunks : callable
        Starts a new pass over the entries.
    n_nodes : int or None
        None is the largest node plus one.
    is_matrix : bool
        True: all entries of a symmetric matrix, those listed twice added. False: edges, each in one direction or both.
    is_text : bool
        Whether a pass is slow, so that the first one keeps the numbers.
    rounding : float
        Relative difference of two mirrored weights that counts as equal.
    """

    what: str
    chunks: Callable[[], Iterator[Entries]]
    n_nodes: int | None
    is_matrix: bool
    is_text: bool = False
    rounding: float = 1e-12


@dataclass(frozen=True)
class SortOptions:
    """How entries become a graph.

    Parameters
    ----------
    dtype : {float64, float32}
        Type of the stored weights.
    symmetrize : bool
        Join nodes where either points at the other, with the larger of the weights; else a difference is refused.
    drop_loops : bool
        Leave out self-loops; else they are refused.
    memory : int
        Bytes for the rows that are sorted at a time.
    """

    dtype: Any = np.float64
    symmetrize: bool = False
    drop_loops: bool = False
    memory: int = 2**28


def sort(source: EntrySource, path: Path, options: SortOptions, progress: ProgressCallback | None = None) -> None:
    """Write the graph of a source.

    Raises
    ------
    InputError
        If an entry is no edge of a graph: outside it, negative, not finite, a self-loop, without its mirror.
    """
    report = progress or (lambda _: None)
    # the number of nodes is known after the first pass only
    with GraphWriter(path, dtype=options.dtype) as writer:
        n, cells, chunks, weighted = _count(source, writer.draft, options, report)
        writer.n_nodes = n
        bounds = _bounds(cells, n, options.memory)
        record = [("row", "<i4"), ("column", index_type(n))] + ([("weight", "<f8")] if weighted else [])
        buckets = [writer.draft / f"bucket-{b}" for b in range(len(bounds) - 1)]
        _distribute(chunks, bounds, buckets, np.dtype(record), report)
        for b, bucket in enumerate(buckets):
            report(Progress("sorting rows", b + 1, len(buckets), (b + 1) / len(buckets)))
            writer.append(*_rows(np.fromfile(bucket, np.dtype(record)), int(bounds[b]), int(bounds[b + 1]), n, source, options))
            bucket.unlink()


def _count(
    source: EntrySource, scratch: Path, options: SortOptions, report: ProgressCallback
) -> tuple[int, np.ndarray, Callable[[], Iterator[Entries]], bool]:
    """Nodes, entries of every cell of rows (both directions), the checked entries again, and whether they have weights."""
    cells, largest, weighted = np.zeros(0, np.int64), -1, False
    spooled = [scratch / f"{name}-in-order" for name in ("row", "column", "weight")]
    with ExitStack() as files:
        spool = [files.enter_context(open(path, "wb")) for path in spooled] if source.is_text else []
        for step, chunk in enumerate(map(lambda c: _checked(c, source, options), source.chunks())):
            report(Progress("reading edges", step + 1, None, chunk.done))
            largest = max(largest, int(chunk.row.max(initial=-1)), int(chunk.column.max(initial=-1)))
            _refuse_gaps(source, largest, int(cells.sum()) // 2 + chunk.row.size, chunk.done)
            _refuse_size(largest + 1, scratch)
            for nodes in (chunk.row, chunk.column):
                counts = np.bincount(nodes >> CELL)
                cells = np.pad(cells, (0, max(counts.size - cells.size, 0)))
                cells[: counts.size] += counts
            weighted = weighted or chunk.weight is not None
            for file, part in zip(spool, chunk[:3], strict=False):
                if part is not None:
                    part.tofile(file)
    n = largest + 1 if source.n_nodes is None else source.n_nodes
    if n == 0:
        raise InputError(f"{source.what} has no edges: pass the number of nodes.")
    _refuse_size(n, scratch)
    cells = np.pad(cells, (0, ((n - 1) >> CELL) + 1 - cells.size))
    if not source.is_text:
        return n, cells, lambda: (_checked(chunk, source, options) for chunk in source.chunks()), weighted
    return n, cells, lambda: _in_order(spooled, weighted), weighted


def _refuse_gaps(source: EntrySource, largest: int, n_entries: int, done: float) -> None:
    """Refuse an edge list whose numbers are no positions: memory and files would grow with the largest."""
    expected = n_entries / max(done, 1e-3)  # in the whole source
    if source.n_nodes is None and largest >= max(MANY, GAPS * expected):
        raise InputError(
            f"{source.what} names node {largest} and has about {expected:.0f} edges: numbers run from 0 without large gaps. "
            "Number the nodes anew, or pass the number of nodes if so many have no edge."
        )


def _refuse_size(n_nodes: int, folder: Path) -> None:
    """Refuse row starts that the disk cannot hold, before anything of that size is allocated."""
    if 8 * n_nodes > shutil.disk_usage(folder).free:
        raise InputError(
            f"a graph of {n_nodes} nodes has {8 * n_nodes / 2**30:.0f} GiB of row starts, more than is free in "
            f"{folder.parent}: free some, or number the nodes anew."
        )


def _in_order(spooled: list[Path], weighted: bool) -> Iterator[Entries]:
    """The entries of a text, kept as numbers; these files are removed at the end."""
    total = spooled[0].stat().st_size // 8
    for first in range(0, total, 2**21):
        parts = [
            np.fromfile(p, k, 2**21, offset=8 * first) for p, k in zip(spooled, (np.int64, np.int64, np.float64), strict=True)
        ]
        yield Entries(parts[0], parts[1], parts[2] if weighted else None, min((first + 2**21) / total, 1.0))
    for path in spooled:
        path.unlink()


def _checked(chunk: Entries, source: EntrySource, options: SortOptions) -> Entries:
    """Entries without zeros and, where asked for, without self-loops."""
    row, column, weight, done = chunk
    n = source.n_nodes if source.n_nodes is not None else np.iinfo(np.int64).max
    for nodes in (row, column):
        if nodes.size and (nodes.min() < 0 or nodes.max() >= n):
            bad = int(nodes.min()) if nodes.min() < 0 else int(nodes.max())
            raise InputError(f"{source.what} names node {bad}: nodes are numbered from 0 to {n - 1}.")
    keep = row != column
    if weight is not None:
        wrong = ~((weight >= 0) & np.isfinite(weight))
        if wrong.any():
            e = int(wrong.argmax())
            raise InputError(
                f"{source.what}: the edge of nodes {row[e]} and {column[e]} has weight {weight[e]:g}: weights must be finite "
                "and not negative."
            )
        if not options.drop_loops:
            keep |= weight > 0
        keep &= weight > 0
    elif not options.drop_loops:
        keep[:] = True
    loops = keep & (row == column)
    if loops.any():
        raise InputError(
            f"{source.what} has a self-loop at node {row[loops.argmax()]}: remove it, or convert with --drop-loops."
        )
    if not keep.all():
        row, column, weight = row[keep], column[keep], None if weight is None else weight[keep]
    return Entries(row, column, weight, done)


def _bounds(cells: np.ndarray, n: int, memory: int) -> np.ndarray:
    """First rows of the buckets, and n: whole cells with about equally many entries."""
    total = int(cells.sum())
    most = max(memory // PER_ENTRY, total // MOST_BUCKETS + 1)
    bucket = np.maximum(np.cumsum(cells) - 1, 0) // most
    # local row numbers and their mirrored ones have 32 bits, and counts of rows are in memory, too
    shift = min(30, max((memory // PER_ROW).bit_length() - 1, (n // MOST_BUCKETS).bit_length()))
    bucket += (np.arange(cells.size) << CELL) >> shift
    first = np.flatnonzero(np.diff(bucket, prepend=-1)) << CELL
    return np.append(first, n)


def _distribute(
    chunks: Callable[[], Iterator[Entries]],
    bounds: np.ndarray,
    buckets: list[Path],
    record: np.dtype[Any],
    report: ProgressCallback,
) -> None:
    """Put both directions of every entry into the bucket of its row; a row of the mirrored one is stored as ``~row``."""
    with ExitStack() as files:
        handles = [files.enter_context(open(bucket, "wb")) for bucket in buckets]
        for step, chunk in enumerate(chunks()):
            report(Progress("distributing edges", step + 1, None, chunk.done))
            for row, column, mirrored in ((chunk.row, chunk.column, False), (chunk.column, chunk.row, True)):
                # 16 bits sort by counting
                bucket = (np.searchsorted(bounds, row, side="right") - 1).astype(np.uint16)
                order = np.argsort(bucket, kind="stable")
                records = np.empty(row.size, record)
                local = (row - bounds[bucket])[order]
                records["row"] = ~local if mirrored else local
                records["column"] = column[order]
                if "weight" in (record.names or ()):
                    records["weight"] = 1.0 if chunk.weight is None else chunk.weight[order]
                ends = np.cumsum(np.bincount(bucket, minlength=len(buckets)))
                for b in np.unique(bucket):
                    records[ends[b - 1] if b else 0 : ends[b]].tofile(handles[b])


def _rows(
    records: np.ndarray, first: int, last: int, n: int, source: EntrySource, options: SortOptions
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Counts, columns and weights of a bucket's rows, sorted, each edge once."""
    mirrored = records["row"] < 0
    row = np.where(mirrored, ~records["row"], records["row"])
    weight = records["weight"] if "weight" in (records.dtype.names or ()) else np.ones(records.size, np.int8)
    shape = (last - first, n)
    if source.is_matrix:
        listed, other = (
            # adds entries that are listed twice
            sp.csr_array(sp.coo_array((weight[e].astype(np.float64), (row[e], records["column"][e])), shape=shape))
            for e in (~mirrored, mirrored)
        )
        matrix = _mirrored(listed, other, first, source, options)
    else:
        matrix = _distinct_edges(row, records["column"], weight, shape, first, source, options)
    return np.diff(matrix.indptr), matrix.indices, matrix.data


def _mirrored(listed: Any, other: Any, first: int, source: EntrySource, options: SortOptions) -> sp.csr_array:
    """Rows of a matrix from its own entries and from those of its transpose."""
    larger = sp.csr_array(listed.maximum(other))
    larger.sort_indices()
    if options.symmetrize:
        return larger
    gap = sp.csr_array(abs(listed - other))
    excess = sp.csr_array(gap - source.rounding * larger).tocoo()
    if excess.nnz and excess.data.max() > 0:
        i, j = (int(index[excess.data.argmax()]) for index in excess.coords)
        raise InputError(
            f"{source.what} is directed: the weight from node {i + first} to {j} is {listed[i, j]:g} and back "
            f"{other[i, j]:g}: convert with --symmetrize, which takes the larger."
        )
    if gap.nnz:
        mean = sp.csr_array((listed + other) / 2)
        mean.sort_indices()
        return mean
    return larger


def _distinct_edges(
    row: np.ndarray, column: np.ndarray, weight: np.ndarray, shape: tuple[int, int], first: int, source: EntrySource,
    options: SortOptions,
) -> sp.csr_array:  # fmt: skip
    """Rows of edges that may be listed more than once, in one direction or both."""
    # one key sorts faster than two, and without weights it is all there is
    key = row.astype(np.int64) * shape[1] + column
    if weight.dtype == np.int8:
        key.sort()
    else:
        order = np.argsort(key)
        key, weight = key[order], weight[order]
    new = np.ones(key.size, bool)
    new[1:] = key[1:] != key[:-1]
    starts = np.flatnonzero(new)
    largest = np.maximum.reduceat(weight, starts) if key.size else weight
    if not options.symmetrize and weight.dtype != np.int8 and key.size:
        smallest = np.minimum.reduceat(weight, starts)
        differs = largest - smallest > source.rounding * largest
        if differs.any():
            e = int(differs.argmax())
            i, j = divmod(int(key[starts[e]]), shape[1])
            raise InputError(
                f"{source.what} lists the edge of nodes {i + first} and {j} with weights {smallest[e]:g} and {largest[e]:g}: "
                "correct it, or convert with --symmetrize, which takes the larger."
            )
    row, column = np.divmod(key[starts], shape[1])
    indptr = np.concatenate([[0], np.cumsum(np.bincount(row, minlength=shape[0]))])
    return sp.csr_array((largest, column, indptr), shape=shape)
