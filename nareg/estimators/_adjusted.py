"""Any estimator, run on readings without station means and seasonal cycle, which are put back."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.base import clone

from nareg.estimators._base import CheckedReadings, FieldEstimator
from nareg.estimators._cycle import SeasonalCycleRemover
from nareg.estimators._denoisers import NodeAdaptiveDenoiser


class SeasonallyAdjusted(FieldEstimator):
    """X is (times, stations): remove means and cycle, run an estimator on the rest, and add means and cycle back.

    As scikit-learn's ``TransformedTargetRegressor`` does for targets. ``score`` compares in the unit of X: y is the clean field
    as it is. A y of the shape of X in ``fit`` reaches the estimator without means and cycle, too.

    Parameters
    ----------
    estimator : transformer, optional
        Takes and returns (times, stations), as those of this module do. Default: ``NodeAdaptiveDenoiser()``.
    remover : transformer with inverse_transform, optional
        Default: ``SeasonalCycleRemover()``.
    random_state : int, Generator, RandomState or None
        Draws held-out readings in ``score``; None is a fixed seed.

    Attributes
    ----------
    estimator_, remover_ : estimators
        Fitted clones.
    n_features_in_ : int
    feature_names_in_ : (N,) array
        Where X has names.

    Examples
    --------
    >>> import numpy as np, nareg
    >>> from nareg.estimators import EdgeDenoiser, SeasonalCycleRemover, SeasonallyAdjusted
    >>> rng = np.random.default_rng(0)
    >>> clean = 10 * np.sin(2 * np.pi * np.arange(120) / 24)[:, None] + np.arange(9.0) + rng.standard_normal((120, 1))
    >>> X = clean + rng.standard_normal((120, 9))
    >>> denoiser = SeasonallyAdjusted(EdgeDenoiser(nareg.graphs.grid((3, 3))), remover=SeasonalCycleRemover(period=24)).fit(X)
    >>> bool(denoiser.score(X, clean) > -0.3)  # the noise alone gives -1
    True
    """

    def __init__(self, estimator: Any = None, *, remover: Any = None, random_state: Any = None) -> None:
        self.estimator, self.remover, self.random_state = estimator, remover, random_state

    def _learn(self, samples: CheckedReadings, y: Any) -> None:
        remover = SeasonalCycleRemover() if self.remover is None else self.remover
        estimator = NodeAdaptiveDenoiser() if self.estimator is None else self.estimator
        self.remover_ = clone(remover).fit(self._table(samples.values, samples.times))
        given = np.asarray(y)
        clean = self._rest(given.astype(float), samples.times) if given.shape == samples.values.shape else None
        self.estimator_ = clone(estimator).fit(self._rest(samples.values, samples.times), clean)

    def _estimate(self, values: np.ndarray, times: np.ndarray | None) -> np.ndarray:
        x = np.asarray(self.estimator_.transform(self._rest(values, times)))
        return np.asarray(self.remover_.inverse_transform(self._table(x, times)))

    def _rest(self, values: np.ndarray, times: np.ndarray | None) -> Any:
        """Values without means and cycle."""
        return self._table(np.asarray(self.remover_.transform(self._table(values, times))), times)

    def _table(self, values: np.ndarray, times: np.ndarray | None) -> Any:
        """Values with the times and names of X, for estimators that read them."""
        names = getattr(self, "feature_names_in_", None)
        if times is None and names is None:
            return values
        import pandas as pd

        return pd.DataFrame(values, index=times, columns=names)
