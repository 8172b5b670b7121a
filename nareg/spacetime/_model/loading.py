"""Models and streams that were saved."""

from __future__ import annotations

import os
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar

import numpy as np

from nareg.errors import InputError
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
    model = load_any(path)
    if isinstance(model, DirectionModels):
        raise InputError(f"{path} has two models, of the parts of directions: pass it to nareg apply.")
    return model


@dataclass(frozen=True, eq=False)
class DirectionModels:
    """Models of the parts to the east and to the north of directions.

    Attributes
    ----------
    signed : bool
        Whether directions are from -180 to 180.
    stretch : float
        Factor of the standard deviations.
    speeds : (N,) array or None
        Usual speed of each station, where vectors are as long as the speed; it stands for one that is missing.
    median_speed : float
        That of a vector of length 1.
    speed_column : str or None
        Column of the speeds beside the directions.
    """

    east: SpaceTimeModel | SparseSpaceTimeModel
    north: SpaceTimeModel | SparseSpaceTimeModel
    signed: bool
    stretch: float
    speeds: np.ndarray | None = None
    median_speed: float = 1.0
    speed_column: str | None = None
    format: ClassVar[str] = "nareg directions 1"

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write both models and their readings to an .npz file, whole or not at all; :func:`load_any` reads it."""
        arrays: dict[str, Any] = {}
        facts: dict[str, Any] = {"format": self.format, "signed": self.signed, "stretch": self.stretch}
        for part, model in (("east", self.east), ("north", self.north)):
            own, facts[part] = model.to_arrays()
            arrays |= {f"{part}_{name}": values for name, values in own.items()}
        if self.speeds is not None:
            arrays["speeds"] = self.speeds
            facts |= {"median_speed": self.median_speed, "speed_column": self.speed_column}
        store.write(path, arrays, facts)

    @classmethod
    def from_arrays(cls, a: dict[str, np.ndarray], facts: dict[str, Any]) -> DirectionModels:
        """The models from the arrays and facts of a file."""
        signed, stretch, makers = facts["signed"], store.number(facts, "stretch"), _makers()
        store.need(isinstance(signed, bool) and stretch > 0, "its signs or its factor are of another kind")
        parts = []
        for part in ("east", "north"):
            own = {name.removeprefix(f"{part}_"): values for name, values in a.items() if name.startswith(f"{part}_")}
            parts.append(makers[facts[part]["format"]](own, facts[part]))
        east, north = parts
        store.need(
            east.graph.names == north.graph.names and np.array_equal(east.times, north.times), "its parts contradict each other"
        )
        if "speeds" not in a:
            return cls(east, north, signed, stretch)
        median, column = store.number(facts, "median_speed"), facts["speed_column"]
        right = a["speeds"].shape == (len(east.readings),) and a["speeds"].dtype.kind == "f" and median > 0
        store.need(right and (column is None or isinstance(column, str)), "its speeds are of another kind")
        return cls(east, north, signed, stretch, a["speeds"], median, column)


def _makers() -> dict[str, store.Maker[SpaceTimeModel | SparseSpaceTimeModel]]:
    return {model.format: model.from_arrays for model in (SpaceTimeModel, SparseSpaceTimeModel)}


def load_any(path: str | os.PathLike[str]) -> SpaceTimeModel | SparseSpaceTimeModel | DirectionModels:
    """Read a model as :func:`load` does, or those of directions."""
    makers: dict[str, store.Maker[Any]] = {**_makers(), DirectionModels.format: DirectionModels.from_arrays}
    model: SpaceTimeModel | SparseSpaceTimeModel | DirectionModels = store.read(path, makers, "SpaceTimeModel.save")
    return model


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
