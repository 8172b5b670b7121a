"""A design does not depend on the unit of the readings."""

from __future__ import annotations

import numpy as np
import pytest

import nareg
from nareg.design import edge


def case(seed: int) -> tuple[nareg.Graph, np.ndarray]:
    """A sensor graph and 8 to 60 signals of a field on it."""
    rng = np.random.default_rng(seed)
    n = int(rng.integers(8, 26))
    g = nareg.graphs.sensor(n, rng=rng)
    precision = g.laplacian().toarray() * 10 ** rng.uniform(-1, 1) + np.diag(10 ** rng.uniform(-2, 1, n))
    return g, np.linalg.cholesky(np.linalg.inv(precision)) @ rng.standard_normal((n, int(rng.integers(8, 60))))


SETTINGS = [
    {"criterion": "likelihood"},
    {"criterion": "likelihood", "structure": "laplacian"},
    {"criterion": "likelihood", "shrink": 0.1},
    {"criterion": "risk"},
    {"criterion": "risk", "structure": "laplacian", "shrink": 0.1},
]


@pytest.mark.parametrize("settings", SETTINGS, ids=lambda s: "-".join(map(str, s.values())))
@pytest.mark.parametrize("seed", [0, 1, 2])
@pytest.mark.slow
def test_a_power_of_two_scales_the_design_exactly(settings, seed):
    g, X = case(seed)
    for noise in (0.3, None) if settings["criterion"] == "likelihood" else (0.3,):
        first = edge(g, signals=X, noise=noise, **settings)
        for s in (2.0**-7, 2.0**20):
            second = edge(g, signals=s * X, noise=None if noise is None else noise * s**2, **settings)
            factor = s**-2 if noise is None else 1.0  # without noise S is the precision matrix
            assert np.array_equal(second.weights, factor * first.weights)
            assert second.status is first.status
            assert second.certificate.gradient_norm == first.certificate.gradient_norm


@pytest.mark.parametrize("seed", [1, 2, 4])
@pytest.mark.parametrize("settings", SETTINGS, ids=lambda s: "-".join(map(str, s.values())))
def test_the_unit_of_the_readings_does_not_matter(settings, seed):
    g, X = case(seed)
    first = edge(g, signals=X, noise=0.3, **settings)
    for s in (1e-6, 10.0, 1e3):
        second = edge(g, signals=s * X, noise=0.3 * s**2, **settings)
        atol = 1e-6 * np.abs(first.weights).max()
        np.testing.assert_allclose(second.weights, first.weights, rtol=1e-5, atol=atol)
        for name in ("shrink", "iterations"):
            assert second.certificate.details[name] == first.certificate.details[name]


def test_noise_of_zero_leaves_the_precision_matrix():
    g, X = case(3)
    without = edge(g, signals=1e3 * X, criterion="likelihood", shrink=0.1)
    zero = edge(g, signals=1e3 * X, noise=0.0, criterion="likelihood", shrink=0.1)
    np.testing.assert_allclose(zero.weights, without.weights, rtol=1e-12)


def test_the_objective_is_that_of_the_readings_as_given():
    g, X = case(0)
    for s in (1.0, 1000.0):
        d = edge(g, signals=s * X, criterion="likelihood")
        Theta, R = d.matrix.toarray(), s**2 * X @ X.T / X.shape[1]
        value = np.trace(Theta @ R) - np.linalg.slogdet(Theta)[1]
        assert d.objective == pytest.approx(value, rel=1e-9)
        shift = 2 * g.n_nodes * np.log(s)
        for name in ("held_out_risk", "held_out_scalar_risk", "best_two_parameter_likelihood"):
            reference = edge(g, signals=X, criterion="likelihood").certificate.details[name]
            assert d.certificate.details[name] == pytest.approx(reference + shift, rel=1e-6)
