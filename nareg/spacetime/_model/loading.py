"""Models and streams that were saved."""

from __future__ import annotations

import os
from functools import partial
from typing import Any

import numpy as np

from nareg.spacetime._model import store
from nareg.spacetime._model.dense import SpaceTimeModel
from nareg.spacetime._model.sparse import SparseSpaceTimeModel
from nareg.spacetime._model.stream import SparseStream, Stream


def load(path: str | os.PathLike[str]) -> SpaceTimeModel | SparseSpaceTimeModel:
    """Read a model that :meth:`SpaceTimeModel.save` wrote.

    Raises
    ------
    InputError
        If the file does not exist, or is not a model.

    Examples
    --------
    >>> import numpy as np, nareg, pathlib, tempfile
    >>> rng = np.random.default_rng(0)
    >>> model = nareg.spacetime.fit(nareg.graphs.grid((2, 2)), rng.standard_normal((4, 60)), rng=rng)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     model.save(pathlib.Path(folder) / "model.npz")
    ...     model.stream().save(pathlib.Path(folder) / "stream.npz")
    ...     again = nareg.spacetime.load(pathlib.Path(folder) / "model.npz")
    ...     stream = nareg.spacetime.load_stream(pathlib.Path(folder) / "stream.npz")
    >>> bool(np.array_equal(model.smooth().x, again.smooth().x))
    True
    """
    makers: dict[str, store.Maker[SpaceTimeModel | SparseSpaceTimeModel]] = {
        model.format: model.from_arrays for model in (SpaceTimeModel, SparseSpaceTimeModel)
    }
    return store.read(path, makers, "SpaceTimeModel.save")


def load_stream(path: str | os.PathLike[str]) -> Stream | SparseStream:
    """Read a stream that :meth:`Stream.save` wrote; it continues as if it had never stopped. :func:`load` has an example.

    Raises
    ------
    InputError
        If the file does not exist, or is not a stream.
    """
    kinds: tuple[tuple[Any, Any], ...] = ((Stream, SpaceTimeModel), (SparseStream, SparseSpaceTimeModel))
    makers: dict[str, store.Maker[Stream | SparseStream]] = {
        stream.format: partial(_stream_of, stream, model) for stream, model in kinds
    }
    return store.read(path, makers, "Stream.save")


def _stream_of(stream: Any, model: Any, a: dict[str, np.ndarray], facts: dict[str, Any]) -> Any:
    """A stream of this kind, and its model, from the arrays and facts of a file."""
    return stream.from_arrays(model.from_arrays(a, facts), a, facts)
