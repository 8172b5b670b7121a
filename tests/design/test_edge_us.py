"""Edge design on the US network, against the Wiener filter learned from the same days."""

from __future__ import annotations

import numpy as np
import pytest

from nareg.design import edge, node_invariant, risk
from tests.helpers import at_night, dense_risk, half_split


def measured(us, seed, db, *, T=None, two_decades=False, **settings):
    """Test risk of the edge design over that of the learned Wiener filter, and over the best single weight."""
    rng = np.random.default_rng(seed)
    train, test = half_split(us.signals, rng)
    if T is not None:
        train = train[:, :T]
    shape = 10 ** rng.uniform(-1, 1, 140) if two_decades else np.ones(140)
    noise = np.mean(train**2) / 10 ** (db / 10) * shape / shape.mean()
    data_weight = "noise" if two_decades else None
    d = edge(us.graph, signals=train, noise=noise, data_weight=data_weight, **settings)
    one = node_invariant(us.graph, rule="oracle", signals=train, noise=noise, data_weight=data_weight)
    R = train @ train.T / train.shape[1]
    wiener = sum(dense_risk(R @ np.linalg.inv(R + np.diag(noise)), test @ test.T / test.shape[1], np.diag(noise)))
    result, scalar = (risk(us.graph, w, signals=test, noise=noise).mse for w in (d, one))
    return result / wiener, result / scalar, d


LEVELS = [0, *at_night([-10, 10])]


@pytest.mark.slow
@pytest.mark.parametrize("two_decades", [False, *at_night([True])])
@pytest.mark.parametrize("db", LEVELS)
@pytest.mark.parametrize("seeds", [range(2), *at_night([range(5)])])
def test_us_network_close_to_the_wiener_filter(us, seeds, db, two_decades):
    rows = [measured(us, seed, db, two_decades=two_decades) for seed in seeds]
    assert np.mean([r[0] for r in rows]) < 1.12
    assert np.mean([r[1] for r in rows]) < 0.66
    assert all(d.status.name == "CONVERGED" for *_, d in rows)


@pytest.mark.slow
@pytest.mark.parametrize("two_decades", [False, True])
@pytest.mark.parametrize("db", LEVELS)
@pytest.mark.parametrize("seeds", [range(2), *at_night([range(2, 8)])])
def test_us_network_with_ten_signals_is_never_worse_than_one_weight(us, seeds, db, two_decades):
    for seed in seeds:
        assert measured(us, seed, db, T=10, two_decades=two_decades)[1] <= 1.0 + 1e-6


@pytest.mark.slow
def test_us_network_laplacian_structure_costs_a_quarter(us):
    ratios = [measured(us, seed, 0, structure="laplacian")[1] for seed in range(2)]
    assert 0.7 < np.mean(ratios) < 0.85
