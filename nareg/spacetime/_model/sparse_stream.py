"""Streams of large networks: a Kalman filter whose covariances are kept on the pattern of a sparse factor."""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import numpy as np

from nareg._solvers.threads import one_thread
from nareg.spacetime._model.base_stream import BaseStream, alone
from nareg.spacetime._sparse.markov import STARTING, MarkovFilter, Separators

if TYPE_CHECKING:
    from nareg.spacetime._model.sparse import SparseSpaceTimeModel

#: Residual of the solve for the mean that a stream starts from.
TOL = 1e-6


def begin(model: SparseSpaceTimeModel, y: np.ndarray, row: int, robust: float | None, pool: ThreadPoolExecutor) -> SparseStream:
    """A stream whose last step is ``row``, after the last readings (T, N) in the model's unit, without mean and cycles."""
    from nareg.spacetime._sparse.fitting import mean_of

    process = model.process
    stream = SparseStream(model, row, robust)
    y = y[-model.memory :]
    weights = np.isfinite(y) / process.noise
    early = max(len(y) - int(STARTING / stream.filter.pattern.multiplications) - 1, 0)
    if early:
        shares = process.rho ** (2.0 * np.arange(early)[::-1])
        coverage = shares @ weights[:early] / shares.sum()
        stream.filter.settle(mean_of(y[:early], process, pool, TOL)[-1], coverage)
    for k in range(early, len(y)):
        if k:
            stream.filter.predict()
        stream.filter.correct(y[k], weights[k])
    return stream


class SparseStream(BaseStream):
    """A filter that continues after a large model's readings; :meth:`SparseSpaceTimeModel.stream` makes it.

    An update takes a sparse factor and entries of its inverse; memory stays the same. Means and standard deviations are those
    of a Kalman filter within a few percent, through gaps, outages and new stations.

    Attributes
    ----------
    model : SparseSpaceTimeModel
    """

    model: SparseSpaceTimeModel

    def __init__(
        self, model: SparseSpaceTimeModel, row: int, robust: float | None, order: np.ndarray | None = None,
        power: int | None = None,
    ):  # fmt: skip
        super().__init__(model, row, robust)
        self.filter = MarkovFilter.prior(model.process, Separators(model.graph.adjacency, order, power))

    def _advance(self, steps: int) -> None:
        self.filter.predict(steps)

    def _expected(self) -> tuple[np.ndarray, np.ndarray]:
        return self.filter.mean, self.filter.variance

    def _offset_variance(self, var: np.ndarray) -> np.ndarray:
        model = self.model
        return model.offset_variance(var[None], model.grid.seconds_of(np.array([self._row])))[0]

    def _correct(self, y: np.ndarray) -> float:
        with one_thread():
            return self.filter.correct(y, np.isfinite(y) / self.model.process.noise)

    def _corrected(self) -> tuple[np.ndarray, np.ndarray]:
        return self.filter.mean, self.filter.variance

    @alone
    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the stream and its model, whole or not at all; :func:`load_stream` continues it."""
        from nareg.spacetime._model.sparse_store import save_stream

        save_stream(self, path)

    def snapshot(self) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
        """State of the stream beside its model: arrays, and plain facts."""
        state, pattern = self.filter, self.filter.pattern
        arrays = {
            "strikes": self._strikes, "mean": state.mean, "covariance": state.covariance, "order": pattern.elimination.order,
        }  # fmt: skip
        return arrays, {"row": self._row, "robust": self._robust, "power": pattern.power}

    def restore(self, a: dict[str, np.ndarray]) -> None:
        """Restore the rest of a :meth:`snapshot`, beyond the constructor's arguments."""
        self._strikes, self.filter.mean, self.filter.covariance = a["strikes"], a["mean"], a["covariance"]
