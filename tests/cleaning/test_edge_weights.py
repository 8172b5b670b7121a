"""Edge weights in clean: when they are chosen, how they are applied, when they are left out."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp

import nareg
from nareg import filters
from nareg.cleaning import _methods
from nareg.cleaning._methods import EDGES, EdgeWeights, anomalies
from nareg.cleaning._simple import one_weight
from nareg.errors import AmplificationWarning, TooLargeError
from nareg.progress import Progress
from nareg.results import upper_edges

ROWS, COLUMNS = 4, 5


def field(along: float, across: float, n_times: int, seed: int) -> tuple[nareg.Graph, np.ndarray, np.ndarray]:
    """Independent maps on a grid whose edges have one of two precisions; noisy readings with gaps. The graph tells neither."""
    rng = np.random.default_rng(seed)
    graph = nareg.Graph(nareg.graphs.grid((ROWS, COLUMNS)).adjacency)
    edges = sp.coo_array(graph.adjacency)
    same_row = edges.row // COLUMNS == edges.col // COLUMNS
    W = sp.csr_array((np.where(same_row, along, across), (edges.row, edges.col)), shape=edges.shape).toarray()
    Theta = np.diag(W.sum(axis=1)) - W + 0.05 * np.eye(len(W))
    truth = np.linalg.solve(np.linalg.cholesky(Theta).T, rng.standard_normal((len(W), n_times)))
    y = truth + 0.5 * rng.standard_normal(truth.shape)
    y[rng.random(y.shape) < 0.05] = np.nan
    return graph, truth, y


def frame(y: np.ndarray) -> pd.DataFrame:
    return pd.DataFrame(y.T, columns=[str(i) for i in range(len(y))], index=pd.RangeIndex(y.shape[1], name="time"))


def rms(values: np.ndarray) -> float:
    return float(np.sqrt(np.mean(values**2)))


@pytest.fixture(scope="module")
def unlike():
    """Strong edges along rows, weak ones across."""
    return field(5.0, 0.05, 80, 4)


@pytest.fixture(scope="module")
def cleaned(unlike):
    graph, _, y = unlike
    return nareg.clean(frame(y), graph, dynamics="scalar")


@pytest.fixture(scope="module")
def model(unlike):
    graph, _, y = unlike
    return nareg.spacetime.fit(graph, y, noise=0.25, dynamics="scalar", transform=None)


def test_unlike_edges_make_them_the_best_method(unlike, cleaned):
    graph, truth, y = unlike
    errors = cleaned.errors["rmse"]
    assert cleaned.method == EDGES == errors.index[0]
    assert errors[EDGES] < 0.85 * errors["one weight"]
    x = cleaned.x.to_numpy().T
    assert rms(x - truth) < 0.85 * rms(one_weight(graph, y, np.random.default_rng(0)) - truth)
    assert dict(cleaned.reasons)["method"].startswith("edge weights; another method wins: RMSE 0.")
    assert "31 edges and 20 stations, designed from 80 of 80 times, shrunk by" in dict(cleaned.reasons)[EDGES]


@pytest.mark.slow
def test_their_bands_hold_the_truth_and_their_files_are_written(unlike, cleaned, tmp_path):
    _, truth, _ = unlike
    low, high = cleaned.band(0.9)
    inside = np.mean((truth >= low) & (truth <= high))
    assert inside >= 0.9  # the errors at hidden readings have the readings' noise in them
    assert any("flags come from the space-time model" in note for note in cleaned.notes)
    folder = cleaned.save(tmp_path / "clean")
    assert "The estimate comes from: <b>edge weights</b>" in (folder / "report.html").read_text()
    written = pd.read_csv(folder / "clean.csv").drop(columns="time").to_numpy()
    np.testing.assert_allclose(written, cleaned.x.to_numpy(), atol=1e-3)


def test_the_estimate_is_the_filters_on_all_usable_readings(unlike, cleaned):
    graph, _, y = unlike
    model, x = cleaned.model, cleaned.x.to_numpy().T
    usable = np.where(cleaned.flags.to_numpy().T == 4, np.nan, y)
    offset = model.cycles.at(model.grid.seconds)[model.grid.rows].T * model.unit
    expected = nareg.filters.interpolate(graph, cleaned.edges, usable - offset, np.isfinite(usable)).x + offset
    np.testing.assert_allclose(x, expected, rtol=1e-9, atol=1e-9)
    S, c = cleaned.edges.matrix.toarray(), cleaned.edges.data_weight
    for t in range(0, y.shape[1], 7):
        seen = np.isfinite(usable[:, t])
        C = np.where(seen, c, 0.0)
        z = np.where(seen, usable[:, t] - offset[:, t], 0.0)
        np.testing.assert_allclose(x[:, t] - offset[:, t], np.linalg.solve(np.diag(C) + S, C * z), atol=1e-7)


@pytest.mark.slow
def test_hidden_readings_do_not_enter_the_design(unlike, cleaned):
    graph, _, y = unlike
    moved = np.where(cleaned.hidden, y + 1e-6, y)  # by so little that the same readings are hidden
    other = nareg.clean(frame(moved), graph, dynamics="scalar")
    assert cleaned.hidden.sum() > 50
    np.testing.assert_array_equal(other.edges.matrix.toarray(), cleaned.edges.matrix.toarray())
    assert other.errors.loc[EDGES, "rmse"] != cleaned.errors.loc[EDGES, "rmse"]


@pytest.mark.slow
def test_equal_edges_leave_one_weight_competitive():
    graph, _, y = field(0.5, 0.5, 100, 1)
    errors = nareg.clean(frame(y), graph, dynamics="scalar").errors["rmse"]
    assert errors[EDGES] == pytest.approx(errors["one weight"], rel=0.05)


@pytest.mark.slow
def test_the_weights_are_the_designs_for_the_anomalies(model):
    z, _ = anomalies(model)
    seen = np.isfinite(z)
    assert not seen.all()
    found = EdgeWeights(model)
    found.fit()
    expected = nareg.design.edge(
        model.graph, measurements=np.where(seen, z, 0.0), observed=seen, noise=model.unit_noise, data_weight="noise"
    )
    np.testing.assert_allclose(found.design.matrix.toarray(), expected.matrix.toarray(), rtol=1e-12)


@pytest.mark.slow
def test_long_records_are_thinned_evenly(model, monkeypatch):
    monkeypatch.setattr(_methods, "MOST_TIMES", 25)
    found = EdgeWeights(model)
    found.fit()
    assert found.n_times == 25
    z, _ = anomalies(model)
    part = z[:, np.linspace(0, 79, 25).astype(int)]
    seen = np.isfinite(part)
    expected = nareg.design.edge(
        model.graph, measurements=np.where(seen, part, 0.0), observed=seen, noise=model.unit_noise, data_weight="noise"
    )
    np.testing.assert_allclose(found.design.matrix.toarray(), expected.matrix.toarray(), rtol=1e-12)


@pytest.mark.slow
def test_gaps_of_any_kind_are_filled(unlike):
    grid, _, y = unlike
    two = nareg.Graph(sp.csr_array(sp.block_diag([grid.adjacency] * 2)))
    readings = np.vstack([y, y + 10.0])
    readings[3] = np.nan  # a silent station
    readings[:, 5] = np.nan  # a silent time
    readings[len(y) :, 9] = np.nan  # a part of the network without a reading
    model = nareg.spacetime.fit(two, readings, noise=0.25, dynamics="scalar", transform=None)
    found = EdgeWeights(model)
    found.fit()
    x = found.estimate()
    _, offset = anomalies(model)
    level = offset * model.unit
    assert np.isfinite(x).all()
    np.testing.assert_allclose(x[:, 5], level[:, 5], atol=1e-9)
    np.testing.assert_allclose(x[len(y) :, 9], level[len(y) :, 9], atol=1e-9)
    assert np.abs(x[: len(y), 9] - level[: len(y), 9]).max() > 0.1


@pytest.mark.slow
def test_a_transform_is_undone(unlike):
    graph, _, y = unlike
    model = nareg.spacetime.fit(graph, np.exp(y / 3), dynamics="scalar", transform="log")
    edges = EdgeWeights(model)
    edges.fit()
    x = edges.estimate()
    assert (x > 0).all()
    seen = np.isfinite(y)
    assert rms(np.log(x[seen]) * 3 - y[seen]) < 0.7 * np.nanstd(y)


def test_few_times_leave_them_out_with_the_reason(unlike):
    graph, _, y = unlike
    cleaned = nareg.clean(frame(y[:, :15]), graph, dynamics="scalar", hidden=0.2)
    assert cleaned.edges is None
    assert EDGES not in cleaned.errors.index
    left_out = [note for note in cleaned.notes if "'edge weights' was left out" in note]
    assert left_out == [
        "The method 'edge weights' was left out of the comparison: it needs 20 times with two readings or more, and there are "
        "15."
    ]


def test_large_networks_leave_them_out_with_the_reason(model, monkeypatch):
    monkeypatch.setattr(_methods, "MOST_WEIGHTS", 50)
    with pytest.raises(TooLargeError) as refused:
        EdgeWeights(model).fit()
    assert str(refused.value) == "it takes networks of at most 50 stations and edges together, and this one has 51."


@pytest.mark.slow
def test_nothing_is_designed_where_nothing_is_compared(unlike):
    graph, _, y = unlike
    cleaned = nareg.clean(frame(y), graph, dynamics="scalar", hidden=0)
    assert cleaned.edges is None
    assert not len(cleaned.errors)


@pytest.mark.slow
def test_what_the_design_refuses_is_a_note(unlike):
    _, _, y = unlike
    apart = nareg.Graph(sp.csr_array((len(y), len(y))))
    cleaned = nareg.clean(frame(y[:, :30]), apart, dynamics="scalar")
    assert cleaned.edges is None
    assert any("'edge weights' was left out of the comparison: graph has no edges" in note for note in cleaned.notes)


def test_ctrl_c_ends_the_call(model):
    def stop(_: Progress) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        EdgeWeights(model).fit(progress=stop)


@pytest.mark.slow
def test_the_bar_only_moves_on(unlike):
    graph, _, y = unlike
    said: list[Progress] = []
    nareg.clean(frame(y), graph, dynamics="scalar", progress=said.append)
    fractions = [now.fraction for now in said]
    assert fractions == sorted(fractions)
    assert fractions[-1] == 1.0
    assert any(now.stage.startswith("comparing edge weights") for now in said)


@pytest.mark.slow
def test_estimates_far_above_the_readings_are_left_to_the_comparison(model):
    """Hidden readings tell what they are worth: clean does not warn of a filter that it may not take."""
    weights = EdgeWeights(model)
    weights.fit()
    first, _ = upper_edges(weights.design.penalty)
    entries = weights.design.weights.copy()
    entries[0] = 1e-6
    entries[20:][first == 0] = [-6e-6, 5e-6]
    weights.design = replace(weights.design, weights=entries)
    y = np.where(np.arange(20)[:, None] == 0, np.nan, model.readings)
    with pytest.warns(AmplificationWarning):
        filters.interpolate(model.graph, weights.design, np.where(np.isfinite(y), y, 0.0), np.isfinite(y))
    assert np.isfinite(weights.estimate(y)).all()
