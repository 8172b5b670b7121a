"""An imputer: gaps are filled from the neighbors, readings stay as they are."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np

from nareg._core import checks
from nareg.estimators._filtered import FilterTransformer, one_weight
from nareg.graph import Graph
from nareg.typing import Sparse


class GraphInterpolator(FilterTransformer):
    """X is (times, stations): fill each time's gaps (NaN) from the neighbors, and keep every reading.

    ``fit`` removes each station's mean and chooses one weight w for all stations; ``transform`` solves
    ``(C + w^2 L) x = C y`` for every row, with C zero in gaps, as :func:`nareg.filters.interpolate` does, puts the means back,
    and takes x in the gaps.

    Parameters
    ----------
    graph : Graph, or (N, N) sparse or dense adjacency, optional
        One node per column of X. Default: each station is joined with the seven whose readings in ``fit`` correlate most with
        its own.
    weights : "gcv" or positive number
        The weight w; a larger one smooths over more noise. ``"gcv"`` chooses it by generalized cross-validation.
    random_state : int, Generator, RandomState or None
        Draws held-out readings in ``score``; None is a fixed seed.

    Attributes
    ----------
    graph_ : Graph
    weights_ : float
        The weight w.
    means_ : (N,) array
        Station means. That of a station without any reading is the mean of the others.
    n_features_in_ : int
    feature_names_in_ : (N,) array
        Where X has names.

    Raises
    ------
    InputError
        A ``ValueError``: if the graph does not fit X, or the weight is no positive number.

    Notes
    -----
    ``score`` against a clean field counts all cells, gaps and readings. A part of the graph without any reading at a time is at
    its station means.

    Examples
    --------
    >>> import numpy as np, nareg
    >>> from nareg.estimators import GraphInterpolator
    >>> X = np.array([[1.0, np.nan, 3.0], [2.0, 3.0, 4.0], [3.0, 4.0, np.nan]])
    >>> GraphInterpolator(nareg.graphs.grid((3,)), weights=0.1).fit_transform(X).round(2)
    array([[1., 2., 3.],
           [2., 3., 4.],
           [3., 4., 5.]])
    """

    def __init__(
        self,
        graph: Graph | Sparse | np.ndarray | None = None,
        *,
        weights: float | Literal["gcv"] = "gcv",
        random_state: Any = None,
    ) -> None:
        self.graph, self.weights, self.random_state = graph, weights, random_state

    def _weigh(self, anomalies: np.ndarray, observed: np.ndarray | None, y: Any) -> None:
        if isinstance(self.weights, str):
            checks.choice("weights", self.weights, ("gcv",))
            self.weights_ = float(one_weight(self.graph_, anomalies, observed).weights[0])
        else:
            self.weights_ = checks.number("weights", self.weights, low=0, strict=True)

    @property
    def _weights(self) -> float:
        return self.weights_

    def _estimate(self, values: np.ndarray, times: np.ndarray | None) -> np.ndarray:
        seen = np.isfinite(values)
        if seen.all():
            return values
        return np.where(seen, values, super()._estimate(values, times))
