"""One table of bad input through the API: every case a clear sentence of ours, or a right answer."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp

import nareg
from nareg import baselines, design, filters, spectral
from nareg.errors import NaregError

N = 9
G = nareg.graphs.grid((3, 3))
PLACES = np.random.default_rng(1).random((N, 2))
X = np.random.default_rng(0).standard_normal((N, 12)) + 2.0

#: name -> a call of one signal argument: these are all the functions that take signals
TAKES_SIGNAL = {
    "denoise": lambda y: filters.denoise(G, 1.0, y).x,
    "interpolate": lambda y: filters.interpolate(G, 1.0, y, np.arange(N) != 4).x,
    "kernel_ridge": lambda y: baselines.kernel_ridge(G, y),
    "total_variation": lambda y: baselines.total_variation(G, y, weight=0.1),
    "bandlimited": lambda y: baselines.bandlimited(G, y, n_frequencies=3),
    "lmmse": lambda y: baselines.lmmse(G, y, second_moment=np.eye(N), noise=0.5),
    "risk": lambda y: design.risk(G, 1.0, signals=y, noise=0.5),
    "node_invariant": lambda y: design.node_invariant(G, rule="oracle", signals=y, noise=0.5),
    "gcv": lambda y: design.node_invariant(G, rule="gcv", measurements=y),
    "prony": lambda y: design.prony(G, signals=y, noise=0.5),
    "relaxation": lambda y: design.relaxation(G, signals=y, noise=0.5),
    "exact": lambda y: design.exact(G, signals=y, noise=0.5),
    "blind": lambda y: design.blind(G, measurements=y, noise=0.1),
    "estimate_noise": lambda y: design.estimate_noise(G, y),
    "gft": lambda y: spectral.gft(G, y),
    "filter_bank": lambda y: spectral.heat(G, [1.0, 5.0]).analyze(y),
    "learn": lambda y: nareg.graphs.learn(y, neighbors=3),
    "tikhonov_regression": lambda y: baselines.tikhonov_regression(G, y, tau=0.5),
    "total_variation_gaps": lambda y: baselines.total_variation(G, y, weight=0.1, observed=np.arange(N) != 4),
    "pca": lambda y: baselines.pca(y, rank=2),
    "kriging": lambda y: baselines.kriging(PLACES, y),
    "interpolate_default": lambda y: filters.interpolate(G, 1.0, y).x,
}
#: Cases that are no mistake: NaN marks a missing reading, and without a graph any number of rows may be meant.
NO_MISTAKE = {
    *(("tikhonov_regression", case) for case in ("nan",)),
    *(("interpolate_default", case) for case in ("nan", "infinity")),
    *(("learn", case) for case in ("too short", "transposed")),
    *(("pca", case) for case in ("nan", "huge", "too short", "transposed")),
    *(("kriging", case) for case in ("nan",)),
}
#: What else is said than of signals on a graph.
OTHER_WORDS = {
    ("pca", "no columns"): "at least one station and one time are needed",
    ("kriging", "no columns"): "at least one station and one time are needed",
    ("kriging", "too short"): "rows are stations",
    ("kriging", "transposed"): "rows are stations",
    ("total_variation_gaps", "nan"): "observed is True there: set it to False",
    ("total_variation_gaps", "infinity"): "is inf but observed",
}


def with_value(value: float) -> np.ndarray:
    y = X.copy()
    y[3, 5] = value
    return y


BAD_SIGNALS = {
    "nan": (with_value(np.nan), r"\[3, 5\] is nan"),
    "infinity": (with_value(np.inf), r"\[3, 5\] is inf"),
    "huge": (with_value(1e200), "whose square overflows"),
    "too short": (X[:-1], "rows are nodes"),
    "transposed": (X.T, r"it looks transposed: pass \w+\.T"),
    "boolean": (X > 2, "is boolean"),
    "text": (np.full(N, "warm"), "real numbers are expected"),
    "complex": (X + 1j, "real numbers are expected"),
    "objects": (np.full(N, None), "real numbers are expected"),
    "three axes": (X[:, :, None], "has shape"),
    "no columns": (X[:, :0], "at least one signal"),
    "ragged": ([[1.0, 2.0], [1.0]] * 4 + [[1.0]], "different lengths"),
    "sparse": (sp.csr_array(X), "is a sparse matrix"),
    "masked": (np.ma.masked_greater(X, 3), "is a masked array, whose mask would be lost"),
}


@pytest.mark.parametrize("case", BAD_SIGNALS)
@pytest.mark.parametrize("name", TAKES_SIGNAL)
def test_bad_signals(name, case):
    value, words = BAD_SIGNALS[case]
    if (name, case) in NO_MISTAKE:
        TAKES_SIGNAL[name](value)
        return
    words = OTHER_WORDS.get((name, case), words)
    if name == "interpolate" and case == "nan":
        words = "observed is True there: set it to False"
    if name == "interpolate" and case == "infinity":
        words = "is inf but observed"
    with pytest.raises(NaregError, match=words) as caught:
        TAKES_SIGNAL[name](value)
    assert str(caught.value).count("\n") == 0


@pytest.mark.slow
@pytest.mark.parametrize("name", [n for n in TAKES_SIGNAL if n not in ("estimate_noise", "learn", "pca", "kriging")])
@pytest.mark.parametrize("form", ["one signal", "T = 1", "float32", "integers", "list", "read-only", "Fortran order"])
def test_unusual_but_right_signals_give_an_answer(name, form):
    y = {
        "one signal": X[:, 0],
        "T = 1": X[:, :1],
        "float32": X.astype(np.float32),
        "integers": np.round(10 * X).astype(int),
        "list": X.tolist(),
        "read-only": X.copy(),
        "Fortran order": np.asfortranarray(X),
    }[form]
    if form == "read-only":
        y.flags.writeable = False
    original = np.array(y, copy=True)
    result = TAKES_SIGNAL[name](y)
    np.testing.assert_array_equal(y, original)
    if isinstance(result, np.ndarray):
        assert result.shape == np.shape(y) + (2,) * (name == "filter_bank")
        assert result.dtype == (np.float32 if form == "float32" else np.float64)
        assert np.isfinite(result).all()
    elif hasattr(result, "weights"):
        assert np.isfinite(result.weights).all()
        assert np.isfinite(result.objective)


@pytest.mark.parametrize(
    ("weights", "words"),
    [
        (np.nan, "weights is nan"),
        (np.full(N, np.inf), r"weights\[0\] is inf"),
        (np.ones(N - 1), "weights has shape"),
        ("heavy", "dtype"),
        (np.ones(N, bool), "weights is boolean"),
        (sp.csr_array(np.triu(np.ones((N, N)))), "weights is not symmetric"),
        (sp.csr_array(np.full((N, N), np.nan)), "weights holds a value that is not finite"),
        (np.eye(N - 1), "weights .* has shape"),
    ],
)
def test_bad_weights(weights, words):
    for call in (
        lambda: filters.denoise(G, weights, X),
        lambda: design.risk(G, weights, signals=X, noise=1.0),
        lambda: filters.uncertainty(G, weights, noise=1.0),
    ):
        with pytest.raises(NaregError, match=words):
            call()


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"method": "lu"}, "method is 'lu'; choose one of"),
        ({"tol": 0.0}, "tol is 0"),
        ({"tol": "small"}, "tol is 'small', a number"),
        ({"max_iterations": 0}, "max_iterations is 0"),
        ({"max_iterations": 2.5}, "an integer"),
        ({"data_weight": -1.0}, r"data_weight\[0\] is -1, negative"),
        ({"data_weight": np.zeros(N)}, "data_weight is zero everywhere"),
        ({"data_weight": np.ones(4)}, "data_weight has shape"),
        ({"data_weight": np.full(N, np.nan)}, r"data_weight\[0\] is nan"),
    ],
)
def test_bad_options(options, words):
    with pytest.raises(NaregError, match=words):
        filters.denoise(G, 1.0, X, **options)


@pytest.mark.parametrize(
    ("observed", "words"),
    [
        (np.zeros(N, bool), "marks nothing as observed"),
        (np.ones(N), "a boolean mask is expected"),
        (np.arange(4), "mask = np.zeros"),
        (np.ones(N - 1, bool), "observed has shape"),
        (np.ones((N, 5), bool), "observed has shape"),
        (np.arange(N)[:, None] * np.ones(12) < np.array([0] + [9] * 11), "nothing as observed in signal 0"),
    ],
)
def test_bad_masks(observed, words):
    for call in (
        lambda: filters.interpolate(G, 1.0, X, observed),
        lambda: baselines.kernel_ridge(G, X, observed=observed),
        lambda: baselines.lmmse(G, X, second_moment=np.eye(N), noise=1.0, observed=observed),
    ):
        with pytest.raises(NaregError, match=words):
            call()


@pytest.mark.parametrize(
    ("operator", "words"),
    [
        (-np.eye(N), "negative diagonal"),
        (np.eye(N)[:4], "square"),
        (np.array([[0.0, 1.0], [1.0, 0.0]]), "a zero on its diagonal with entries beside it: it must be positive semidefinite"),
        (np.array([[1.0, 0.5], [0.0, 1.0]]), "not symmetric"),
        (np.zeros((0, 0)), "a matrix without rows: a graph needs at least one node"),
        ("graph", "graph is in a folder, out is None"),
        (None, "is None: pass real numbers"),
    ],
)
def test_bad_operators_in_place_of_a_graph(operator, words):
    with pytest.raises(NaregError, match=words):
        filters.denoise(operator, 1.0, np.ones(N))


def test_singular_noise_covariance_is_an_answer_where_it_can_be():
    """Rank-one noise: every design and the LMMSE filter work; only what divides by it refuses."""
    one = np.ones((N, N))
    for d in (
        design.exact(G, signals=X, noise=one),
        design.relaxation(G, signals=X, noise=one),
        design.prony(G, signals=X, noise=one),
        design.node_invariant(G, rule="oracle", signals=X, noise=one),
    ):
        assert np.isfinite(d.weights).all()
        assert d.certificate.violation < 1e-9
    assert np.isfinite(baselines.lmmse(G, X, second_moment=one, noise=one)).all()
    assert design.risk(G, 1.0, second_moment=one, noise=one).lmmse == pytest.approx(0.5)


def test_zero_noise_is_an_answer():
    for d in (design.exact(G, signals=X, noise=0.0), design.relaxation(G, signals=X, noise=0.0)):
        assert design.risk(G, d, signals=X, noise=0.0).nmse < 1e-6


def test_graphs_of_one_and_two_nodes_and_without_edges():
    lone = nareg.Graph(np.zeros((1, 1)))
    np.testing.assert_array_equal(filters.denoise(lone, 5.0, np.array([3.0])).x, [3.0])
    pair = nareg.Graph([[0, 1], [1, 0]])
    np.testing.assert_allclose(filters.denoise(pair, 1.0, np.array([3.0, 0.0])).x, [2.0, 1.0])
    assert design.exact(pair, signals=np.array([1.0, 2.0]), noise=0.1).status.ok
    scattered = nareg.Graph(np.zeros((3, 3)))
    np.testing.assert_array_equal(filters.denoise(scattered, 2.0, np.arange(3.0)).x, np.arange(3.0))
    for call in (
        lambda: design.exact(scattered, signals=np.ones(3), noise=1.0),
        lambda: design.relaxation(scattered, signals=np.ones(3), noise=1.0),
        lambda: design.prony(scattered, signals=np.ones(3), noise=1.0),
        lambda: design.blind(scattered, measurements=np.ones((3, 5)), noise=0.1),
    ):
        with pytest.raises(NaregError, match="no edges"):
            call()


def test_disconnected_graph_with_an_isolated_node_is_designed_for():
    A = np.zeros((7, 7))
    A[:3, :3], A[3:6, 3:6] = 1 - np.eye(3), 1 - np.eye(3)
    g = nareg.Graph(A)
    Y = np.random.default_rng(1).standard_normal((7, 20)) + 2
    for d in (
        design.exact(g, signals=Y, noise=0.5),
        design.relaxation(g, signals=Y, noise=0.5),
        design.prony(g, signals=Y, noise=0.5),
        design.node_invariant(g, rule="oracle", signals=Y, noise=0.5),
    ):
        assert np.isfinite(d.weights).all(), d.method
        x = filters.denoise(g, d, Y).x
        np.testing.assert_allclose(x[6], Y[6])


def test_zero_signals_missing_noise_and_unreachable_nodes_are_named():
    zero, A = np.zeros(N), np.zeros((6, 6))
    A[0, 1] = A[1, 0] = A[2, 3] = A[3, 2] = 1
    for call, words in (
        (lambda: design.prony(G, signals=zero, noise=1.0), "zero everywhere"),
        (lambda: design.relaxation(G, signals=zero, noise=1.0), "zero everywhere"),
        (lambda: design.minmax(G, signal_low=0.0, signal_high=0.0, noise=1.0), "zero everywhere"),
        (lambda: design.node_invariant(G, signals=zero, noise=1.0), "zero everywhere"),
        (lambda: design.exact(G, signals=X, noise=None), "noise is None: exact needs"),
        (lambda: design.relaxation(G, signals=X, noise=None), "noise is None: relaxation needs"),
        (lambda: design.conditions(G, np.ones(N), strength=1.0, signal=np.ones(N), noise=None), "noise is None"),
        (lambda: design.conditions(nareg.Graph(A * 0), np.ones(6), strength=1.0, signal=np.ones(6), noise=1.0), "no edges"),
        (lambda: design.exact(nareg.Graph(A), signals=np.arange(1.0, 7), noise=0.1, data_weight=[1, 1, 1, 1, 1, 0]), "node 5"),
        (lambda: design.estimate_noise(G, np.ones((N, 5))), "do not vary"),
        (lambda: design.estimate_noise(G, np.repeat(X[:, :1], 10, axis=1)), "do not vary"),
        (
            lambda: filters.denoise(G, design.edge(G, signals=X, noise=0.5).weights, X),
            "an edge design on this graph: pass the design",
        ),
        (lambda: filters.denoise(G, 1.0, X + 1j), r"pass y.real, then y.imag"),
        (lambda: filters.denoise(G, None, X), "weights is None: pass real numbers"),
        (
            lambda: filters.denoise(sp.linalg.aslinearoperator(np.eye(N)), 1.0, X),
            "graph is a .*LinearOperator: pass real numbers",
        ),
        (lambda: filters.denoise(G, 1.0, X, data_weight="noise"), "names are for designs"),
        (lambda: filters.denoise(G, np.ones((N, 1)), X), r"weights.ravel\(\)"),
        (lambda: filters.denoise(G.to_networkx(), 1.0, X), "from_networkx"),
        (lambda: baselines.total_variation(G, X, weight=1.0, max_iterations=0), "max_iterations is 0"),
    ):
        with pytest.raises(NaregError, match=words):
            call()


@pytest.mark.parametrize("bounds", [{"upper": 1e-6}, {"lower": [0] * 4 + [1] * 5, "upper": [0.25] * 4 + [4] * 5}])
def test_every_design_keeps_its_bounds(bounds):
    low, high = np.asarray(bounds.get("lower", 0.0)), np.asarray(bounds["upper"])
    bounds = {"lower": bounds.get("lower", 0.0), "upper": bounds["upper"]}
    for d in (
        design.blind(G, measurements=X, noise=0.2, **bounds),
        design.blind(G, measurements=X[:, :2], noise=0.2, **bounds),
        design.exact(G, signals=X, noise=0.2, **bounds),
        design.relaxation(G, signals=X, noise=0.2, **bounds),
    ):
        assert (d.weights**2 >= low - 1e-12).all()
        assert (d.weights**2 <= high * (1 + 1e-9)).all()
        assert d.certificate.violation <= 1e-9


@pytest.mark.parametrize("value", [np.array([1.0, 2.0]), np.bool_(True), np.datetime64("2020"), 10**400, "1", None, 1j])
def test_numbers_that_are_none(value):
    with pytest.raises(NaregError, match="tol is"):
        filters.denoise(G, 1.0, X, tol=value)


def test_a_choice_is_a_text():
    with pytest.raises(NaregError, match="rule is array"):
        design.node_invariant(G, rule=np.array(["gcv", "sure"]), measurements=X)


@pytest.mark.parametrize("case", BAD_SIGNALS)
def test_bad_coefficients(case):
    """Linear in them: large ones, and none, are no mistake."""
    value, words = BAD_SIGNALS[case]
    if case in ("huge", "no columns"):
        spectral.igft(G, value)
        return
    words = {"too short": "pass a row each", "transposed": "pass a row each"}.get(case, words)
    with pytest.raises(NaregError, match=words):
        spectral.igft(G, value)


@pytest.mark.parametrize("case", BAD_SIGNALS)
def test_bad_labels(case):
    value, _ = BAD_SIGNALS[case]
    if case == "text":
        assert set(baselines.tikhonov_classification(G, value, np.arange(N) < 8).labels) == {"warm"}
        return
    with pytest.raises(NaregError, match="labels ") as caught:
        baselines.tikhonov_classification(G, value, np.arange(N) < 8)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"count": 0}, "count is 0"),
        ({"count": 20}, "count is 20"),
        ({"noise": 0.0}, "noise is 0"),
        ({"data_weight": -np.ones(N)}, "data_weight.* negative"),
        ({"observed": np.ones(N - 1, bool)}, "observed"),
        ({"candidates": [N]}, "candidates"),
        ({"candidates": np.zeros(N, bool)}, "candidates|count"),
        ({"weights": np.full(N, np.nan)}, r"weights\[0\] is nan"),
    ],
)
def test_bad_placements(options, words):
    with pytest.raises(NaregError, match=words):
        design.placement(G, **{"weights": 1.0, **options})
