"""What a large network says of its means and cycles, against full matrices and the dense engine."""

from __future__ import annotations

import numpy as np
import pytest

import nareg
from nareg.spacetime._dense.learning import DenseLearner
from nareg.spacetime._readings import coefficients
from nareg.spacetime._readings.space import Space
from nareg.spacetime._sparse import cycles as shrinkages
from nareg.spacetime._sparse.cycles import REACHES, ErrorField, Fields, Part, SparseShrinkage, Stack, Sum
from nareg.spacetime._sparse.field import FieldFamily
from nareg.spacetime._sparse.fitting import neighborhood, open_learner

from ..reference import regular

RNG = np.random.default_rng


def family(seed: int = 0, n: int = 30, smoothness: int = 2) -> FieldFamily:
    return FieldFamily(nareg.Graph.from_knn(RNG(seed).random((n, 2)), 5).adjacency, smoothness)


def shrinkage(of: FieldFamily) -> SparseShrinkage:
    return SparseShrinkage(of, np.ones(of.n))


def correlation(of: FieldFamily, reach: float) -> np.ndarray:
    """By full matrices, with no scaling or factor of the package."""
    K = np.linalg.inv(np.linalg.matrix_power(of.L.toarray() + np.eye(of.n) / reach**2, of.smoothness))
    scale = np.sqrt(np.diag(K))
    return K / np.outer(scale, scale)


def minus_two_log_density(z: np.ndarray, S: np.ndarray) -> float:
    return float(np.linalg.slogdet(S)[1] + z @ np.linalg.solve(S, z))


@pytest.mark.parametrize("smoothness", [1, 2])
@pytest.mark.parametrize("count", [0, 1, 2, 3])
def test_a_sum_of_fields_is_the_joint_gaussian(count, smoothness):
    rng = RNG(count)
    of = family(count, 25, smoothness)
    parts = [Part(of.at(1.0 + b), 0.5 + b, rng.random(25)) for b in range(count)]
    weights = np.where(rng.random(25) < 0.7, 1 / (0.1 + rng.random(25)), 0.0)
    seen = weights > 0
    model = Sum(parts, weights, {k: Stack(of, k) for k in (1, 2, 3)})
    own = [part.variance * correlation(of, part.spatial.reach) for part in parts]
    S = np.diag(1 / weights[seen])
    S += sum(((p.load[:, None] * C * p.load)[np.ix_(seen, seen)] for p, C in zip(parts, own, strict=True)), np.zeros_like(S))
    assert model.log_det == pytest.approx(np.linalg.slogdet(S)[1], abs=1e-9)
    z = rng.standard_normal((25, 3))
    expected = np.zeros((25, 3))
    expected[seen] = np.linalg.solve(S, z[seen])
    np.testing.assert_allclose(model.solve(z), expected, atol=1e-9)
    if count:
        means, variances = model.fields(z), model.variances()
    for b, (part, C) in enumerate(zip(parts, own, strict=True)):
        cross = (C * part.load)[:, seen]
        np.testing.assert_allclose(means[b], cross @ np.linalg.solve(S, z[seen]), atol=1e-9)
        np.testing.assert_allclose(variances[b], np.diag(C - cross @ np.linalg.solve(S, cross.T)), atol=1e-9)


@pytest.mark.parametrize("seed", range(6))
def test_how_alike_errors_are_is_the_likeliest_choice(seed):
    rng, of = RNG(seed), family(seed)
    together = rng.random(of.n) < 0.8
    C = correlation(of, REACHES[1 + seed % 3])
    own = (0.05, 0.4, 1.0)[seed % 3]
    unit = np.linalg.cholesky(1.7 * ((1 - own) * C + own * np.eye(of.n))) @ rng.standard_normal((of.n, 8))
    scores = {}
    for reach in REACHES:
        whole = correlation(of, reach)[np.ix_(together, together)]
        for share in coefficients.OWN:
            S = (1 - share) * whole + share * np.eye(len(whole))
            size = float(np.mean(np.sum(unit[together] * np.linalg.solve(S, unit[together]), axis=0))) / len(whole)
            scores[reach, share, size] = np.sum([minus_two_log_density(u, size * S) for u in unit[together].T])
    reach, share, size = min(scores, key=scores.__getitem__)
    error_model = shrinkage(of).error_model(unit, together)
    assert error_model.own == share
    assert error_model.size == pytest.approx(size, rel=1e-8)
    np.testing.assert_array_equal(error_model.comparable, together)
    if share < 1:
        assert error_model.reach == reach


def test_few_stations_do_not_tell_how_alike_errors_are():
    error_model = shrinkage(family()).error_model(np.ones((30, 8)), np.arange(30) < coefficients.FEWEST_TOGETHER - 1)
    parts, own = error_model.times(np.arange(1.0, 31.0), Fields(family()), slice(None))
    assert not parts
    np.testing.assert_array_equal(own, np.arange(1.0, 31.0))


def task(seed: int, unsure: bool = False) -> tuple[FieldFamily, np.ndarray, np.ndarray, ErrorField, np.ndarray, np.ndarray]:
    """Family, coefficients with silent stations, error variances, the errors' field, which are known, errors' covariance."""
    rng, of = RNG(seed), family(seed)
    v = np.exp(0.5 * rng.standard_normal(of.n))
    if unsure:
        v[:3] = 1e3
    error_model = ErrorField(REACHES[1 + seed % 3], 0.3, 1.4, rng.random(of.n) < 0.8)
    both = np.outer(error_model.comparable, error_model.comparable)
    shared = 1.4 * 0.7 * correlation(of, error_model.reach) * both
    noise = (shared + np.diag(np.where(error_model.comparable, 1.4 * 0.3, 1.0))) * np.sqrt(np.outer(v, v))
    # of stations of very different sizes of error, too; seed 0 has no field
    field = (0.0, 1.0, 4.0, 30.0)[seed % 4] * correlation(of, REACHES[(seed // 2) % 4])
    b = 50 + np.linalg.cholesky(field + noise) @ rng.standard_normal(of.n)
    known = rng.random(of.n) < 0.85
    return of, np.where(known, b, np.nan), v, error_model, known, noise


def sizes_of(v: np.ndarray, b: np.ndarray, known: np.ndarray) -> list[float]:
    """Variances that the field of the coefficients may have, apart from none."""
    typical = float(np.median(v[known]))
    common = np.average(b[known], weights=1 / v[known])
    total = float(np.average((b[known] - common) ** 2, weights=1 / v[known]))
    return [share / (1 - share) * typical for share in coefficients.SHARES[1:-1]] + [max(total, 30 * typical)]


def fields_of(of: FieldFamily, v: np.ndarray, b: np.ndarray, known: np.ndarray) -> list[np.ndarray]:
    """Covariances that the field of the coefficients may have."""
    sizes = sizes_of(v, b, known)
    return [np.zeros((of.n, of.n))] + [size * correlation(of, reach) for reach in REACHES for size in sizes]


def restricted(b: np.ndarray, S: np.ndarray) -> float:
    """Minus two log-likelihood of all differences from the common coefficient (Patterson and Thompson 1971)."""
    by_ones = np.linalg.solve(S, np.ones(len(S)))
    middle = by_ones @ b / by_ones.sum()
    return minus_two_log_density(b - middle, S) + float(np.log(by_ones.sum()))


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("unsure", [False, True])
def test_coefficients_are_those_of_the_likeliest_joint_gaussian(seed, unsure):
    of, b, v, error_model, known, noise = task(seed, unsure)
    sure = known & (v <= coefficients.UNSURE * np.median(v[known]))
    C = min(fields_of(of, v, b, known), key=lambda one: restricted(b[sure], (one + noise)[np.ix_(sure, sure)]))
    S = (C + noise)[np.ix_(known, known)]
    ones = np.ones(len(S))
    by_ones = np.linalg.solve(S, ones)
    common = by_ones @ b[known] / by_ones.sum()
    gain = C[:, known] @ np.linalg.inv(S)
    level = common + gain @ (b[known] - common)
    left = np.ones(of.n) - gain @ ones
    spread = np.diag(C - gain @ C[known]) + left**2 / by_ones.sum()
    shrunk = shrinkage(of)(b, v, error_model, np.zeros((of.n, 2)), RNG(0))
    assert shrunk.common == pytest.approx(common, rel=1e-8)
    np.testing.assert_allclose(shrunk.level, level, rtol=1e-8)
    np.testing.assert_allclose(shrunk.spread, spread, rtol=1e-6)


@pytest.mark.parametrize("seed", [0, 3, 6, 7])
@pytest.mark.slow
def test_draws_of_errors_have_the_exact_covariance(seed):
    of, b, v, error_model, known, noise = task(seed)
    rng, count = RNG(seed), 40_000
    scale = np.sqrt(v)
    unit = np.linalg.cholesky(noise / np.outer(scale, scale)) @ rng.standard_normal((of.n, count))
    shrunk = shrinkage(of)(b, v, error_model, unit, rng)
    exact = [covariance_of_errors(C, noise, known) for C in fields_of(of, v, b, known)]
    # the field that was chosen shows in the spread, which another test compares
    K = min(exact, key=lambda one: np.abs(np.diag(one) - shrunk.spread).max())
    np.testing.assert_allclose(np.diag(K), shrunk.spread, rtol=1e-6)
    deviation = np.sqrt(np.diag(K))
    off = (shrunk.errors @ shrunk.errors.T / count - K) / np.outer(deviation, deviation)
    assert np.abs(off).max() < 5 * np.sqrt(2 / count)


def covariance_of_errors(C: np.ndarray, noise: np.ndarray, known: np.ndarray) -> np.ndarray:
    """Of field + common given the coefficients that are ``known``, with a common of which nothing is known before."""
    S = (C + noise)[np.ix_(known, known)]
    by_ones = np.linalg.solve(S, np.ones(len(S)))
    left = 1 - C[:, known] @ by_ones
    return C - C[:, known] @ np.linalg.solve(S, C[known]) + np.outer(left, left) / by_ones.sum()


@pytest.mark.parametrize("seed", range(4))
def test_nothing_is_lost_where_a_coefficient_has_no_error(seed):
    of, b, _, error_model, known, _ = task(seed)
    shrunk = shrinkage(of)(b, np.zeros(of.n), error_model, np.ones((of.n, 2)), RNG(0))
    np.testing.assert_allclose(shrunk.level[known], b[known], rtol=1e-5)
    assert np.isfinite(shrunk.level).all()


@pytest.mark.parametrize("seed", range(4))
def test_a_part_of_a_large_network_chooses_for_all(seed, monkeypatch):
    monkeypatch.setattr(shrinkages, "STATIONS", 20)
    of, b, v, error_model, known, noise = task(seed)
    counts = RNG(seed).integers(1, 50, of.n)
    part = neighborhood(of.L, counts, 20)
    few = of.of(part)
    large, small = SparseShrinkage(of, counts), SparseShrinkage(few, counts[part])
    unit = RNG(seed).standard_normal((of.n, 8))
    ours, theirs = large.error_model(unit, known), small.error_model(unit[part], known[part])
    assert (ours.reach, ours.own, ours.size) == (theirs.reach, theirs.own, theirs.size)
    np.testing.assert_array_equal(ours.comparable, known)
    # the covariances that the part's graph gives choose, those of the whole are used
    sure = part[known[part]]
    inside = np.flatnonzero(known[part])
    nearby = noise[np.ix_(sure, sure)].copy()
    scale = np.sqrt(np.outer(v, v))[np.ix_(sure, sure)] * np.outer(error_model.comparable[sure], error_model.comparable[sure])
    off = ~np.eye(sure.size, dtype=bool)
    nearby[off] = (1.4 * 0.7 * scale * correlation(few, error_model.reach)[np.ix_(inside, inside)])[off]
    scores = {
        (reach, size): restricted(b[sure], size * correlation(few, reach)[np.ix_(inside, inside)] + nearby)
        for reach in REACHES
        for size in [0.0, *sizes_of(v, b, known)]
    }
    reach, size = min(scores, key=scores.__getitem__)
    C = size * correlation(of, reach)
    S = (C + noise)[np.ix_(known, known)]
    by_ones = np.linalg.solve(S, np.ones(len(S)))
    common = by_ones @ b[known] / by_ones.sum()
    level = common + C[:, known] @ np.linalg.solve(S, b[known] - common)
    np.testing.assert_allclose(large(b, v, error_model, np.zeros((of.n, 2)), RNG(0)).level, level, rtol=1e-8)


def test_a_part_that_knows_too_little_does_not_choose(monkeypatch):
    monkeypatch.setattr(shrinkages, "STATIONS", 10)
    of, b, v, error_model, _, _ = task(1)
    counts = np.ones(of.n)
    part = neighborhood(of.L, counts, 10)
    b[part] = np.nan
    result = SparseShrinkage(of, counts)(b, v, error_model, np.zeros((of.n, 2)), RNG(0))
    monkeypatch.setattr(shrinkages, "STATIONS", of.n)
    np.testing.assert_array_equal(
        result.level, SparseShrinkage(of, counts)(b, v, error_model, np.zeros((of.n, 2)), RNG(0)).level
    )


@pytest.mark.parametrize("dated", [False, True])
@pytest.mark.parametrize("seed", range(4))
def test_both_engines_say_the_same_of_means_and_cycles(seed, dated):
    """Where the graph alone joins the stations, both have the same fields."""
    rng = RNG(seed)
    graph = nareg.Graph(nareg.Graph.from_knn(rng.random((40, 2)), 5).adjacency)
    of = FieldFamily(graph.adjacency, 2)
    T = 96
    weather = np.zeros((T, 40))
    root = np.linalg.cholesky(correlation(of, 3.0))
    for t in range(1, T):
        weather[t] = 0.9 * weather[t - 1] + root @ rng.standard_normal(40)
    y = weather + 2 * root @ rng.standard_normal(40) + rng.standard_normal((T, 40)) + 20
    y[rng.random(y.shape) < 0.2] = np.nan
    y[:, 0], y[12:, 1], y[30:, 2] = np.nan, np.nan, np.nan
    hours = regular(3600.0 * np.arange(T), 3600.0, dated)
    wanted = "auto" if dated else ()
    dense = DenseLearner(Space.of(graph)).cycles(y, hours, wanted)
    with open_learner(graph, T) as learner:
        sparse = learner.cycles(y, hours, wanted)
    assert dense.names == sparse.names == (("day",) if dated else ())
    # the dense engine adds a millionth of the field's variance to each station's
    np.testing.assert_allclose(sparse.common, dense.common, atol=1e-4)
    np.testing.assert_allclose(sparse.level, dense.level, atol=1e-4)
    np.testing.assert_allclose(sparse.spread, dense.spread, rtol=1e-3)


@pytest.mark.parametrize("seed", range(4))
def test_slopes_and_levels_are_those_of_full_matrices(seed):
    rng, of = RNG(seed), family(seed, 40)
    z = rng.standard_normal((of.n, 2))
    field = np.linalg.cholesky(correlation(of, 2.0) + 1e-9 * np.eye(of.n)) @ rng.standard_normal(of.n)
    v = 0.01 + 0.1 * rng.random(of.n)
    b = 3 + z @ [1.5, -0.7] + 0.5 * field + np.sqrt(v) * rng.standard_normal(of.n)
    b[:5] = np.nan
    large = SparseShrinkage(of, np.ones(of.n), z)
    error_model = ErrorField(1.0, 1.0, 1.0, np.ones(of.n, dtype=bool))
    large, gains = large.choose(b[None], v[None], error_model, np.eye(1))
    assert set(gains) == {0, 1}
    result = large(b, v, error_model, np.zeros((of.n, 2)), RNG(0))
    noisy = shrinkages.SparseCoefficient(large, b, v, error_model)
    (reach, variance, _), priors = noisy.likeliest(large.some)
    z, known = z[:, list(large.some)], np.isfinite(b)
    # a common value without a prior, slopes and a field, all by one joint Gaussian
    prior = variance * (correlation(of, reach) if variance else np.zeros((of.n, of.n))) + (z * priors) @ z.T
    S = prior[np.ix_(known, known)] + np.diag(v[known])
    inverse = np.linalg.inv(S)
    common = inverse.sum(axis=0) @ b[known] / inverse.sum()
    cross = prior[:, known]
    level = common + cross @ inverse @ (b[known] - common)
    np.testing.assert_allclose(result.level, level, rtol=1e-8)
    rest = 1 - (cross @ inverse).sum(axis=1)
    spread = np.diag(prior) - np.einsum("ij,jk,ik->i", cross, inverse, cross) + rest**2 / inverse.sum()
    np.testing.assert_allclose(result.spread, spread, rtol=1e-7)
    slopes = priors * (z[known].T @ inverse @ (b[known] - common))
    np.testing.assert_allclose(result.slopes[list(large.some)], slopes, rtol=1e-8)
    assert abs(result.slopes[0] - 1.5) < 0.3
    assert abs(result.slopes[1] + 0.7) < 0.3


def test_draws_of_errors_with_slopes_have_the_spread_that_is_stated():
    rng, of = RNG(0), family(0, 40)
    z, v = rng.standard_normal((of.n, 1)), 0.05 + 0.1 * rng.random(of.n)
    b = z[:, 0] + np.sqrt(v) * rng.standard_normal(of.n)
    b[:5] = np.nan
    large, error_model = SparseShrinkage(of, np.ones(of.n), z), ErrorField(1.0, 1.0, 1.0, np.ones(of.n, dtype=bool))
    large, _ = large.choose(b[None], v[None], error_model, np.eye(1))
    result = large(b, v, error_model, rng.standard_normal((of.n, 4000)), RNG(1))
    np.testing.assert_allclose(result.errors.var(axis=1), result.spread, rtol=0.12)
