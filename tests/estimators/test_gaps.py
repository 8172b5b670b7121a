"""Gaps: a value for every time and station, whatever is missing."""

from __future__ import annotations

import numpy as np
import pytest

import nareg
from nareg.errors import InputError
from nareg.estimators import EdgeDenoiser, GraphInterpolator, NodeAdaptiveDenoiser, SeasonallyAdjusted, SpaceTimeSmoother

ALL = [
    NodeAdaptiveDenoiser(), NodeAdaptiveDenoiser(design="sure"), NodeAdaptiveDenoiser(design="gcv"), EdgeDenoiser(),
    GraphInterpolator(), GraphInterpolator(weights=0.3), SeasonallyAdjusted(), SpaceTimeSmoother(),
]  # fmt: skip
EACH = pytest.mark.parametrize("estimator", ALL, ids=lambda e: f"{type(e).__name__}-{getattr(e, 'design', '')}")


@pytest.mark.slow
@EACH
@pytest.mark.parametrize("missing", ["some", "a station", "a time", "a station and a time"])
@pytest.mark.filterwarnings("ignore::nareg.errors.DegenerateFitWarning")
def test_nothing_is_missing_afterwards(estimator, missing, grid, waves, rng):
    X = waves.copy()
    if missing == "some":
        X[rng.random(X.shape) < 0.3] = np.nan
    if "station" in missing:
        X[:, 4] = np.nan
    if "time" in missing:
        X[7] = np.nan
    if not isinstance(estimator, SeasonallyAdjusted):
        estimator = estimator.set_params(graph=grid)
    x = estimator.fit_transform(X)
    assert np.isfinite(x).all()
    seen = np.isfinite(X)
    errors = np.abs(x - waves)[~seen & seen.any(axis=1, keepdims=True) & seen.any(axis=0)]
    assert errors.size == 0 or errors.mean() < 1.5  # the field has a standard deviation of 3


def test_gaps_are_filled_as_by_interpolate(grid, waves, rng):
    denoiser = EdgeDenoiser(grid, noise=0.25).fit(waves)
    X = np.where(rng.random(waves.shape) < 0.2, np.nan, waves)
    X[:, 0] = waves[:, 0]  # every part has a reading
    y = X.T - denoiser.means_[:, None]
    solution = nareg.filters.interpolate(grid, denoiser.design_, y, np.isfinite(y))
    np.testing.assert_allclose(denoiser.transform(X), (solution.x + denoiser.means_[:, None]).T)


def test_a_part_of_the_graph_without_a_reading_is_at_its_means(waves, rng):
    """Two separate networks of four; one falls silent at a time."""
    block = nareg.graphs.grid((4,)).adjacency.toarray()
    graph = np.block([[block, np.zeros((4, 4))], [np.zeros((4, 4)), block]])
    X = waves[:, :8]
    for estimator in (NodeAdaptiveDenoiser(graph), EdgeDenoiser(graph), GraphInterpolator(graph)):
        fitted = estimator.fit(X)
        gappy = X.copy()
        gappy[3, 4:] = np.nan
        x = fitted.transform(gappy)
        np.testing.assert_allclose(x[3, 4:], fitted.means_[4:])
        np.testing.assert_allclose(x[3, :4], fitted.transform(X)[3, :4])  # the other part does not notice


def test_a_weight_of_zero_does_not_cut_a_gap_off(grid, waves):
    """The station then takes its neighbors' mean weight, and no warning."""
    from dataclasses import replace

    denoiser = NodeAdaptiveDenoiser(grid, noise=0.25).fit(waves)
    weights = np.full(9, 5.0)
    weights[4] = 0.0
    denoiser.design_ = replace(denoiser.design_, weights=weights, data_weight=None)
    X = waves.copy()
    X[:, 4] = np.nan
    rest = X - denoiser.means_
    neighbors = denoiser.transform(X) - denoiser.means_
    np.testing.assert_allclose(neighbors[:, 4], neighbors[:, [1, 3, 5, 7]].mean(axis=1), rtol=1e-6)
    assert np.abs(rest[:, 1]).mean() > 0.5  # there is something to fill it with


def test_means_are_as_if_every_station_had_read_at_all_times(grid, rng):
    """A station that read in summer only is not warmer than its neighbors."""
    season = 10 * np.sin(2 * np.pi * np.arange(40) / 40)[:, None]
    X = season + 0.1 * rng.standard_normal((40, 9))
    X[20:, 4] = np.nan
    assert abs(NodeAdaptiveDenoiser(grid).fit(X).means_[4]) < 0.2


@EACH
def test_infinite_values_and_no_readings_are_refused(estimator, waves):
    estimator = estimator if isinstance(estimator, SeasonallyAdjusted) else estimator.set_params(graph=None)
    with pytest.raises(ValueError, match="infinity"):
        estimator.fit(np.where(waves > 4, np.inf, waves))
    with pytest.raises(InputError, match=r"X has no reading|0 values: a fit needs at least 10"):
        estimator.fit(np.full((30, 9), np.nan))
