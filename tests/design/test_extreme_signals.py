"""Signals of zeros and of extreme size: a design, or one clear sentence."""

from __future__ import annotations

import numpy as np
import pytest

import nareg
from nareg._core import checks
from nareg.design import prony, relaxation
from nareg.errors import InputError

SMALL, LARGE = nareg.graphs.grid((4, 5)), nareg.graphs.grid((25, 25))


@pytest.mark.parametrize("g", [SMALL, LARGE], ids=["dense", "low rank"])
@pytest.mark.parametrize("noise", [0.0, 1e-300, 1.0])
def test_relaxation_refuses_zero_signals_with_and_without_noise(g, noise):
    with pytest.raises(InputError, match="zero everywhere"):
        relaxation(g, signals=np.zeros((g.n_nodes, 3)), noise=noise)
    with pytest.raises(InputError, match="zero everywhere"):
        relaxation(g, signals=np.zeros((g.n_nodes, 3)), noise=noise, lower=1e-3)


@pytest.mark.parametrize("g", [SMALL, LARGE], ids=["dense", "low rank"])
@pytest.mark.parametrize("size", [1e60, 1e75, 1e77, 1e100, 1e150])
def test_prony_refuses_signals_whose_fourth_powers_overflow(g, size, rng):
    X = size * rng.standard_normal((g.n_nodes, 3))
    for noise in (1.0, size**2):
        with pytest.raises(InputError, match="divide"):
            prony(g, signals=X, noise=noise)
    with pytest.raises(InputError, match="divide"):
        prony(SMALL, second_moment=np.full((20, 20), size**2), noise=size**2)


@pytest.mark.parametrize("design", [prony, relaxation])
@pytest.mark.parametrize("size", [1e-45, 1e45])
def test_large_and_small_units_give_the_same_design(design, size, rng):
    X = rng.standard_normal((20, 3))
    first, second = (design(SMALL, signals=s * X, noise=0.5 * s**2) for s in (1.0, size))
    np.testing.assert_allclose(second.weights, first.weights, rtol=1e-4)


@pytest.mark.parametrize("value", [10**4300, -(10**4400), 10**5000], ids=["4300", "minus 4400", "5000"])
def test_integers_of_thousands_of_digits_are_refused_in_one_sentence(value):
    # Python refuses to write integers of more than 4,300 digits: the message must not try
    for check in (
        lambda: checks.number("tol", value, low=0),
        lambda: checks.number("tol", [value], low=0),
        lambda: checks.integer("n", value, low=1),
        lambda: checks.integer("n", (value,), low=1),
        lambda: checks.choice("rule", value, ("a", "b")),
        lambda: checks.choice("rule", [value], ("a", "b")),
        lambda: checks.generator(value),
    ):
        with pytest.raises(InputError) as caught:
            check()
        assert len(str(caught.value)) < 200
    with pytest.raises(InputError, match="tol"):
        nareg.filters.denoise(SMALL, 1.0, np.ones(20), tol=value)
    with pytest.raises(InputError, match="max_iterations"):
        nareg.filters.denoise(SMALL, 1.0, np.ones(20), max_iterations=value)
