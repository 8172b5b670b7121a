"""Variances by chains are near those of the dense smoother."""

from __future__ import annotations

import numpy as np
import pytest

from nareg.spacetime._sparse.variances import Chains
from tests.spacetime.large.reference import dense, process

T = 80


def ratios(observed, **options):
    """Standard deviations over those of the dense smoother, (N, T)."""
    graph, p = process(n=60, **options)
    weights = observed / p.noise[:, None]
    chains = Chains.of(p, weights.mean(axis=1), graph.adjacency)
    y = np.where(observed, 0.0, np.nan)
    return np.sqrt(chains.smoothed(weights) / dense(p, y).var.T)


@pytest.mark.parametrize("smoothness", [1, 2])
@pytest.mark.parametrize("noise", [0.2, 4.0])
def test_complete_readings(smoothness, noise):
    smooth = ratios(np.ones((60, T), dtype=bool), smoothness=smoothness, noise=noise)
    inside = smooth[:, 10:-10]
    assert np.abs(inside - 1).max() < 0.03


@pytest.mark.parametrize("smoothness", [1, 2])
def test_dead_stations(smoothness):
    observed = np.ones((60, T), dtype=bool)
    observed[:12] = False
    smooth = ratios(observed, smoothness=smoothness)
    assert np.abs(smooth[:, 10:-10] - 1).max() < 0.05


def test_scattered_gaps():
    smooth = ratios(np.random.default_rng(0).random((60, T)) < 0.5)
    assert np.abs(np.median(smooth) - 1) < 0.05
    assert np.quantile(np.abs(smooth - 1), 0.95) < 0.15


def test_a_week_without_any_reading_goes_towards_the_fields_own_variance():
    observed = np.ones((60, T), dtype=bool)
    observed[:, 30:45] = False
    smooth = ratios(observed)
    gap = smooth[:, 30:45]
    assert np.quantile(np.abs(gap - 1), 0.95) < 0.15


def test_without_a_reading_it_is_the_fields_variance():
    graph, p = process(n=30)
    weights = np.zeros((30, 20))
    var = Chains.of(p, weights.mean(axis=1), graph.adjacency).smoothed(weights)
    np.testing.assert_allclose(var, p.variance, rtol=0.02)
