"""The layout of a graph on disk: a folder ``NAME.graph`` of NumPy files and a small JSON.

===================  ==========================================================================================
``graph.json``       format, number of nodes and (undirected) edges, dtypes, and the size of every file in bytes
``indptr.npy``       (N + 1,) int64: row i has the entries ``indptr[i]`` to ``indptr[i + 1]``
``indices.npy``      (2M,) int32, or int64 from 2^31 nodes on: columns, rising in every row
``weights.npy``      (2M,) float32 or float64, above zero; absent if all are one
``coordinates.npy``  (N, d) float64, optional
``names.npy``        (N,) texts, optional
===================  ==========================================================================================

The matrix is the symmetric adjacency, both directions of every edge stored, without a diagonal. All numbers are
little-endian. In the first three files they start at byte 128, so that a reader of some rows can seek to them.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

import numpy as np

from nareg._storage.array_files import NPY_HEADER, npy_header
from nareg._storage.files import own_file
from nareg.errors import InputError

FORMAT = "nareg-graph-1"
#: File with the sizes; its presence marks a folder as a graph.
INDEX = "graph.json"
#: Arrays of one dimension.
PARTS = ("indptr", "indices", "weights")


@dataclass(frozen=True)
class GraphLayout:
    """What ``graph.json`` says.

    ``weights`` is None where all edges have weight one; ``more`` is the size in bytes of each further file.
    """

    n_nodes: int
    n_edges: int
    weights: np.dtype[Any] | None
    metric: str = "euclidean"
    more: dict[str, int] = field(default_factory=dict)

    @property
    def n_entries(self) -> int:
        """Stored entries: both directions of every edge."""
        return 2 * self.n_edges

    @property
    def arrays(self) -> dict[str, tuple[np.dtype[Any], int]]:
        """Type and length of each array of one dimension."""
        parts = {"indptr": (np.dtype("<i8"), self.n_nodes + 1), "indices": (index_type(self.n_nodes), self.n_entries)}
        return parts if self.weights is None else {**parts, "weights": (self.weights, self.n_entries)}

    @property
    def sizes(self) -> dict[str, int]:
        """Bytes of every file but ``graph.json``."""
        return {f"{n}.npy": NPY_HEADER + kind.itemsize * count for n, (kind, count) in self.arrays.items()} | self.more

    def write(self, folder: Path) -> None:
        """Write ``graph.json``."""
        content = {
            "format": FORMAT,
            "n_nodes": self.n_nodes,
            "n_edges": self.n_edges,
            "dtypes": {name: kind.str for name, (kind, _) in self.arrays.items()},
            "metric": self.metric,
            "bytes": self.sizes,
        }
        (folder / INDEX).write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")


def index_type(n_nodes: int) -> np.dtype[Any]:
    """Type of column indices."""
    return np.dtype("<i4" if n_nodes <= np.iinfo(np.int32).max else "<i8")


def opened(folder: Path) -> tuple[GraphLayout, dict[str, IO[bytes]]]:
    """The layout, and every file beside it, open by the name of its array.

    Open files stay those of one graph, also while another one takes its place: all are opened in one folder, by its number.

    Raises
    ------
    InputError
        If a file is missing, cut off, of another type, or a link; the message names it.
    """
    with ExitStack() as around, ExitStack() as stack:
        try:
            number = os.open(folder, os.O_RDONLY) if os.open in os.supports_dir_fd else None
        except OSError:
            raise _no_graph(folder) from None
        if number is not None:
            around.callback(os.close, number)

        def open_one(name: str) -> IO[bytes]:
            path = folder / name if number is None else Path(name)
            return stack.enter_context(os.fdopen(own_file(path, folder=number), "rb", buffering=0))

        layout = _read(folder, open_one)
        files: dict[str, IO[bytes]] = {}
        for name, size in layout.sizes.items():
            try:
                file = files[name.removesuffix(".npy")] = open_one(name)
                has = f"has {os.fstat(file.fileno()).st_size} bytes"
            except FileNotFoundError:
                has = "is missing"
            except OSError as error:
                raise InputError(f"{folder / name}: {error.strerror}: put the file itself there, or convert again.") from None
            if has != f"has {size} bytes":
                raise InputError(f"{folder / name} {has}, {size} bytes are expected: the copy is incomplete, convert again.")
        for name, (kind, count) in layout.arrays.items():
            if files[name].read(NPY_HEADER) != npy_header(kind, (count,)):
                raise InputError(f"{folder / name}.npy has another header than ({count},) {kind.str}: convert again.")
        stack.pop_all()
    return layout, files


def _no_graph(folder: Path) -> InputError:
    return InputError(f"{folder} is not a graph folder (it has no {INDEX}): write one with `nareg convert`.")


def _read(folder: Path, open_one: Callable[[str], IO[bytes]]) -> GraphLayout:
    """What ``graph.json`` says, checked by itself."""
    damaged = f"{folder / INDEX} is damaged"
    try:
        with open_one(INDEX) as handle:
            content = json.loads(handle.read())
    except (FileNotFoundError, NotADirectoryError):
        raise _no_graph(folder) from None
    except OSError as error:
        raise InputError(f"{folder / INDEX}: {error.strerror}: put the file itself there, or convert again.") from None
    except ValueError as error:
        raise InputError(f"{damaged} ({type(error).__name__}): convert again.") from None
    if not isinstance(content, dict) or content.get("format") != FORMAT:
        version = content.get("format") if isinstance(content, dict) else content
        raise InputError(f"{folder / INDEX} has format {str(version)[:40]!r}, {FORMAT!r} is expected: convert again.")
    try:
        counts = content["n_nodes"], content["n_edges"]
        kinds, sizes, metric = dict(content["dtypes"]), dict(content["bytes"]), content["metric"]
    except (KeyError, TypeError, ValueError) as error:
        raise InputError(f"{damaged} ({error!r}): convert again.") from None
    if any(type(count) is not int or not 0 <= count < 2**56 for count in counts) or counts[0] == 0:
        raise InputError(f"{damaged} (n_nodes {counts[0]!r}, n_edges {counts[1]!r}): convert again.")
    if kinds.get("weights") not in (None, "<f4", "<f8") or any(type(size) is not int for size in sizes.values()):
        raise InputError(f"{damaged} (dtypes or bytes): convert again.")
    weights = np.dtype(kinds["weights"]) if "weights" in kinds else None
    more = {name: size for name, size in sizes.items() if name in ("coordinates.npy", "names.npy")}
    layout = GraphLayout(*counts, weights, metric if isinstance(metric, str) else "", more)
    expected = {name: kind.str for name, (kind, _) in layout.arrays.items()}
    if kinds != expected or sizes != layout.sizes:
        raise InputError(f"{damaged} (its dtypes or bytes do not fit {counts[0]} nodes and {counts[1]} edges): convert again.")
    return layout
