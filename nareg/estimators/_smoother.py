"""The state-space model of space and time as an estimator."""

from __future__ import annotations

import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike

from nareg import spacetime
from nareg.errors import InputError
from nareg.estimators._base import CheckedReadings, FieldEstimator, network_of
from nareg.estimators._validation import generator_of
from nareg.graph import Graph
from nareg.spacetime import times as _times
from nareg.typing import Sparse


class SpaceTimeSmoother(FieldEstimator):
    """X is (times, stations), rows in the order of time: estimate each value from the readings before and after, gaps included.

    ``fit`` learns a state-space model from noisy readings (:func:`nareg.spacetime.fit`); ``transform`` smooths X with it, which
    may be the same readings or others. Times are the index of a pandas frame: dates (with a time zone: taken to UTC), ISO
    texts, or numbers. Rows of an array are 0, 1, 2, ...

    Parameters
    ----------
    graph : Graph, or (N, N) sparse or dense adjacency, optional
        One node per column of X; with coordinates correlations depend on distances. Default: each station is joined with the
        seven whose readings in ``fit`` correlate most with its own.
    noise : "estimate", number or (N,) array
        Noise variance(s), in the squared unit of X.
    dynamics : {"auto", "scalar", "diagonal", "modes", "graph", "full"}
        Form of the state's transition matrix.
    cycles : "auto", None or sequence of {"day", "year"}
        Smooth cycles that are removed and put back; they need dates.
    random_state : int, Generator, RandomState or None
        Draws held-out readings in ``fit`` and ``score``; None is a fixed seed.
    verbose : bool
        Print the progress of ``fit``.

    Attributes
    ----------
    graph_ : Graph
    model_ : SpaceTimeModel or SparseSpaceTimeModel
        With ``forecast``, ``stream``, ``noise`` and more.
    n_features_in_ : int
    feature_names_in_ : (N,) array
        Where X has names.

    Raises
    ------
    InputError
        A ``ValueError``: for times that repeat or are out of order, fewer than ten readings, or a graph that does not fit X.

    Warns
    -----
    DegenerateFitWarning
        If the likelihood of the readings has no maximum.

    Notes
    -----
    A row's estimate depends on the other rows of X. Transform whole stretches of time, and cross-validate by blocks
    (:class:`TimeBlockSplit`). Pass frames there: the index of a training set that misses a block shows the gap, which an array
    would close.

    Examples
    --------
    >>> import numpy as np, nareg
    >>> from nareg.estimators import SpaceTimeSmoother
    >>> rng = np.random.default_rng(0)
    >>> clean = np.cumsum(0.1 * rng.standard_normal((300, 1)), axis=0) + np.zeros(9)
    >>> X = clean + 0.5 * rng.standard_normal((300, 9))
    >>> smoother = SpaceTimeSmoother(nareg.graphs.grid((3, 3))).fit(X)
    >>> bool(smoother.score(X, clean) > -0.15**2)  # the noise alone gives -0.25
    True
    """

    def __init__(
        self,
        graph: Graph | Sparse | np.ndarray | None = None,
        *,
        noise: ArrayLike | Literal["estimate"] = "estimate",
        dynamics: Literal["auto", "scalar", "diagonal", "modes", "graph", "full"] = "auto",
        cycles: str | Iterable[str] | None = "auto",
        random_state: Any = None,
        verbose: bool = False,
    ) -> None:
        self.graph, self.noise, self.dynamics, self.cycles = graph, noise, dynamics, cycles
        self.random_state, self.verbose = random_state, verbose

    def _learn(self, samples: CheckedReadings, y: Any) -> None:
        readings = samples.values.T
        self.graph_ = network_of(self.graph, readings, getattr(self, "feature_names_in_", None))
        self.model_ = spacetime.fit(
            self.graph_, readings, times=_increasing(samples.times), noise=self.noise, dynamics=self.dynamics,
            cycles=self.cycles, rng=generator_of(self.random_state), progress=print if self.verbose else None,
        )  # fmt: skip

    def _estimate(self, values: np.ndarray, times: np.ndarray | None) -> np.ndarray:
        # an array's rows count on from 0, as in the fit, whatever their number
        return self.model_.smooth(values.T, times=_times.checked(_increasing(times), len(values))).x.T

    def __getstate__(self) -> dict[str, Any]:
        """Plain values: the model as the bytes of its file, which other versions of nareg may read."""
        state: dict[str, Any] = dict(super().__getstate__())
        if "model_" in state:
            with tempfile.TemporaryDirectory() as folder:
                path = Path(folder, "model.npz")
                state["model_"].save(path)
                state["model_"] = path.read_bytes()
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        if isinstance(state.get("model_"), bytes):
            with tempfile.TemporaryDirectory() as folder:
                path = Path(folder, "model.npz")
                path.write_bytes(state["model_"])
                state = {**state, "model_": spacetime.load(path)}
        super().__setstate__(state)


def _increasing(times: np.ndarray | None) -> np.ndarray | None:
    """Times, refused where they are out of order in the words of a frame's user."""
    if times is not None and not (times[1:] > times[:-1]).all():
        i = int(np.flatnonzero(~(times[1:] > times[:-1]))[0]) + 1
        raise InputError(f"the index of X does not increase at row {i}, {times[i]}: sort X by time and merge duplicates.")
    return times
