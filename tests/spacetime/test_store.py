"""Models and streams in files: bit for bit, and every damaged or crafted file refused in a sentence."""

from __future__ import annotations

import contextlib
import json
import os

import numpy as np
import pytest

import nareg
from nareg.errors import InputError
from nareg.spacetime import load, load_stream
from nareg.spacetime._readings import transforms as _transforms
from tests.spacetime.reference import model_of, network, parameters, random_dynamics


def refined(order=2, kind="full"):
    """A model with dates, a logarithm, excluded readings and free dynamics."""
    rng = np.random.default_rng(0)
    graph = nareg.Graph.from_knn(np.column_stack([rng.uniform(40, 50, 5), rng.uniform(0, 10, 5)]), 2, metric="haversine",
                                 names=["Ä", "b c", "d", "e", "f"])  # fmt: skip
    times = np.datetime64("2024-01-01") + np.concatenate([np.arange(20), [40, 41]]) * np.timedelta64(1, "h")
    y = np.exp(rng.standard_normal((5, 22)))
    y[1, 3] = np.nan
    return model_of(
        graph, y, process=parameters(5, phi=(0.8, -0.1)[:order], reach=300.0), dynamics=random_dynamics(rng, 5, order, kind),
        transform=_transforms.Transform("log", 0.3), times=times, df=4.0, excluded=y > 5, level=0.4, unit=0.7,
    )  # fmt: skip


@pytest.mark.parametrize(("order", "kind"), [(1, "scalar"), (1, "diagonal"), (2, "full")])
def test_model_comes_back_bit_for_bit(order, kind, tmp_path):
    model = refined(order, kind)
    model.save(tmp_path / "model.npz")
    again = load(tmp_path / "model.npz")
    for act in (
        lambda m: m.smooth(), lambda m: m.smooth(m.readings, times=m.times), lambda m: m.forecast(3),
        lambda m: m.interpolate_at([[45.0, 5.0]]),
    ):  # fmt: skip
        one, other = act(model), act(again)
        for name in ("x", "std", "median", "times", "noise"):
            np.testing.assert_array_equal(getattr(one, name), getattr(other, name))
        assert one.log_likelihood == other.log_likelihood
        np.testing.assert_array_equal(one.interval(0.8), other.interval(0.8))
    np.testing.assert_array_equal(model.scores(), again.scores())
    np.testing.assert_array_equal(model.simulate(np.random.default_rng(1)), again.simulate(np.random.default_rng(1)))
    assert again.graph == model.graph
    assert again.summary() == model.summary()
    assert again.details == model.details
    y = np.full(5, 1.5)
    np.testing.assert_array_equal(model.stream().update(y).x, again.stream().update(y).x)


def test_graph_without_names_or_coordinates_comes_back(tmp_path):
    graph = nareg.Graph(np.diag(np.ones(3), 1) + np.diag(np.ones(3), -1))
    model = model_of(graph, np.random.default_rng(0).standard_normal((4, 20)), process=parameters(4, family="graph"))
    model.save(tmp_path / "m.npz")
    again = load(tmp_path / "m.npz")
    assert again.graph == graph
    np.testing.assert_array_equal(model.smooth().x, again.smooth().x)


def test_nothing_is_pickled_and_a_refused_write_leaves_the_file(tmp_path):
    model = network(n=4, T=20)
    path = tmp_path / "m.npz"
    model.save(path)
    with np.load(path, allow_pickle=False) as stored:
        assert all(stored[name].dtype.kind in "fiubUM" for name in stored.files)
    before = path.read_bytes()
    own = model_of(
        model.graph,
        model.readings,
        process=model.parameters,
        transform=_transforms.named((np.cbrt, lambda x: x**3), np.ones(3)),
    )
    for act in (own.save, own.stream().save):
        with pytest.raises(InputError, match="pair of functions, which cannot be saved"):
            act(path)
    with pytest.raises(InputError, match="cannot be written"):
        model.save(tmp_path)
    assert path.read_bytes() == before
    assert os.listdir(tmp_path) == ["m.npz"]


def parts(path):
    with np.load(path) as stored:
        return {name: stored[name] for name in stored.files}


def replaced(path, **changes):
    """The file with other arrays; None takes one away, a dict changes facts."""
    arrays = parts(path)
    for name, value in changes.items():
        if isinstance(value, dict):
            facts = json.loads(str(arrays["facts"]))
            arrays["facts"] = np.array(json.dumps(facts | value))
        elif value is None:
            del arrays[name]
        else:
            arrays[name] = value
    np.savez(path, **arrays)


n, T = 4, 20
CRAFTED = [
    {"Q": None},
    {"Q": np.eye(5)},
    {"Q": -np.eye(n)},
    {"Q": np.full((n, n), np.nan)},
    {"Q": np.eye(n).astype(str)},
    {"Q": np.eye(n) + np.tri(n)},
    {"P0": np.eye(2 * n)},
    {"P0": np.zeros((n, n))},
    {"noise": np.zeros(n)},
    {"noise": -np.ones(n)},
    {"noise": np.ones(n + 1)},
    {"A1": np.ones((2, 2))},
    {"A1": np.array(np.inf)},
    {"A1": np.array("x")},
    {"rows": np.arange(T) - 1},
    {"rows": np.zeros(T, dtype=int)},
    {"rows": np.arange(T)[::-1]},
    {"rows": np.arange(T) * 10**12},
    {"rows": np.arange(T + 1)},
    {"rows": np.arange(T) * 1.0},
    {"times": np.arange(T)[::-1]},
    {"times": np.full(T, np.nan)},
    {"times": np.arange(T).astype(str)},
    {"times": np.zeros((T, 1))},
    {"readings": np.full((n, T), np.inf)},
    {"readings": np.zeros((n, T + 1))},
    {"excluded": np.zeros((n, T))},
    {"excluded": np.zeros((T, n), dtype=bool)},
    {"row": np.array([7])},
    {"row": np.array([-3])},
    {"col": np.array([10**12])},
    {"weight": np.array([1.0])},
    {"shape": np.array([4, 5])},
    {"shape": np.array([10**12, 10**12])},
    {"level": np.zeros((3, n))},
    {"level": np.full((1, n), np.nan)},
    {"dual": np.zeros((1, n + 1))},
    {"ranges": -np.ones(1)},
    {"partials": np.zeros(2)},
    {"coordinates": np.zeros((n + 1, 2))},
    {"coordinates": np.full((n, 2), np.nan)},
    {"facts": np.array("{")},
    {"facts": np.array("[" * 100_000)},
    {"facts": np.array("7")},
    {"facts": np.array("{}")},
    {"f": {"format": "another"}},
    {"f": {"blocks": 3}},
    {"f": {"blocks": 0}},
    {"f": {"blocks": "x"}},
    {"f": {"unit": 0.0}},
    {"f": {"unit": float("nan")}},
    {"f": {"unit": "1"}},
    {"f": {"step": -1.0}},
    {"f": {"family": "none"}},
    {"f": {"status": "fine"}},
    {"f": {"transform": "custom"}},
    {"f": {"transform": "log", "shift": -1.0}},
    {"f": {"transform": "sqrt", "low": 1.0}},
    {"f": {"cycles": ["week"], "harmonics": [1]}},
    {"f": {"cycles": ["day"], "harmonics": [10**9]}},
    {"f": {"names": ["a", "a", "b", "c"]}},
    {"f": {"metric": "miles"}},
    {"f": {"df": -4.0}},
    {"f": {"factors": 3}},
    {"f": {"band_stds": [1.0], "factors": []}},
    {"f": {"band_stds": [2.0, 1.0], "factors": [[0.9, 1.0, 1.0]]}},
    {"f": {"band_stds": [1.0], "factors": [[0.9, -1.0]]}},
    {"f": {"band_stds": [1.0], "factors": [[0.9, 1.0, 1.0]]}},
]


@pytest.mark.parametrize("changes", CRAFTED, ids=lambda c: "-".join(f"{k}" for k in c))
def test_crafted_models_are_refused(changes, tmp_path):
    path = tmp_path / "m.npz"
    network(n=n, T=T).save(path)
    replaced(path, **changes)
    with pytest.raises(InputError, match=r"m\.npz cannot be used .*: pass a file that SpaceTimeModel.save wrote"):
        load(path)


STREAMS = [
    {"stream_state": np.zeros(3)},
    {"stream_state": np.full(n, np.nan)},
    {"stream_state": None},
    {"stream_covariance": np.eye(n + 1)},
    {"stream_covariance": -np.eye(n)},
    {"stream_covariance": np.eye(n) + np.tri(n)},
    {"stream_strikes": -np.ones(n, dtype=int)},
    {"stream_strikes": np.zeros(n)},
    {"stream_strikes": np.zeros(n + 1, dtype=int)},
    {"stream_prior": np.zeros((n, n))},
    {"stream_prior": np.eye(n + 1)},
    {"stream_corrected": np.array([0, 9])},
    {"stream_corrected": np.array([1, 0])},
    {"stream_corrected": np.array([-1])},
    {"stream_corrected": np.array([], dtype=int)},
    {"stream_corrected": None},
    {"f": {"stream": 3}},
    {"f": {"stream": {"row": -1, "robust": 4.0, "steady": False}}},
    {"f": {"stream": {"row": 1.5, "robust": 4.0, "steady": False}}},
    {"f": {"stream": {"row": 1, "robust": -4.0, "steady": False}}},
    {"f": {"stream": {"row": 1, "robust": 4.0, "steady": 1}}},
]


@pytest.mark.parametrize("changes", STREAMS, ids=lambda c: "-".join(f"{k}" for k in c))
def test_crafted_streams_are_refused(changes, tmp_path):
    path = tmp_path / "s.npz"
    stream = network(n=n, T=T).stream()
    stream.update(np.ones(n))
    stream.save(path)
    load_stream(path)
    replaced(path, **changes)
    with pytest.raises(InputError, match=r"s\.npz cannot be used .*: pass a file that Stream.save wrote"):
        load_stream(path)


def test_other_files_are_refused(tmp_path):
    model = network(n=4, T=20)
    for reader, save, other in ((load, model.save, model.stream().save), (load_stream, model.stream().save, model.save)):
        path = tmp_path / "file.npz"
        with pytest.raises(InputError, match=r"absent\.npz does not exist"):
            reader(tmp_path / "absent.npz")
        save(path)
        whole = path.read_bytes()
        for content in (b"", b"time,a,b\n", whole[:100], whole[: len(whole) // 2], whole[:-30]):
            path.write_bytes(content)
            with pytest.raises(InputError, match=r"file\.npz cannot be used"):
                reader(path)
        other(path)
        with pytest.raises(InputError, match="its format is"):
            reader(path)
        np.savez(path, a=np.array([{"x": 1}], dtype=object))
        with pytest.raises(InputError, match=r"file\.npz cannot be used"):
            reader(path)
        with pytest.raises(InputError):
            reader(tmp_path)


def test_flipped_bytes_never_give_another_error(tmp_path):
    path = tmp_path / "m.npz"
    network(n=4, T=20).save(path)
    whole, rng = path.read_bytes(), np.random.default_rng(0)
    for _ in range(150):
        damaged = bytearray(whole)
        for _ in range(3):
            damaged[rng.integers(len(whole))] = rng.integers(256)
        path.write_bytes(damaged)
        with contextlib.suppress(InputError):
            load(path)
