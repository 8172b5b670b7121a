"""Variances by chains are near those of the dense smoother and filter."""

from __future__ import annotations

import numpy as np
import pytest

from nareg.spacetime._large.variances import Chains, Forward
from tests.spacetime.large.reference import dense, process

T = 80


def ratios(observed, **options):
    """Standard deviations over those of the dense smoother, and of the filter, (N, T)."""
    graph, p = process(n=60, **options)
    weights = observed / p.noise[:, None]
    chains = Chains.of(p, weights.mean(axis=1), graph.adjacency)
    y = np.where(observed, 0.0, np.nan)
    forward, filtered = Forward(chains), np.empty(observed.shape)
    for t in range(T):
        forward.step(weights[:, t])
        filtered[:, t] = forward.variance()
    smooth = np.sqrt(chains.smoothed(weights) / dense(p, y).var.T)
    return smooth, np.sqrt(filtered / dense(p, y, smooth=False).var.T)


@pytest.mark.parametrize("smoothness", [1, 2])
@pytest.mark.parametrize("noise", [0.2, 4.0])
def test_complete_readings(smoothness, noise):
    smooth, filtered = ratios(np.ones((60, T), dtype=bool), smoothness=smoothness, noise=noise)
    inside = smooth[:, 10:-10]
    assert np.abs(inside - 1).max() < 0.03
    assert np.abs(np.median(filtered[:, 20:]) - 1) < 0.06
    assert np.abs(filtered[:, 20:] - 1).max() < 0.15


@pytest.mark.parametrize("smoothness", [1, 2])
def test_dead_stations(smoothness):
    observed = np.ones((60, T), dtype=bool)
    observed[:12] = False
    smooth, _ = ratios(observed, smoothness=smoothness)
    assert np.abs(smooth[:, 10:-10] - 1).max() < 0.05


def test_scattered_gaps():
    smooth, _ = ratios(np.random.default_rng(0).random((60, T)) < 0.5)
    assert np.abs(np.median(smooth) - 1) < 0.05
    assert np.quantile(np.abs(smooth - 1), 0.95) < 0.15


def test_a_week_without_any_reading_goes_towards_the_fields_own_variance():
    observed = np.ones((60, T), dtype=bool)
    observed[:, 30:45] = False
    smooth, filtered = ratios(observed)
    gap = smooth[:, 30:45]
    assert np.quantile(np.abs(gap - 1), 0.95) < 0.15
    assert np.abs(filtered[:, 40:45] - 1).max() < 0.1


def test_without_a_reading_it_is_the_fields_variance():
    graph, p = process(n=30)
    weights = np.zeros((30, 20))
    var = Chains.of(p, weights.mean(axis=1), graph.adjacency).smoothed(weights)
    np.testing.assert_allclose(var, p.variance, rtol=0.02)
