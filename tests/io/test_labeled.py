"""Tables in and out of filters, designs and the space-time model: matched by names, never by order."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import nareg
from nareg.errors import InputError

polars = pytest.importorskip("polars")
xarray = pytest.importorskip("xarray")

N, T = 9, 20
NAMES = tuple("ABCDEFGHI")
GRAPH = nareg.Graph.from_knn(np.random.default_rng(0).random((N, 2)), 3, names=NAMES)
TIMES = pd.date_range("2025-01-01", periods=T, freq="D", name="time")
X = np.random.default_rng(1).standard_normal((N, T))
CLEAN = nareg.filters.denoise(GRAPH, 1.3, X).x


def frame(values: np.ndarray = X) -> pd.DataFrame:
    return pd.DataFrame(values.T, index=TIMES, columns=list(NAMES))


@pytest.mark.slow
@settings(max_examples=25, deadline=None)
@given(order=st.permutations(NAMES))
def test_columns_in_any_order_give_the_same_estimates(order):
    out = nareg.filters.denoise(GRAPH, 1.3, frame()[list(order)]).x
    assert list(out.columns) == list(order)
    pd.testing.assert_index_equal(out.index, TIMES)
    np.testing.assert_array_equal(out[list(NAMES)].to_numpy().T, CLEAN)


def test_polars_keeps_its_columns():
    table = polars.DataFrame({"time": TIMES.to_numpy(), **{name: frame()[name].to_numpy() for name in NAMES[::-1]}})
    out = nareg.filters.denoise(GRAPH, 1.3, table).x
    assert out.columns == table.columns
    assert (out["time"] == table["time"]).all()
    np.testing.assert_array_equal(out.select(NAMES).to_numpy().T, CLEAN)


@pytest.mark.parametrize("dims", [("station", "time"), ("time", "station")])
def test_xarray_keeps_dimensions_coordinates_and_unit(dims):
    table = xarray.DataArray(
        X, dims=("station", "time"), attrs={"units": "K"},
        coords={"station": list(NAMES), "time": TIMES, "height": ("station", np.arange(9.0))},
    ).transpose(*dims)  # fmt: skip
    out = nareg.filters.denoise(GRAPH, 1.3, table).x
    assert out.dims == dims
    assert out.attrs == {"units": "K"}
    assert set(out.coords) == {"station", "time", "height"}
    np.testing.assert_array_equal(out.transpose("station", "time").to_numpy(), CLEAN)


@pytest.mark.parametrize("dims", [("station", "time"), ("time", "station")])
def test_a_pint_quantity_stays_one(dims):
    pytest.importorskip("pint_xarray")
    coordinates = {"station": list(NAMES), "time": TIMES}
    plain = xarray.DataArray(X, dims=("station", "time"), attrs={"units": "K"}, coords=coordinates).transpose(*dims)
    out = nareg.filters.denoise(GRAPH, 1.3, plain.pint.quantify()).x
    assert out.dims == dims
    assert str(out.pint.units) == "kelvin"
    np.testing.assert_array_equal(out.pint.dequantify().transpose("station", "time").to_numpy(), CLEAN)


def test_a_series_is_one_time():
    out = nareg.filters.denoise(GRAPH, 1.3, pd.Series(X[::-1, 0], index=NAMES[::-1], name="today")).x
    assert out.name == "today"
    np.testing.assert_array_equal(out[list(NAMES)].to_numpy(), nareg.filters.denoise(GRAPH, 1.3, X[:, 0]).x)


def test_gaps_of_a_table_are_interpolated():
    seen = np.random.default_rng(2).random((N, T)) > 0.2
    out = nareg.filters.interpolate(GRAPH, 1.3, frame(np.where(seen, X, np.nan))).x
    np.testing.assert_array_equal(out.to_numpy().T, nareg.filters.interpolate(GRAPH, 1.3, X, seen).x)


def test_gaps_of_an_array_are_interpolated():
    seen = np.random.default_rng(2).random((N, T)) > 0.2
    out = nareg.filters.interpolate(GRAPH, 1.3, np.where(seen, X, np.nan)).x
    np.testing.assert_array_equal(out, nareg.filters.interpolate(GRAPH, 1.3, X, seen).x)


def test_float32_stays_float32():
    assert (nareg.filters.denoise(GRAPH, 1.3, frame().astype(np.float32)).x.dtypes == np.float32).all()


def test_a_table_is_not_changed():
    table = frame()
    nareg.filters.denoise(GRAPH, 1.3, table)
    pd.testing.assert_frame_equal(table, frame())


@pytest.mark.parametrize(
    "design",
    [
        lambda y: nareg.design.node_invariant(GRAPH, rule="gcv", measurements=y),
        lambda y: nareg.design.blind(GRAPH, measurements=y, noise=0.5),
        lambda y: nareg.design.edge(GRAPH, measurements=y, noise=0.5),
        lambda y: nareg.design.exact(GRAPH, signals=y, noise=0.5),
        lambda y: nareg.design.prony(GRAPH, signals=y, noise=0.5),
        lambda y: nareg.design.relaxation(GRAPH, signals=y, noise=0.5),
    ],
    ids=["node_invariant", "blind", "edge", "exact", "prony", "relaxation"],
)
def test_designs_take_tables(design):
    np.testing.assert_array_equal(design(frame()[list(NAMES[::-1])]).weights, design(X).weights)


BASELINES = nareg.baselines
OTHERS = {
    "prepared": lambda y: nareg.filters.prepare(GRAPH, 1.3).denoise(y).x,
    "prepared, gaps": lambda y: nareg.filters.prepare(GRAPH, 1.3).interpolate(y).x,
    "gft": lambda y: nareg.spectral.gft(GRAPH, y),
    "filter bank": lambda y: nareg.spectral.heat(GRAPH).analyze(y),
    "bandlimited": lambda y: BASELINES.bandlimited(GRAPH, y, n_frequencies=3),
    "kernel_ridge": lambda y: BASELINES.kernel_ridge(GRAPH, y),
    "lmmse": lambda y: BASELINES.lmmse(GRAPH, y, signals=X, noise=0.5),
    "tikhonov_regression": lambda y: BASELINES.tikhonov_regression(GRAPH, y, tau=0.5),
    "total_variation": lambda y: BASELINES.total_variation(GRAPH, y, weight=0.1),
}
OF_SERIES = {
    "kriging": lambda y: BASELINES.kriging(GRAPH, y, parameters=(0.1, 1.0, 0.5)).x,
    "neighbor_median": lambda y: BASELINES.neighbor_median(GRAPH, y),
    "graph_trss": lambda y: BASELINES.graph_trss(GRAPH, y, weight=0.1, epsilon=0.1),
    "a program that is changed": lambda y: (
        nareg.design.programs.prony(GRAPH, signals=X[:, :3] ** 2, noise=0.5).set(signals=y).task.R
    ),
}


@pytest.mark.parametrize("times", [N, T])
@pytest.mark.parametrize("name", [*OTHERS, *OF_SERIES])
def test_all_that_takes_a_graph_takes_tables_of_any_order(name, times):
    """Also where there are as many times as stations, and a table could pass for an array."""
    call = {**OTHERS, **OF_SERIES}[name]
    expected, out = call(X[:, :times]), call(frame()[:times][list(NAMES[::-1])])
    out = out[list(NAMES)].to_numpy().T if isinstance(out, pd.DataFrame) else out
    np.testing.assert_allclose(out, expected, rtol=0, atol=1e-12)


@pytest.mark.parametrize("name", OTHERS)
def test_and_series(name):
    expected, out = OTHERS[name](X[:, 0]), OTHERS[name](pd.Series(X[::-1, 0], index=NAMES[::-1]))
    np.testing.assert_allclose(out[list(NAMES)].to_numpy() if isinstance(out, pd.Series) else out, expected, rtol=0, atol=1e-12)


def test_a_frame_in_the_place_of_a_graph_names_its_nodes():
    table, order = frame()[list(NAMES[::-1])], list(NAMES[3:] + NAMES[:3])
    L = pd.DataFrame(GRAPH.laplacian().toarray(), index=NAMES, columns=NAMES)
    out = nareg.filters.denoise(L.loc[:, order], 1.3, table).x
    np.testing.assert_allclose(out[list(NAMES)].to_numpy().T, CLEAN, rtol=0, atol=1e-12)
    places = pd.DataFrame(GRAPH.coordinates, index=NAMES, columns=["x", "y"])
    expected = BASELINES.kriging(GRAPH, X, parameters=(0.1, 1.0, 0.5)).x
    np.testing.assert_allclose(BASELINES.kriging(places, table, parameters=(0.1, 1.0, 0.5)).x, expected, rtol=0, atol=1e-12)


def test_features_have_a_row_per_node():
    features, labels = pd.DataFrame(X[:, :5], index=NAMES), pd.Series(np.arange(N) % 3, index=NAMES)
    shuffled, classes = features.sample(frac=1, random_state=0), labels.sample(frac=1, random_state=1)
    weighted = nareg.gnn.similarity_weighted
    assert weighted(GRAPH, shuffled) == weighted(GRAPH, X[:, :5])
    expected = nareg.gnn.propagate(GRAPH, X[:, :5], lam=3.0)
    np.testing.assert_array_equal(nareg.gnn.propagate(GRAPH, shuffled, lam=3.0), expected)
    np.testing.assert_array_equal(nareg.gnn.propagate(GRAPH, features.reset_index(drop=True), lam=3.0), expected)
    with pytest.raises(InputError, match="x has no entry for station 'A'"):
        nareg.gnn.propagate(GRAPH, features.rename({"A": "Z"}), lam=3.0)
    fit = nareg.herta.fit
    np.testing.assert_array_equal(fit(GRAPH, shuffled, classes).weights, fit(GRAPH, X[:, :5], labels.to_numpy()).weights)
    plain = nareg.Graph((GRAPH.adjacency > 0).astype(float), names=NAMES)
    models = [
        nareg.unlearning.CertifiedGPR(lam=0.1, alpha=0.1, rng=np.random.default_rng(0)).fit(plain, x, y, np.arange(N))
        for x, y in ((shuffled, classes), (X[:, :5], labels.to_numpy()))
    ]
    np.testing.assert_array_equal(models[0].coefficients, models[1].coefficients)


def test_classes_in_any_order():
    labels, seen = pd.Series(list("aabbccabc"), index=NAMES), pd.Series(np.arange(N) % 4 > 0, index=NAMES)
    out = BASELINES.tikhonov_classification(GRAPH, labels[::-1], seen.sample(frac=1, random_state=0))
    expected = BASELINES.tikhonov_classification(GRAPH, np.array(list("aabbccabc")), seen.to_numpy())
    assert out.labels.tolist() == expected.labels.tolist()
    np.testing.assert_array_equal(out.scores, expected.scores)


def test_a_graph_is_learned_between_the_columns():
    learned = nareg.graphs.learn(frame(), neighbors=3).graph
    assert learned == nareg.graphs.learn(X, neighbors=3, names=NAMES).graph
    assert nareg.graphs.learn(frame().set_axis(range(N), axis=1), neighbors=3).graph.names is None


@pytest.mark.parametrize(
    "call", [BASELINES.pca, BASELINES.network_mean, lambda y: BASELINES.rolling_mean(y, 3), BASELINES.interpolate_in_time]
)
def test_what_has_no_graph_refuses_tables(call):
    with pytest.raises(InputError, match="y is a table, and no graph names its stations"):
        call(frame())


def test_noise_and_risk_take_tables():
    shuffled = frame()[list(NAMES[::-1])]
    np.testing.assert_array_equal(nareg.design.estimate_noise(GRAPH, shuffled), nareg.design.estimate_noise(GRAPH, X))
    risks = [nareg.design.risk(GRAPH, 1.0, signals=signals, noise=0.5).mse for signals in (shuffled, X)]
    assert risks[0] == risks[1]


@pytest.mark.slow
def test_the_space_time_model_takes_times_and_gives_tables():
    rng = np.random.default_rng(3)
    walk = np.cumsum(rng.standard_normal((1, T)), axis=1) + 0.3 * rng.standard_normal((N, T))
    model = nareg.spacetime.fit(GRAPH, frame(walk)[list(NAMES[::-1])], dynamics="scalar", rng=np.random.default_rng(0))
    same = nareg.spacetime.fit(GRAPH, walk, times=TIMES.to_numpy(), dynamics="scalar", rng=np.random.default_rng(0))
    smoothed = model.smooth()
    np.testing.assert_array_equal(smoothed.x, same.smooth().x)
    table = smoothed.to_frame()
    assert list(table.columns) == list(NAMES)
    np.testing.assert_array_equal(table.index.to_numpy(), TIMES.to_numpy())
    np.testing.assert_array_equal(smoothed.to_frame("std").to_numpy().T, smoothed.std)
    data = smoothed.to_xarray(0.5)
    assert dict(data.sizes) == {"station": N, "time": T}
    assert set(data.coords) == {"station", "time", "x", "y"}
    np.testing.assert_array_equal(data.estimate, smoothed.x)
    lower, upper = smoothed.interval(0.5)
    np.testing.assert_array_equal(data.lower, lower)
    np.testing.assert_array_equal(data.upper, upper)
    later = frame(walk).set_axis(TIMES + pd.Timedelta(days=T))
    np.testing.assert_array_equal(model.smooth(later).x, model.smooth(walk, times=later.index.to_numpy()).x)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda f: f.T, "pass y.T"),
        (lambda f: f.drop(columns="D"), "no column for station 'D'"),
        (lambda f: f.assign(Q=1.0), "'Q' is no station"),
        (lambda f: f.assign(B="x"), "numbers are expected"),
        (lambda f: pd.concat([f, f[["A"]]], axis=1), "'A' appears twice"),
        (lambda f: pd.concat({"t": f}, axis=1), "2 levels of columns"),
    ],
)
def test_tables_that_do_not_fit_are_refused(change, message):
    with pytest.raises(InputError, match=message):
        nareg.filters.denoise(GRAPH, 1.3, change(frame()))


def test_a_graph_without_names_takes_columns_in_order():
    bare = nareg.Graph(GRAPH.adjacency)
    np.testing.assert_array_equal(nareg.filters.denoise(bare, 1.3, frame()).x.to_numpy().T, CLEAN)
    with pytest.raises(InputError, match="8 columns but the graph has 9 nodes"):
        nareg.filters.denoise(bare, 1.3, frame().iloc[:, 1:])


def test_warnings_point_at_the_callers_line():
    weights = np.array([1.0, 1e-9, *[1.0] * (N - 2)])
    seen = np.arange(N) != 1
    for y in (X, frame()):
        with pytest.warns(nareg.errors.AmplificationWarning) as caught:
            nareg.filters.interpolate(GRAPH, weights, y, seen)
        assert caught[0].filename == __file__


def per_node(rng):
    """A graph with names, values per node, and a positive definite second moment."""
    names = [f"S{i}" for i in range(6)]
    graph = nareg.Graph.from_knn(rng.random((6, 2)), 3, names=names)
    factor = rng.standard_normal((6, 9))
    return graph, names, rng.uniform(0.5, 2, 6), rng.uniform(0.1, 0.4, 6), factor @ factor.T / 9, rng.standard_normal((6, 9))


CALLS = {
    "weights of denoise": (0, lambda g, w, v, C, x: nareg.filters.denoise(g, w, x).x),
    "weights of uncertainty": (0, lambda g, w, v, C, x: nareg.filters.uncertainty(g, w, noise=0.1)),
    "data_weight of denoise": (0, lambda g, w, v, C, x: nareg.filters.denoise(g, 1.0, x, data_weight=w).x),
    "noise of exact": (1, lambda g, w, v, C, x: nareg.design.exact(g, signals=x, noise=v).objective),
    "second_moment of exact": (2, lambda g, w, v, C, x: nareg.design.exact(g, second_moment=C, noise=0.1).objective),
    "upper of exact": (1, lambda g, w, v, C, x: nareg.design.exact(g, signals=x, noise=0.1, upper=v).objective),
    "bounds of minmax": (0, lambda g, w, v, C, x: nareg.design.minmax(g, signal_low=-2.0, signal_high=w, noise=0.1).objective),
    "signal of conditions": (0, lambda g, w, v, C, x: nareg.design.conditions(g, 1.0, strength=1.0, signal=w, noise=0.1).mse),
}


@pytest.mark.parametrize("call", CALLS)
def test_values_per_node_are_matched_by_name(rng, call):
    """They were taken by position: the values of other stations, in silence."""
    graph, names, *values = per_node(rng)
    which, function = CALLS[call]
    expected = function(graph, *values)
    order = rng.permutation(6)
    labels = [names[i] for i in order]
    value = values[which]
    values[which] = (
        pd.DataFrame(value[np.ix_(order, order)], labels, labels) if value.ndim == 2 else pd.Series(value[order], labels)
    )
    np.testing.assert_allclose(function(graph, *values), expected, rtol=1e-6)


def test_values_of_other_nodes_are_refused(rng):
    graph, names, w, *_, x = per_node(rng)
    with pytest.raises(InputError, match="weights has no entry for station 'S5'"):
        nareg.filters.denoise(graph, pd.Series(w, [*names[:-1], "X"]), x)
    for numbers in (
        graph,
        nareg.Graph(graph.adjacency, names=list("543210")),
        nareg.Graph(graph.adjacency, names=list("123456")),
    ):
        counted = nareg.filters.denoise(numbers, pd.Series(w), x).x  # by position, as an array
        np.testing.assert_array_equal(counted, nareg.filters.denoise(numbers, w, x).x)
    others = [*names[:-1], "X"]
    with pytest.raises(InputError, match="second_moment has no entry for station 'S5'"):
        nareg.design.exact(graph, second_moment=pd.DataFrame(np.eye(6), others, others), noise=0.1)
