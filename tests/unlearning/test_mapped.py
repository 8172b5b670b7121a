"""A model in memory-mapped files is the model in memory, to the last bit."""

from __future__ import annotations

import tempfile
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.stateful import rule

import nareg
from nareg.errors import DatasetNotFoundError
from nareg.unlearning import CertifiedGPR
from tests.helpers import examples
from tests.unlearning.mapped_models import LITTLE, ask_both, assert_equal, both, everything
from tests.unlearning.requests import Requests, problem


class MappedRequests(Requests):
    """What :class:`Requests` checks of a model, of one in files that is closed and opened in between."""

    def options(self):
        self.where = tempfile.TemporaryDirectory()
        self.folder = Path(self.where.name) / "model"
        return {"folder": self.folder}

    @rule()
    def restart(self):
        before = everything(self.model)
        self.model.close()
        self.model = CertifiedGPR.load(self.folder, rng=self.rng, memory=self.memory)
        assert self.model.certificate() == self.certificate.rounded()
        assert_equal(everything(self.model), before)

    def teardown(self):
        if hasattr(self, "model"):
            self.model.close()
            self.where.cleanup()


class WideRequests(MappedRequests):
    """The same with requests that propagate through the whole graph."""

    memory = LITTLE


TestMappedRequests = pytest.mark.slow(MappedRequests.TestCase)


TestMappedRequests.settings = examples(4, 25, stateful_step_count=20)


TestWideRequests = pytest.mark.slow(WideRequests.TestCase)


TestWideRequests.settings = examples(3, 10, stateful_step_count=15)


@pytest.mark.slow
@given(
    seed=st.integers(0, 2**16), weights=st.sampled_from([[1.0], [0.4, 0.6], [0.0, 0.0, 1.0], [0.1, 0.2, 0.3, 0.4]]),
    single=st.booleans(), n=st.integers(20, 60),
)  # fmt: skip
@examples(5, 25)
def test_a_sequence_of_requests_gives_the_bits_of_the_model_in_memory(seed, weights, single, n):
    rng = np.random.default_rng(seed)
    graph, X, y = problem(rng, n=n)
    X = X.astype(np.float32) if single else X
    with tempfile.TemporaryDirectory() as where:
        here, there = both(graph, X, y, np.arange(16), Path(where) / "m", weights=weights, seed=seed)
        assert_equal(everything(here), everything(there))
        A = graph.adjacency.toarray()
        edges, free = np.argwhere(np.triu(A)), np.argwhere(np.triu(A == 0, 1))
        ask_both(here, there, [
            lambda m: m.remove_edges(edges[:2]),
            lambda m: m.add_edges(free[:5]),
            lambda m: m.remove_features([18]),
            lambda m: m.add_nodes(np.ones((3, 6)), labels=[1, -1, 0]),
            lambda m: m.add_edges([(n, n + 1), (n + 2, 0)]),
            lambda m: m.remove_nodes([19, n]),
            lambda m: m.remove_edges([(n + 2, 0)]),
        ])  # fmt: skip
        assert there._data.propagation.features.dtype == (np.float32 if single else np.float64)
        there.close()


@pytest.mark.slow
def test_cora_gives_the_bits_of_the_model_in_memory(tmp_path):
    try:
        cora = nareg.datasets.load("cora")
    except DatasetNotFoundError as error:
        pytest.skip(str(error))
    rng = np.random.default_rng(0)
    train = np.sort(rng.permutation(cora.n_nodes)[:1208])
    edges = rng.permutation(np.argwhere(np.triu(cora.graph.adjacency.toarray())))
    here, there = both(cora.graph, cora.dense_features().astype(float), cora.labels, train, tmp_path / "m")
    new = cora.dense_features()[:1].astype(float)
    ask_both(here, there, [
        lambda m: m.remove_edges(edges[:1]),
        lambda m: m.remove_edges(edges[1:20]),
        lambda m: m.remove_nodes([int(train[3]), int(edges[30, 0])]),
        lambda m: m.remove_features([int(train[7])], labels=True),
        lambda m: m.add_nodes(new, labels=[2]),
        lambda m: m.add_edges([(cora.n_nodes, int(train[11]))]),
    ])  # fmt: skip
    there.close()
    back = CertifiedGPR.load(tmp_path / "m")
    np.testing.assert_array_equal(back.predict(), here.predict())
    back.close()


@pytest.mark.parametrize("memory", [None, LITTLE, 20_000])
def test_columns_at_a_time_give_the_same_bits(memory, rng, tmp_path):
    graph, X, y = problem(rng)
    here, there = both(graph, X, y, np.arange(40), tmp_path / "m", memory=memory, weights=[0.2, 0.3, 0.5])
    assert_equal(everything(here), everything(there))
    there.close()


def test_progress_tells_of_every_pass(rng, tmp_path):
    graph, X, y = problem(rng)
    reports = []
    model = CertifiedGPR(folder=tmp_path / "m")
    model.fit(graph, X, y, np.arange(40), memory=LITTLE, progress=reports.append)
    assert [(report.step, report.total) for report in reports] == [(k, 12) for k in range(1, 13)]  # 6 columns, two levels
    assert reports[-1].fraction == 1
    model.close()


def test_files_as_input_give_the_same_bits(rng, tmp_path):
    graph, X, y = problem(rng)
    graph.save(tmp_path / "g.graph")
    np.save(tmp_path / "x.npy", X.astype(np.float32))
    here = CertifiedGPR(rng=np.random.default_rng(1)).fit(graph, X.astype(np.float32), y, np.arange(40))
    for given_graph in (tmp_path / "g.graph", nareg.io.StoredGraph(tmp_path / "g.graph")):
        there = CertifiedGPR(rng=np.random.default_rng(1), folder=tmp_path / "m")
        there.fit(given_graph, tmp_path / "x.npy", y, np.arange(40))
        assert_equal(everything(here), everything(there))
        there.close()


def test_tables_grow_with_nodes_and_edges(rng, tmp_path):
    graph, X, y = problem(rng)
    here, there = both(graph, X, y, np.arange(40), tmp_path / "m", weights=[0.2, 0.3, 0.5])
    before = (tmp_path / "m" / "neighbors.npy").stat().st_size
    for count in (50, 100):
        n = here.n_nodes
        ask_both(here, there, [
            lambda m, count=count: m.add_nodes(np.ones((count, 6)), labels=np.full(count, 1)),
            lambda m, n=n, count=count: m.add_edges([(n, other) for other in range(n + 1, n + count)]),
            lambda m, n=n, count=count: m.add_edges([(u, v) for u in range(n + 1, n + 30) for v in range(u + 1, n + 30)]),
        ])  # fmt: skip
    kept = everything(there)
    there.close()
    assert (tmp_path / "m" / "neighbors.npy").stat().st_size > 2 * before
    for file in (tmp_path / "m").glob("*.npy"):
        assert len(np.load(file, mmap_mode="r")) > 0
    back = CertifiedGPR.load(tmp_path / "m")
    assert_equal(everything(back), kept)
    back.close()
