"""The imputer keeps readings and fills gaps with the interpolated field."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.impute import SimpleImputer

from nareg.errors import InputError
from nareg.estimators import GraphInterpolator


def test_readings_stay_bit_for_bit(grid, waves, rng):
    X = np.where(rng.random(waves.shape) < 0.2, np.nan, waves)
    x = GraphInterpolator(grid).fit_transform(X)
    seen = np.isfinite(X)
    np.testing.assert_array_equal(x[seen], X[seen])
    assert np.isfinite(x).all()
    np.testing.assert_array_equal(GraphInterpolator(grid).fit(X).transform(waves), waves)


def test_gaps_are_the_dense_solution(grid, waves, rng):
    X = np.where(rng.random(waves.shape) < 0.2, np.nan, waves)
    fitted = GraphInterpolator(grid, weights=0.7).fit(X)
    L = grid.laplacian().toarray()
    x = fitted.transform(X)
    for row, out in zip(X, x, strict=True):
        seen = np.isfinite(row)
        if not seen.any():
            continue
        right = np.where(seen, row - fitted.means_, 0.0)
        field = np.linalg.solve(np.diag(seen.astype(float)) + 0.49 * L, right) + fitted.means_
        np.testing.assert_allclose(out[~seen], field[~seen], rtol=1e-8)


def test_gcv_chooses_a_larger_weight_for_more_noise(network, clean, rng):
    quiet, loud = (GraphInterpolator(network.graph).fit(clean + s * rng.standard_normal(clean.shape)) for s in (0.5, 5.0))
    assert 0 < quiet.weights_ < loud.weights_


@pytest.mark.slow
def test_it_beats_the_column_mean(network, clean, gappy):
    missing = gappy.isna().to_numpy()

    def error(imputer):
        return np.mean((np.asarray(imputer.fit_transform(gappy)) - clean.to_numpy())[missing] ** 2)

    assert error(GraphInterpolator(network.graph)) < 0.2 * error(SimpleImputer())
    assert error(GraphInterpolator()) < 0.3 * error(SimpleImputer())


@pytest.mark.parametrize("weights", [0.0, -1.0, np.nan, "auto", True])
def test_a_weight_that_cannot_work_is_refused(weights, grid, waves):
    with pytest.raises(InputError, match="weights is"):
        GraphInterpolator(grid, weights=weights).fit(waves)
