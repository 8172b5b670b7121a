"""The private scale of the features: its sensitivity, its privacy and its use, by brute force."""

from __future__ import annotations

import numpy as np
import pytest

from nareg.errors import InputError
from nareg.unlearning.calibration import SCALES, default_charge, private_scale, row_lengths, utilities


def chances(lengths, eps):
    weights = np.exp(eps * utilities(lengths))
    return weights / weights.sum()


def some_lengths(rng):
    """Few rows, many of them equal, zero, or between two candidates."""
    n = rng.integers(1, 12)
    return rng.choice([0.0, 1e-30, 0.7, np.sqrt(0.5), 1.0, np.sqrt(2.0), 1.5, 2.0, 5.0, 1e30, np.inf], size=n)


@pytest.mark.parametrize("seed", range(40))
def test_a_row_changes_no_utility_by_more_than_a_half_and_no_chance_by_more_than_eps(seed):
    rng = np.random.default_rng(seed)
    lengths, eps = some_lengths(rng), rng.uniform(0.01, 3.0)
    before, odds = utilities(lengths), chances(lengths, eps)
    for row in range(lengths.size):
        without = lengths.copy()
        without[row] = 0.0
        assert np.abs(utilities(without) - before).max() <= 0.5
        assert np.abs(np.log(chances(without, eps) / odds)).max() <= eps * (1 + 1e-12)


@pytest.mark.parametrize("seed", range(20))
def test_utilities_are_distances_of_the_median_in_ranks(seed):
    lengths = some_lengths(np.random.default_rng(seed))
    present = lengths[lengths > 0]
    edges = np.concatenate([[0.0], SCALES[1:] / np.sqrt(2), [np.inf]])
    for low, high, found in zip(edges, edges[1:], utilities(lengths), strict=False):
        below = np.count_nonzero(present < low)
        above = np.count_nonzero(present >= high) if np.isfinite(high) else 0
        assert found == -max(0.0, below - present.size / 2, above - present.size / 2)


def test_draws_follow_the_chances():
    rng, lengths = np.random.default_rng(0), np.repeat([0.5, 1.0, 3.0], [30, 10, 20])
    eps = default_charge(lengths.size)
    draws = [private_scale(lengths, eps, rng) for _ in range(4000)]
    for scale, chance in zip(SCALES, chances(lengths, eps), strict=True):
        assert abs(draws.count(scale) / 4000 - chance) < 5 * np.sqrt(chance / 4000) + 1e-3


@pytest.mark.parametrize("n", [20, 300, 2708, 100_000])
def test_the_least_charge_lands_between_the_quartiles(n):
    lengths = 2.0 ** np.random.default_rng(n).normal(3.0, 2.0, n)
    low, high = np.quantile(lengths, [0.25, 0.75])
    outside = (SCALES * np.sqrt(2) < low) | (SCALES / np.sqrt(2) > high)
    assert chances(lengths, default_charge(n))[outside].sum() < 1e-3


def test_a_charge_that_leaves_the_scale_to_chance_is_refused():
    with pytest.raises(InputError, match=r"eps_scale is 0\.1, with which the scale of 100 rows would be random: pass at least"):
        private_scale(np.ones(100), 0.1, np.random.default_rng(0))


@pytest.mark.parametrize("size", [1e-300, 1e-5, 1.0, 1e200])
def test_lengths_are_those_of_rows_whatever_their_size(size):
    X = np.random.default_rng(1).normal(size=(50, 7))
    X[3] = 0.0
    assert np.allclose(row_lengths(X * size), np.linalg.norm(X, axis=1) * size, rtol=1e-12, atol=0)
