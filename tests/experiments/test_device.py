"""``--device``: checked before anything runs, handed to all that computes with torch, and nothing is made elsewhere."""

from __future__ import annotations

import math
from dataclasses import fields, replace

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from experiments import _engine, _main  # noqa: E402
from nareg import datasets  # noqa: E402
from nareg.errors import InputError  # noqa: E402
from nareg.gnn import networks, training  # noqa: E402
from nareg.unlearning import CertifiedGPR  # noqa: E402
from tests.command_line import run as command  # noqa: E402
from tests.experiments.test_engine import SHORT, TINY  # noqa: E402
from tests.herta.helpers import fit  # noqa: E402

#: On no machine.
NOWHERE = "cuda:99"
#: Whose other methods are those of the tables, in NumPy.
AS_PUBLISHED = ("unlearning-edges", "unlearning-requests")
WITH_DEVICE = [name for name in _main.FIGURES if name not in _main.WITHOUT_DEVICE]
GPU = pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA GPU here")
#: Torch's own Adam makes its step count on the default device in older releases.
adam_off_the_default_device = pytest.mark.skipif(
    tuple(int(part) for part in torch.__version__.split(".")[:2]) < (2, 13),
    reason="Adam of this torch needs its default device",
)


def figure_on(name: str, device: str | None):
    figure = _engine.load(name)
    return figure, replace(figure.full, **TINY[name], device=device)


def test_experiments_without_a_device_are_the_ones_that_have_no_such_setting():
    settings = {name: {field.name for field in fields(_engine.load(name).full)} for name in _main.FIGURES}
    assert {name for name, known in settings.items() if "device" not in known} == set(_main.WITHOUT_DEVICE)


@pytest.mark.slow
@pytest.mark.parametrize(
    "name", [name if name in SHORT else pytest.param(name, marks=pytest.mark.nightly) for name in WITH_DEVICE]
)
def test_every_point_hands_its_device_to_the_library(name, data_root):
    figure, settings = figure_on(name, NOWHERE)
    refused = 0
    for point in figure.points(settings):
        if name in AS_PUBLISHED and point["method"] != "nareg":
            continue  # in NumPy alone
        said = answers(figure, settings, point)
        refused += any(f"device is '{NOWHERE}'" in one for one in said)
        assert any(NOWHERE in one or one == "absent" for one in said), (point, said)
    assert refused


def answers(figure, settings, point) -> list[str]:
    """The error that a point ends with, or what each of its rows says was refused."""
    try:
        rows = figure.compute(settings, point)
    except InputError as error:
        return [str(error)]
    absent = [row.get("absent") or row.get("removed", 0) is None or "not here" in str(row.get("refused")) for row in rows]
    return ["absent" if gone else str(row.get("refused")) for gone, row in zip(absent, rows, strict=True)]


@pytest.mark.parametrize(
    ("device", "said"),
    [
        ("cuda:99", "device is 'cuda:99' but torch sees"),
        ("gpu", "device is 'gpu': 'cpu' or 'cuda' is expected."),
        ("meta", "device is 'meta': 'cpu' or 'cuda' is expected."),
        ("cpu:1", "device is 'cpu:1': 'cpu' or 'cuda' is expected."),
    ],
)
def test_a_device_that_is_not_here_is_refused_before_anything_is_written(device, said, tmp_path):
    result = command("reproduce", "gnn-noise", "fig1", "--device", device, "--out", tmp_path / "out")
    assert result.returncode == 2
    assert said in " ".join(result.stderr.split())
    assert not (tmp_path / "out").exists()


@pytest.mark.slow
def test_an_experiment_in_numpy_says_that_it_has_no_device(tmp_path):
    small = ("--set", "n_graphs=2", "--set", "n_scales=5", "--jobs", 1, "--out", tmp_path)
    result = command("reproduce", "fig1", "--quick", "--device", "cpu", *small)
    assert result.returncode == 0, result.stderr
    assert "--device cpu is not used by fig1: NumPy only." in " ".join(result.stderr.split())


def test_the_device_has_an_option_of_its_own():
    with pytest.raises(InputError, match="'device=cuda' is not name=value"):
        _main.changed(_engine.load("gnn-clean").full, ["device=cuda"])


def rows_on(name: str, device: str | None):
    figure, settings = figure_on(name, device)
    return [row for point in figure.points(settings)[:2] for row in figure.compute(settings, point)]


def same(a, b) -> bool:
    return a == b or (isinstance(a, float) and isinstance(b, float) and math.isclose(a, b, rel_tol=1e-6))


@pytest.mark.slow
@pytest.mark.parametrize("name", ["gnn-clean", "herta-decay", "unlearning-edges"])
def test_the_cpu_gives_the_rows_of_the_default(name, data_root):
    """For unlearning the default is compiled loops: accuracies and budgets agree all the same."""
    timed = ("seconds", "second", "total", "propagation")
    first, second = rows_on(name, None), rows_on(name, "cpu")
    assert len(first) == len(second)
    for one, other in zip(first, second, strict=True):
        differing = [key for key in one if key not in timed and not same(one[key], other[key])]
        assert not differing, (one, other)


@pytest.fixture
def task():
    return datasets.node_classification.synthetic(120, 3, rng=np.random.default_rng(0))


class TestDefaultElsewhere:
    """Torch's default device is "meta" here: a tensor that is made without naming the device holds no numbers, and fails."""

    @adam_off_the_default_device
    def test_training(self, task):
        def build():
            with torch.device("cpu"):  # the caller's
                return networks.FilteredNetwork(64, 3, lam=8.0, hidden=(8,))

        options = {"protocol": training.Protocol(epochs=3, device="cpu"), "rng": np.random.default_rng(0)}
        with torch.device("meta"):
            run = training.fit(build, task.graph, task.features, task.labels, task.splits[0], **options)
        assert {p.device.type for p in run.network.parameters()} == {"cpu"}
        assert 0 < run.test_accuracy <= 1

    @pytest.mark.parametrize(
        ("loss", "optimizer"),
        [
            ("mse", "pcg"),
            ("ce", "lbfgs"),
            pytest.param("ce", "adam", marks=adam_off_the_default_device),
            ("mse", "algorithm-1"),
        ],
    )
    def test_herta(self, task, loss, optimizer):
        options = {"loss": loss, "optimizer": optimizer, "max_iterations": 3, "rng": np.random.default_rng(0)}
        with torch.device("meta"):
            result = fit(task.graph, task.features, task.labels, device="cpu", **options)
        assert np.isfinite(result.losses).all()
        assert result.losses[-1] < result.losses[0]

    def test_unlearning(self, task):
        train = np.arange(80)
        with torch.device("meta"):
            model = CertifiedGPR(device="cpu", rng=np.random.default_rng(1)).fit(task.graph, task.features, task.labels, train)
            certificate = model.remove_nodes([3])
        assert certificate.spent <= certificate.budget


@GPU
@pytest.mark.slow
@pytest.mark.parametrize("name", ["gnn-noise", "gnn-filters", "herta-loss", "unlearning-edges"])
def test_experiments_run_on_a_gpu(name, data_root):
    for row in rows_on(name, "cuda"):
        assert all(np.isfinite(value) for value in row.values() if isinstance(value, float))
