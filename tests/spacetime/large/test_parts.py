"""Which rows and stations a large network is learned from, and what a stream does after gaps."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp

import nareg
from nareg.spacetime import fit
from nareg.spacetime._sparse import fitting
from tests.spacetime.large.reference import dense, model_of, process, readings

RNG = np.random.default_rng


def test_windows_are_spread_and_lie_where_readings_are():
    counts = np.full(400, 10)
    assert fitting.windows(counts, 100) == [slice(0, 400)]
    few = fitting.UNKNOWNS // 100
    parts = fitting.windows(counts, few)
    assert len(parts) == 4
    assert [part.start // 100 for part in parts] == [0, 1, 2, 3]
    counts[:300] = 0
    (only,) = fitting.windows(counts, fitting.UNKNOWNS)
    assert counts[only].sum() >= 10 * fitting.FEWEST_ROWS


@pytest.mark.parametrize("seed", range(20))
def test_windows_stay_within_the_record_and_apart(seed):
    rng = RNG(seed)
    counts = rng.integers(0, 3, rng.integers(30, 500)) * rng.integers(0, 2)
    counts[rng.integers(counts.size)] += 1
    parts = fitting.windows(counts, int(rng.integers(1, 40_000)))
    for part, following in zip(parts, [*parts[1:], slice(counts.size, None)], strict=True):
        assert 0 <= part.start < part.stop <= counts.size
        assert part.start <= following.start


@pytest.mark.slow
def test_a_record_that_begins_without_readings(monkeypatch):
    graph, p = process(n=64)
    truth, y = readings(p, 200, RNG(0), 0.1)
    y[:, :60] = np.nan
    monkeypatch.setattr(fitting, "UNKNOWNS", 64 * fitting.FEWEST_ROWS)
    done = fit(graph, y, engine="sparse", rng=RNG(0)).smooth()
    assert np.mean((done.x - truth)[:, 60:] ** 2) < 1.3 * np.mean((dense(p, y).x.T - truth)[:, 60:] ** 2)


def test_a_neighborhood_goes_on_where_a_part_of_the_graph_ends():
    grid = nareg.graphs.grid((12, 12)).adjacency
    graph = nareg.Graph(sp.csr_array(sp.block_diag([sp.csr_array((1, 1)), grid, grid[:30, :30]])))
    counts = np.r_[1000, np.full(144, 9), np.full(30, 8)]
    part = fitting.neighborhood(graph.adjacency, counts, 100)
    assert part.size == 100
    assert (part[:1] > 0).all()
    assert part.max() <= 144
    assert fitting.neighborhood(graph.adjacency, counts, 160).size == 160
    np.testing.assert_array_equal(fitting.neighborhood(graph.adjacency, counts, 1000), np.arange(175))


@pytest.mark.parametrize("rho", [0.9, 0.98, 0.995])
@pytest.mark.slow
def test_a_stream_forgets_its_past_over_a_long_gap(rho):
    graph, p = process(n=64, rho=rho, variance=1.0, noise=0.3)
    ours, theirs = [], []
    for seed in range(6):
        field = p.draw(260, RNG(seed))
        y = field + np.sqrt(p.noise)[:, None] * RNG(seed + 100).standard_normal(field.shape)
        y[:, 100:259] = np.nan
        stream = model_of(graph, p, y[:, :100]).stream(robust=None)
        ours.append(np.mean((stream.update(y[:, 259], time=259).x - field[:, 259]) ** 2))
        theirs.append(np.mean((dense(p, y, smooth=False).x[259] - field[:, 259]) ** 2))
    assert np.mean(ours) < 1.03 * np.mean(theirs)


@pytest.mark.parametrize("rho", [0.5, 0.95])
def test_a_streams_deviations_do_not_hang_on_the_readings_just_before_it(rho):
    graph, p = process(n=64, rho=rho)
    _, y = readings(p, 400, RNG(0), 0.0)
    y[:, 250:300] = np.nan
    model = model_of(graph, p, y[:, :300])
    stream = model.stream(robust=None)
    std = [stream.update(y[:, t]).std for t in range(300, 400)][-1]
    assert np.median(std / np.sqrt(dense(p, y, smooth=False).var[-1])) == pytest.approx(1.0, abs=0.12)


@pytest.mark.slow
@pytest.mark.parametrize("engine", ["dense", "sparse"])
def test_a_station_without_readings_in_the_fit_is_believed_when_it_reads(engine):
    rng = RNG(3)
    graph = nareg.Graph.from_knn(rng.random((25, 2)), 5)
    level = 3 * rng.standard_normal((25, 1))
    field = level + np.cumsum(0.1 * rng.standard_normal(200))
    y = field + 0.5 * rng.standard_normal((25, 200))
    silent = int(np.argmax(np.abs(level - level.mean())))
    early = y[:, :120].copy()
    early[silent] = np.nan
    stream = fit(graph, early, engine=engine, rng=RNG(0)).stream()
    updates = [stream.update(y[:, t]) for t in range(120, 200)]
    clipped = np.mean([u.clipped[silent] for u in updates])
    assert clipped < 0.2


def test_no_readings_have_no_likelihood():
    graph, p = process(n=30)
    _, y = readings(p, 20, RNG(0), 0.0)
    assert model_of(graph, p, y).smooth(np.full((30, 20), np.nan)).log_likelihood == 0.0
