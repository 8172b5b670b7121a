"""Denoisers do what the functions do, and take what scikit-learn users pass."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp

import nareg
from nareg.errors import InputError
from nareg.estimators import EdgeDenoiser, NodeAdaptiveDenoiser


def dense_filter(denoiser, X: np.ndarray) -> np.ndarray:
    """``(C + S)^-1 C`` on what is left of the station means, by dense matrices."""
    S = denoiser.design_.matrix.toarray()
    c = np.ones(len(S)) if denoiser.design_.data_weight is None else denoiser.design_.data_weight
    means = denoiser.means_[:, None]
    return (np.linalg.solve(np.diag(c) + S, c[:, None] * (X.T - means)) + means).T


@pytest.mark.parametrize(
    "denoiser",
    [NodeAdaptiveDenoiser(), NodeAdaptiveDenoiser(noise=0.25), NodeAdaptiveDenoiser(design="sure"),
     NodeAdaptiveDenoiser(design="gcv"), EdgeDenoiser(), EdgeDenoiser(noise=np.full(9, 0.25), shrink=0.5)],
)  # fmt: skip
def test_transform_is_the_dense_filter(denoiser, grid, waves, rng):
    denoiser.set_params(graph=grid).fit(waves)
    new = rng.standard_normal((7, 9))
    np.testing.assert_allclose(denoiser.transform(new), dense_filter(denoiser, new), rtol=1e-8)


def test_the_weights_are_those_of_the_functions(grid, waves):
    Y = waves.T - waves.mean(axis=0)[:, None]
    blind = nareg.design.blind(grid, measurements=Y, noise=0.25, data_weight="noise")
    np.testing.assert_allclose(NodeAdaptiveDenoiser(grid, noise=0.25).fit(waves).design_.weights, blind.weights)
    edge = nareg.design.edge(grid, measurements=Y, noise=0.25, data_weight="noise")
    np.testing.assert_allclose(EdgeDenoiser(grid, noise=0.25).fit(waves).design_.weights, edge.weights)


def test_noise_is_estimated_per_station(grid, waves):
    fitted = NodeAdaptiveDenoiser(grid).fit(waves).design_
    estimated = nareg.design.estimate_noise(grid, waves.T - waves.mean(axis=0)[:, None])
    np.testing.assert_allclose(fitted.data_weight, 1 / estimated)


def test_stations_of_unequal_quality_are_weighed(grid, rng):
    """Known variances beat one variance for all."""
    clean = 3 * rng.standard_normal((200, 1)) + np.zeros(9)
    variance = np.where(np.arange(9) % 2 == 0, 9.0, 0.01)
    X = clean + np.sqrt(variance) * rng.standard_normal(clean.shape)
    known = NodeAdaptiveDenoiser(grid, noise=variance).fit(X).score(X, clean)
    equal = NodeAdaptiveDenoiser(grid, noise=float(variance.mean())).fit(X).score(X, clean)
    assert known > 0.5 * equal  # negative errors


@pytest.mark.slow
def test_noise_shrinks_on_real_weather(network, clean, noisy):
    past, new = np.arange(365) // 30 % 2 == 0, np.arange(365) // 30 % 2 == 1
    noise = -float(((noisy - clean)[new] ** 2).to_numpy().mean())
    for denoiser in (NodeAdaptiveDenoiser(network.graph), EdgeDenoiser(network.graph), NodeAdaptiveDenoiser(), EdgeDenoiser()):
        assert denoiser.fit(noisy[past]).score(noisy[new], clean[new]) > 0.8 * noise


def test_exact_learns_from_the_clean_field(grid, rng):
    clean = 3 * rng.standard_normal((60, 1)) + np.arange(9.0)
    X = clean + rng.standard_normal(clean.shape)
    pair = NodeAdaptiveDenoiser(grid, design="exact").fit(X, clean)
    assert pair.design_.method.startswith("exact")
    np.testing.assert_allclose(1 / pair.design_.data_weight, np.mean((X - clean) ** 2, axis=0))
    alone = NodeAdaptiveDenoiser(grid, design="exact", noise=1.0).fit(clean)
    assert pair.score(X, clean) > -0.5
    assert alone.score(X, clean) > -0.5


def test_exact_needs_a_clean_field_and_a_noise_level(grid, waves):
    with pytest.raises(InputError, match=r"design='exact' needs it, or the clean field: fit\(X, y\)"):
        NodeAdaptiveDenoiser(grid, design="exact").fit(waves)
    gappy = waves.copy()
    gappy[0, 0] = np.nan
    with pytest.raises(InputError, match="X has gaps"):
        NodeAdaptiveDenoiser(grid, design="exact", noise=1.0).fit(gappy)
    silent = np.where(np.arange(9) == 3, np.nan, waves)  # a clean field of it is known
    assert np.isfinite(NodeAdaptiveDenoiser(grid, design="exact").fit(silent, waves + 0.1).transform(silent)).all()


@pytest.mark.parametrize("make", [NodeAdaptiveDenoiser, EdgeDenoiser])
def test_where_noise_explains_all_one_weight_is_used(make, grid, rng):
    """Nothing but noise, nothing but signal, nothing at all."""
    for X in (rng.standard_normal((30, 9)), 3 * rng.standard_normal((30, 1)) + np.zeros(9), np.ones((30, 9))):
        fitted = make(grid).fit(X)
        assert np.isfinite(fitted.transform(X)).all()
    assert fitted.design_.method == "node-invariant (gcv)"
    np.testing.assert_allclose(fitted.transform(X), X)


def test_noise_that_is_given_and_too_large_is_refused(grid, waves):
    with pytest.raises(InputError, match="no signal is left to fit"):
        NodeAdaptiveDenoiser(grid, noise=1e4).fit(waves)


def test_an_unknown_design_is_refused(grid, waves):
    with pytest.raises(InputError, match="design is 'edge'; choose one of 'blind'"):
        NodeAdaptiveDenoiser(grid, design="edge").fit(waves)


@pytest.mark.parametrize(
    "convert", [lambda g: g.adjacency, lambda g: g.adjacency.toarray(), lambda g: sp.csr_matrix(g.adjacency)]
)
def test_the_graph_may_be_an_adjacency(convert, grid, waves):
    expected = NodeAdaptiveDenoiser(grid).fit_transform(waves)
    np.testing.assert_array_equal(NodeAdaptiveDenoiser(convert(grid)).fit_transform(waves), expected)


def test_float32_stays(grid, waves):
    denoiser = NodeAdaptiveDenoiser(grid).fit(waves)
    single = denoiser.transform(waves.astype(np.float32))
    assert single.dtype == np.float32
    np.testing.assert_allclose(single, denoiser.transform(waves), rtol=1e-5)


def test_x_is_not_changed(grid, waves):
    frame = pd.DataFrame(waves).mask(waves > 5)
    before = frame.copy()
    NodeAdaptiveDenoiser(grid).fit(frame).score(frame)
    pd.testing.assert_frame_equal(frame, before)


def test_equal_seeds_give_equal_weights(grid, waves):
    def weights(random_state):
        return NodeAdaptiveDenoiser(grid, random_state=random_state).fit(waves).design_.weights

    for make in (lambda: None, lambda: 7, lambda: np.random.default_rng(7), lambda: np.random.RandomState(7)):
        np.testing.assert_array_equal(weights(make()), weights(make()))
    with pytest.raises(InputError, match="random_state is 'seven'"):
        weights("seven")


@pytest.mark.parametrize("times", [pd.date_range("2025-01-01", periods=40), [f"day {k}" for k in range(40)]])
def test_a_column_of_times_is_refused_with_the_remedy(grid, waves, times):
    frame = pd.DataFrame(waves[:40], columns=[f"s{i}" for i in range(waves.shape[1])])
    frame.insert(0, "time", times)
    with pytest.raises(InputError, match=r"column 'time'.*X\.set_index\('time'\)"):
        NodeAdaptiveDenoiser(grid).fit(frame)


def test_a_polars_column_of_times_is_refused(grid, waves):
    polars = pytest.importorskip("polars")
    columns = {f"s{i}": waves[:40, i] for i in range(waves.shape[1])}
    frame = polars.DataFrame({"time": pd.date_range("2025-01-01", periods=40).to_numpy(), **columns})
    with pytest.raises(InputError, match="column 'time'"):
        NodeAdaptiveDenoiser(grid).fit(frame)
