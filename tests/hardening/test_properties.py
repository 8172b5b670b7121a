"""What holds of every public function: relabeled nodes, other units, layouts in memory and types change nothing else."""

from __future__ import annotations

import importlib
import inspect
import pkgutil
from dataclasses import fields

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import nareg
from tests.hardening.calls import CALLS, Value
from tests.hardening.problems import LAYOUTS, Problem, problems
from tests.helpers import examples

#: Random weights may amplify; what replaces them then has to have the same properties.
pytestmark = pytest.mark.filterwarnings("ignore::nareg.errors.AmplificationWarning")

#: Functions and classes without a signal on a graph, or whose properties other tests hold, and why.
OTHERS = {
    "results that functions return": [
        "baselines.Classification",
        "baselines.Kriging",
        "baselines.PrincipalComponents",
        "cleaning.Applied",
        "cleaning.Cleaned",
        "datasets.DatasetInfo",
        "datasets.NodeClassification",
        "datasets.SensorNetwork",
        "datasets.SimulatedNetwork",
        "design.Conditions",
        "design.Placement",
        "design.Risk",
        "design.RobustFit",
        "design.WorstCase",
        "filters.Denoiser",
        "graphs.Field",
        "graphs.LearnedGraph",
        "herta.AttentionResult",
        "herta.Preconditioner",
        "herta.TrainingResult",
        "io.CellCounts",
        "io.Inspection",
        "io.Readings",
        "io.Recipe",
        "io.Stations",
        "quality.Flag",
        "quality.Quality",
        "quality.Rules",
        "quality.Suspect",
        "spacetime.SensorRanking",
        "spacetime.Smoothed",
        "spacetime.Update",
        "spectral.FourierBasis",
        "unlearning.Certificate",
        "unlearning.EdgeFactors",
        "unlearning.Evaluation",
        "unlearning.ForgettingScores",
        "unlearning.MeasuredCall",
        "unlearning.ModelScores",
        "unlearning.UnlearningTask",
        "unlearning.UtilityCost",
        "unlearning.Verification",
    ],
    "options": [
        "cleaning.Wind",
        "design.Ball",
        "design.Sampling",
        "design.SmoothBox",
        "filters.Disk",
        "filters.Petsc",
        "filters.Torch",
        "gnn.Chebyshev",
        "gnn.ConjugateGradients",
        "gnn.Neumann",
        "gnn.Perturbation",
        "gnn.Candidate",
        "herta.AttentionPenalty",
        "herta.Optimizer",
        "herta.Regularized",
        "herta.Sketched",
        "herta.Unfolding",
        "unlearning.FeatureScale",
    ],
    "errors": ["unlearning.CertificateError", "unlearning.LedgerError"],
    "from a random generator: relabeled nodes are other nodes to it": [
        "datasets.simulated",
        "graphs.erdos_renyi",
        "graphs.heterogeneous_field",
        "graphs.power_law",
        "graphs.sensor",
        "graphs.stochastic_block",
    ],
    "trainings, of which gnn.training has one: tests/gnn/test_training": ["gnn.compare"],
    "files, pages and names of data sets: test_fuzz_readers, tests/io, tests/cleaning, tests/explorer, tests/datasets": [
        "clean",
        "cleaning.apply",
        "cleaning.clean",
        "cli.run",
        "datasets.available",
        "datasets.data_root",
        "datasets.fetch",
        "datasets.info",
        "datasets.load",
        "datasets.names",
        "design.load",
        "explore",
        "explorer.explore",
        "io.convert",
        "io.inspect",
        "io.on_grid",
        "io.read_adjacency",
        "io.read_column",
        "io.read_data_weight",
        "io.read_readings",
        "io.read_rows",
        "io.read_stations",
        "io.read_weights",
        "io.readings_to_frame",
        "io.stations_from_frame",
        "io.write_readings",
        "io.write_rows",
        "io.write_weights",
        "spacetime.load",
        "spacetime.load_stream",
        "unlearning.Ledger",
        "unlearning.verify",
    ],
    "files that are compared with the functions in memory: tests/filters/backends, tests/graph_files": [
        "io.GraphWriter",
        "io.StoredGraph",
    ],
    "scikit-learn's own checks hold them: tests/estimators": [
        "estimators.HeldOutStations",
        "estimators.SeasonalCycleRemover",
        "estimators.SeasonallyAdjusted",
        "estimators.TimeBlockSplit",
    ],
    "parts of one training or of one solver, which other functions of the table run": [
        "herta.GaussNewton",
        "herta.Preconditioned",
    ],
    "what the builders of programs return, and constraints on it: tests/design/programs": [
        "design.programs.Program",
        "design.programs.jacobi",
        "design.programs.recursion",
    ],
    "a grid has no input but its shape": ["graphs.grid"],
    "above 500 stations; compared with the dense model in tests/spacetime/large": [
        "spacetime.SparseSpaceTimeModel",
        "spacetime.SparseStream",
    ],
    "a random hidden layer; requests in tests/unlearning": ["unlearning.DeepGPR"],
    "attacks draw random members and students; constructed cases in tests/unlearning": [
        "unlearning.evaluate",
        "unlearning.measured_call",
    ],
}
NAMED = [name for names in OTHERS.values() for name in names]
#: In the table, though no ``__all__`` names them.
BEYOND = {"gnn.training"}


def public() -> set[str]:
    """Everything that can be called and stands in the ``__all__`` of the package or of a package in it."""
    found = set()
    modules = pkgutil.walk_packages(nareg.__path__, "nareg.")
    packages = [m.name for m in modules if "._" not in m.name and (m.ispkg or m.name.count(".") == 1)]
    for package in ["nareg", *packages]:
        module = importlib.import_module(package)
        for name in getattr(module, "__all__", []):
            value = getattr(module, name)
            if callable(value) and (inspect.isfunction(value) or inspect.isclass(value)):
                found.add(f"{package}.{name}".removeprefix("nareg."))
    return found


def test_every_public_function_is_in_the_table_or_named_with_a_reason():
    names = public()
    assert len(NAMED) == len(set(NAMED))
    assert not set(CALLS) & set(NAMED)
    assert names == (set(CALLS) - BEYOND) | set(NAMED)


def close(found: dict[str, Value], expected: dict[str, np.ndarray], rtol: float) -> None:
    """The same results, to ``rtol`` of the largest number in each."""
    assert found.keys() == expected.keys()
    for name, value in found.items():
        assert value.array.shape == expected[name].shape
        size = np.abs(np.asarray(expected[name], dtype=float)).max()
        np.testing.assert_allclose(
            value.array.astype(float), expected[name].astype(float), rtol=0, atol=rtol * size, err_msg=name
        )


def arrays(values: dict[str, Value]) -> dict[str, np.ndarray]:
    return {name: value.array for name, value in values.items()}


def floats(p: Problem, change) -> Problem:
    return p.each(lambda array: change(array) if array.dtype.kind == "f" else array)


COSTS = [pytest.param(name, marks=pytest.mark.slow if call.costly else ()) for name, call in CALLS.items()]
every = pytest.mark.parametrize("name", COSTS)
few = examples(2, 5)


@pytest.mark.slow
@every
@few
@given(p=problems(), seed=st.integers(0, 2**32 - 1))
def test_results_are_finite_arguments_untouched_and_relabeled_nodes_give_relabeled_results(name, p, seed):
    call, before = CALLS[name], p.each(np.copy)
    values = call.run(p)
    for field in fields(p):
        if field.name != "graph":
            np.testing.assert_array_equal(getattr(p, field.name), getattr(before, field.name), err_msg=field.name)
    for value in values.values():
        assert np.isfinite(value.array.astype(float)).all()
    if call.unequal:
        return
    order = np.random.default_rng(seed).permutation(p.n)
    expected = arrays(values)
    for key, value in values.items():
        for axis in value.axes:
            expected[key] = expected[key].take(order, axis=axis)
    close(call.run(p.relabeled(order)), expected, call.rtol)


@pytest.mark.slow
@pytest.mark.parametrize("name", [case for case in COSTS if not CALLS[case.values[0]].no_unit])
@few
@given(p=problems(), factor=st.sampled_from([1e-3, 0.25, 1e3]))
def test_another_unit_scales_results_by_its_power(name, p, factor):
    call = CALLS[name]
    expected = {key: factor**value.degree * value.array for key, value in call.run(p).items()}
    close(call.run(p.scaled(factor)), expected, call.rtol)


@pytest.mark.slow
@every
@few
@given(p=problems())
def test_how_numbers_lie_in_memory_is_of_no_account(name, p):
    call = CALLS[name]
    expected = arrays(call.run(p))
    for layout in LAYOUTS.values():
        close(call.run(p.each(layout)), expected, call.rtol)


@pytest.mark.slow
@every
@few
@given(p=problems())
def test_float32_gives_the_same_in_the_type_that_is_documented(name, p):
    call = CALLS[name]
    single = floats(p, lambda array: array.astype(np.float32))
    double = call.run(floats(single, lambda array: array.astype(np.float64)))
    values = call.run(single)
    close(values, arrays(double), max(1e-4, call.rtol))
    for key, value in values.items():
        assert value.array.dtype == (np.float32 if call.keeps_dtype else double[key].array.dtype), key


@pytest.mark.slow
@every
@few
@given(p=problems())
def test_integers_are_the_numbers_that_they_are(name, p):
    call = CALLS[name]
    whole = floats(p, lambda array: np.maximum(np.round(10 * array), 1))
    close(call.run(floats(whole, lambda array: array.astype(np.int32))), arrays(call.run(whole)), call.rtol)
