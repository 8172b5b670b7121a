"""Write a graph to disk row by row, never more than some of them in memory."""

from __future__ import annotations

import os
from pathlib import Path
from typing import IO, Any

import numpy as np
import scipy.sparse as sp

from nareg._storage.array_files import NPY_HEADER, npy_header
from nareg._storage.folders import atomic_folder
from nareg._storage.graph_layout import INDEX, PARTS, GraphLayout, index_type
from nareg.errors import InputError

#: Entries of a matrix in memory that are written at a time.
PIECE = 2**22


class GraphWriter:
    """Context manager that writes a graph's folder from rows in order; the folder appears when all are there.

    Parameters
    ----------
    path : path
        The folder. A graph that is there is replaced; anything else is refused.
    n_nodes : int, optional
        May be set as an attribute before the first rows.
    dtype : {float32, float64} or None
        Type of the stored weights. None where all are one; weights that prove to be all one are left out, too.

    Examples
    --------
    >>> import numpy as np, pathlib, tempfile
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "pair.graph"
    >>> with GraphWriter(path, 2, dtype=None) as writer:
    ...     writer.append(np.array([1]), np.array([1]))
    ...     writer.append(np.array([1]), np.array([0]))
    >>> sorted(file.name for file in path.iterdir())
    ['graph.json', 'indices.npy', 'indptr.npy']
    """

    def __init__(self, path: str | os.PathLike[str], n_nodes: int = 0, *, dtype: Any = None) -> None:
        self.n_nodes = n_nodes
        self._weights = None if dtype is None else _weight_type(dtype)
        self._folder = atomic_folder(path, mark=INDEX)
        self._rows = self._entries = 0
        self._all_one = True

    def __enter__(self) -> GraphWriter:
        #: Where files that are not the graph's own may lie until the end.
        self.draft: Path = self._folder.__enter__()
        names = [name for name in PARTS if name != "weights" or self._weights is not None]
        self._files: dict[str, IO[bytes]] = {}
        try:
            for name in names:
                self._files[name] = open(self.draft / f"{name}.npy", "wb")
                self._files[name].write(bytes(NPY_HEADER))
        except BaseException as error:
            self.__exit__(type(error), error, error.__traceback__)
            raise
        self._files["indptr"].write(np.zeros(1, "<i8").tobytes())
        return self

    def append(self, counts: np.ndarray, indices: np.ndarray, weights: np.ndarray | None = None) -> None:
        """The next rows: their numbers of entries, and the entries' columns (rising in each row) and weights."""
        if self._rows + counts.size > self.n_nodes:
            raise InputError(f"{self._rows + counts.size} rows were written for n_nodes {self.n_nodes}: append one per node.")
        starts = self._entries + np.cumsum(counts, dtype="<i8")
        starts.tofile(self._files["indptr"])
        indices.astype(index_type(self.n_nodes), copy=False).tofile(self._files["indices"])
        if self._weights is not None:
            assert weights is not None
            self._all_one = self._all_one and bool((weights == 1).all())
            _cast(weights, self._weights).tofile(self._files["weights"])
        self._rows += counts.size
        self._entries += indices.size

    def finish(self, *, metric: str = "euclidean", **more: np.ndarray) -> None:
        """Write what is left: empty rows at the end, ``coordinates`` and ``names``, and ``graph.json``."""
        self.append(np.zeros(self.n_nodes - self._rows, np.int64), np.zeros(0, np.int64), np.zeros(0))
        for name, array in more.items():
            np.save(self.draft / f"{name}.npy", array, allow_pickle=False)
        sizes = {f"{name}.npy": (self.draft / f"{name}.npy").stat().st_size for name in more}
        if self._weights is not None and self._all_one:
            self._weights = None
            self._files.pop("weights").close()
            (self.draft / "weights.npy").unlink()
        written = GraphLayout(self.n_nodes, self._entries // 2, self._weights, metric, sizes)
        for name, (kind, count) in written.arrays.items():
            self._files[name].seek(0)
            self._files[name].write(npy_header(kind, (count,)))
            self._files[name].close()
        written.write(self.draft)

    def __exit__(self, kind: Any, raised: Any, trace: Any) -> None:
        try:
            if kind is None and not (self.draft / INDEX).exists():
                self.finish()
        except BaseException as error:
            self._folder.__exit__(type(error), error, error.__traceback__)
            raise
        finally:
            for file in self._files.values():
                file.close()
        self._folder.__exit__(kind, raised, trace)


def _weight_type(dtype: Any) -> np.dtype[Any]:
    try:
        kind = np.dtype(dtype)
    except TypeError:
        kind = np.dtype(object)
    if kind not in (np.float32, np.float64):
        raise InputError(f"dtype is {dtype!r}: weights are stored as float32 or float64.")
    return kind.newbyteorder("<")


def _cast(weights: np.ndarray, kind: np.dtype[Any]) -> np.ndarray:
    """Weights in another type, in which none may vanish or overflow."""
    with np.errstate(over="ignore", under="ignore"):
        cast = weights.astype(kind, copy=False)
    bad = ~np.isfinite(cast) | (cast <= 0)
    if bad.any():
        raise InputError(f"an edge has weight {weights[bad][0]:g}, which {kind.name} cannot hold: store weights as float64.")
    return cast


def save(
    path: str | os.PathLike[str],
    adjacency: sp.csr_array,
    *,
    dtype: Any = np.float64,
    metric: str = "euclidean",
    coordinates: np.ndarray | None = None,
    names: tuple[str, ...] | None = None,
) -> None:
    """Write a checked adjacency in memory; weights that are all one are left out."""
    starts = np.asarray(adjacency.indptr, dtype=np.int64)
    with GraphWriter(path, adjacency.shape[0], dtype=dtype) as writer:
        first = 0
        while first < adjacency.shape[0]:
            last = max(int(np.searchsorted(starts, starts[first] + PIECE, side="right")) - 1, first + 1)
            part = slice(starts[first], starts[last])
            writer.append(np.diff(starts[first : last + 1]), adjacency.indices[part], adjacency.data[part])
            first = last
        more = {"coordinates": coordinates, "names": None if names is None else np.array(names)}
        writer.finish(metric=metric, **{name: array for name, array in more.items() if array is not None})
