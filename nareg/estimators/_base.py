"""What the estimators share: checks of X, times from its index, tags, the score, and the graph."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator, OneToOneFeatureMixin, TransformerMixin
from sklearn.utils.validation import check_array, check_is_fitted, validate_data

from nareg._core import checks
from nareg.errors import InputError
from nareg.estimators._validation import generator_of, score_of
from nareg.graph import Graph
from nareg.spacetime import ISO


@dataclass(frozen=True, eq=False)
class CheckedReadings:
    """Readings (times, stations) as float64, NaN where missing; the dtype they came in; their times, if they have any."""

    values: np.ndarray
    dtype: np.dtype
    times: np.ndarray | None


def times_of(X: Any) -> np.ndarray | None:
    """Dates (UTC) or numbers in the index of a pandas frame; None for an array, and for an index of anything else.

    Periods and ISO texts, as an index of a file is where nobody parsed it, are dates.
    """
    index: Any = getattr(X, "index", None)
    if not hasattr(index, "to_numpy"):
        return None
    if hasattr(index, "to_timestamp"):
        index = index.to_timestamp()
    elif index.dtype.kind not in "iufM" and len(index) and all(isinstance(text, str) and ISO.match(text) for text in index):
        import pandas as pd

        dates = pd.to_datetime(index, utc=True, format="ISO8601", errors="coerce")
        if dates.hasnans:
            text = index[int(np.flatnonzero(dates.isna())[0])]
            raise InputError(f"the index of X holds {text!r}, no time of ISO 8601: write it as 2024-01-31 10:00+01:00.")
        index = dates
    if getattr(index, "tz", None) is not None:
        index = index.tz_convert("UTC").tz_localize(None)
    times = index.to_numpy()
    if times.dtype.kind == "M":
        return np.asarray(times)
    return np.asarray(times, dtype=float) if times.dtype.kind in "iuf" else None


def refuse_columns_of_no_readings(X: Any) -> None:
    """Refuse a pandas or polars frame with a column of times or texts, which scikit-learn would try to read as numbers."""
    for name, dtype in zip(getattr(X, "columns", ()), getattr(X, "dtypes", ()), strict=False):
        numeric = dtype.is_numeric() if hasattr(dtype, "is_numeric") else getattr(dtype, "kind", "f") in "iufbcO"
        texts = getattr(dtype, "kind", "") == "O" and any(isinstance(value, str) for value in X[name].head(10))
        if not numeric or texts:
            raise InputError(
                f"X, column {name!r}: its type is {dtype}, and every column is a station's readings. Times belong in the index "
                f"(X.set_index({name!r}) in pandas)."
            )


class StationTransformer(OneToOneFeatureMixin, TransformerMixin, BaseEstimator, ABC):
    """X is (times, stations), NaN where missing: a transformer that keeps this shape.

    A subclass learns in ``_learn`` and transforms in ``_estimate``.
    """

    #: Stations and times that a fit needs.
    _least_stations = 2
    _least_times = 2

    def fit(self, X: ArrayLike, y: ArrayLike | None = None) -> Self:
        """Learn from readings.

        Parameters
        ----------
        X : (times, stations) array or frame
            NaN where missing.
        y : ignored, unless the class says otherwise

        Returns
        -------
        self
        """
        self._learn(self._checked(X, reset=True), y)
        return self

    def transform(self, X: ArrayLike) -> np.ndarray:
        """Transform readings.

        Parameters
        ----------
        X : (times, stations) array or frame
            NaN where missing.

        Returns
        -------
        (times, stations) array
            In the unit of X; a frame after ``set_output(transform="pandas")``. float32 for float32.
        """
        check_is_fitted(self)
        samples = self._checked(X)
        return self._estimate(samples.values, samples.times).astype(samples.dtype, copy=False)

    def _same_stations(self, X: ArrayLike) -> np.ndarray:
        """The values of X, which has the stations of the fit."""
        check_is_fitted(self)
        refuse_columns_of_no_readings(X)
        values: np.ndarray = check_array(X, dtype=[np.float64, np.float32], ensure_all_finite="allow-nan")
        if values.shape[1] != self.n_features_in_:
            raise InputError(f"X has {values.shape[1]} columns but the fit had {self.n_features_in_}: pass the same stations.")
        return values

    def _checked(self, X: Any, *, reset: bool = False) -> CheckedReadings:
        least = {"ensure_min_samples": self._least_times, "ensure_min_features": self._least_stations} if reset else {}
        refuse_columns_of_no_readings(X)
        values = validate_data(self, X, reset=reset, dtype=[np.float64, np.float32], ensure_all_finite="allow-nan", **least)
        return CheckedReadings(values.astype(np.float64), values.dtype, times_of(X))

    @abstractmethod
    def _learn(self, samples: CheckedReadings, y: Any) -> None:
        """Learn from checked readings."""

    @abstractmethod
    def _estimate(self, values: np.ndarray, times: np.ndarray | None) -> np.ndarray:
        """What ``transform`` returns, (times, stations) as float64."""

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags


class FieldEstimator(StationTransformer):
    """X is (times, stations): ``transform`` estimates the field at every time and station, and ``score`` judges it."""

    def inverse_transform(self, X: ArrayLike) -> ArrayLike:
        """X as it is: an estimate has the unit of the readings, and noise is not put back.

        So a pipeline's ``inverse_transform`` puts back what its first steps removed, such as means and cycles.

        Parameters
        ----------
        X : (times, stations) array or frame

        Returns
        -------
        X
        """
        self._same_stations(X)
        return X

    def score(self, X: ArrayLike, y: ArrayLike | None = None) -> float:
        """Negative mean squared error; larger is better.

        Parameters
        ----------
        X : (times, stations) array or frame
        y : (times, stations) array or frame, optional
            The clean field, NaN where it is not known. Without it a fifth of the readings is hidden, drawn by ``random_state``,
            and the estimate is compared with them. Their noise is part of that error, the same for every estimator.

        Returns
        -------
        float
            In the squared unit of X.
        """
        check_is_fitted(self)
        samples = self._checked(X)
        rng = generator_of(getattr(self, "random_state", None))
        return score_of(lambda values: self._estimate(values, samples.times), samples.values, y, rng)


#: Neighbors per station of the graph that is built from the readings.
NEIGHBORS = 7


def network_of(graph: Any, anomalies: np.ndarray, names: Sequence[str] | None) -> Graph:
    """The graph of the stations of anomalies (N, T); ``names`` are those of X's columns, if they have any."""
    if graph is None:
        return by_correlation(anomalies)
    if not isinstance(graph, Graph):
        graph = Graph(graph)
    n = anomalies.shape[0]
    if graph.n_nodes != n:
        hint = " rows of X are times, columns are stations: pass X.T" if graph.n_nodes == anomalies.shape[1] else ""
        raise InputError(f"graph has {graph.n_nodes} nodes but X has {n} columns:{hint or ' pass one column per station'}.")
    if graph.names is not None and names is not None:
        given = [str(name) for name in names]
        if given != list(graph.names) and set(given) == set(graph.names):
            raise InputError("X has the graph's stations in another order: pass X[list(graph.names)].")
    return graph


def by_correlation(anomalies: np.ndarray) -> Graph:
    """Join each station with the seven others whose readings (N, T), NaN where missing, correlate most with its own.

    The distance of two stations is ``sqrt(2 - 2 r)``, which is Euclidean between standardized series, with r over the times at
    which both read. The weight of an edge is ``exp(-d^2 / mean d^2)``, the mean over all pairs of neighbors.
    """
    n = anomalies.shape[0]
    checks.dense_size("a graph of correlations", n, copies=3, alternative="pass graph, as Graph.from_knn makes it")
    squares = 2.0 - 2.0 * _correlations(anomalies)
    np.fill_diagonal(squares, np.inf)
    k = min(NEIGHBORS, n - 1)
    near = np.argsort(squares, axis=1, kind="stable")[:, :k]
    chosen = np.take_along_axis(squares, near, axis=1)
    weights = np.exp(-chosen / (chosen.mean() or 1.0))
    one_way = sp.csr_array((weights.ravel(), (np.repeat(np.arange(n), k), near.ravel())), shape=(n, n))
    return Graph(one_way.maximum(one_way.T))


def _correlations(anomalies: np.ndarray) -> np.ndarray:
    """(N, N) correlations over common times; zero where a station does not vary or two never read together."""
    seen = np.isfinite(anomalies)
    present = seen.astype(float)
    counts = present.sum(axis=1, keepdims=True)
    filled = np.where(seen, anomalies, 0.0)
    filled = np.where(seen, filled - filled.sum(axis=1, keepdims=True) / np.maximum(counts, 1), 0.0)
    largest = float(np.abs(filled).max(initial=0.0))
    if largest > 0:
        filled = filled / largest  # squares neither overflow nor vanish
    power = filled**2 @ present.T
    scale = np.sqrt(power * power.T)
    r = np.divide(filled @ filled.T, scale, out=np.zeros_like(scale), where=scale > 0)
    return np.clip((r + r.T) / 2, -1.0, 1.0)
