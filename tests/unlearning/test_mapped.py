"""A model in memory-mapped files is the model in memory, to the last bit; a request is carried out whole or not at all."""

from __future__ import annotations

import errno
import shutil
import signal
import subprocess
import sys
import tempfile
import textwrap
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import rule

import nareg
from nareg import outofcore
from nareg.errors import DatasetNotFoundError, TooLargeError
from nareg.unlearning import CertificateError, CertifiedGPR, LedgerError, head
from nareg.unlearning.mapped import blocks, data, journal
from nareg.unlearning.mapped.tables import Table
from tests.unlearning.test_model import REQUESTS, Requests, problem

#: So little memory that every request propagates through the whole graph, one column at a time.
LITTLE = 1


class MappedRequests(Requests):
    """What :class:`Requests` checks of a model, of one in files that is closed and opened in between."""

    memory: int | None = None

    def options(self):
        self.where = tempfile.TemporaryDirectory()
        self.folder = Path(self.where.name) / "model"
        return {"folder": self.folder, "memory": self.memory}

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


TestMappedRequests = MappedRequests.TestCase
TestMappedRequests.settings = settings(max_examples=25, stateful_step_count=20)
TestWideRequests = WideRequests.TestCase
TestWideRequests.settings = settings(max_examples=10, stateful_step_count=15)


def everything(model):
    parts = model._data
    propagation = parts.propagation
    return [
        model.embedding(), model.coefficients.copy(), model._head.B.copy(), model.labels, np.array(parts.train),
        parts.gone.copy(), propagation.features.copy(), *(q.copy() for q in propagation._reserves),
        parts.graph.adjacency().toarray(),
        propagation._rounding._largest.copy(), propagation._rounding._degrees.copy(),
        np.array([propagation._rounding.peak, propagation._rounding.ratio, propagation._rounding.requests]),
    ]  # fmt: skip


def assert_equal(before, after):
    for one, other in zip(before, after, strict=True):
        np.testing.assert_array_equal(one, other)


def mapped(rng, folder, *, memory=None, **options):
    graph, X, y = problem(rng)
    model = CertifiedGPR(rng=rng, folder=folder, memory=memory, weights=[0.2, 0.3, 0.5], **options)
    return model.fit(graph, X, y, np.arange(40))


def both(graph, X, y, train, folder, *, seed=1, memory=None, **options):
    """The same model in memory and in a folder, with the same noise term."""
    here = CertifiedGPR(rng=np.random.default_rng(seed), **options).fit(graph, X, y, train)
    there = CertifiedGPR(rng=np.random.default_rng(seed), folder=folder, memory=memory, **options).fit(graph, X, y, train)
    return here, there


def ask_both(here, there, requests):
    """The same requests, and after each one the same bits."""
    for request in requests:
        mine, theirs = request(here), request(there)
        assert mine.spent == theirs.spent
        assert_equal(everything(here), everything(there))


@given(
    seed=st.integers(0, 2**16), weights=st.sampled_from([[1.0], [0.4, 0.6], [0.0, 0.0, 1.0], [0.1, 0.2, 0.3, 0.4]]),
    single=st.booleans(), n=st.integers(20, 60),
)  # fmt: skip
@settings(max_examples=25)
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
    model = CertifiedGPR(folder=tmp_path / "m", memory=LITTLE).fit(graph, X, y, np.arange(40), progress=reports.append)
    assert [(report.step, report.total) for report in reports] == [(k, 12) for k in range(1, 13)]  # 6 columns, two levels
    assert reports[-1].fraction == 1
    model.close()


def test_files_as_input_give_the_same_bits(rng, tmp_path):
    graph, X, y = problem(rng)
    graph.save(tmp_path / "g.graph")
    np.save(tmp_path / "x.npy", X.astype(np.float32))
    here = CertifiedGPR(rng=np.random.default_rng(1)).fit(graph, X.astype(np.float32), y, np.arange(40))
    for given_graph in (tmp_path / "g.graph", outofcore.StoredGraph(tmp_path / "g.graph")):
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


@pytest.mark.parametrize("memory", [None, LITTLE])
@pytest.mark.parametrize("request_of", REQUESTS.values(), ids=list(REQUESTS))
@pytest.mark.parametrize("fault", [KeyboardInterrupt, CertificateError])
def test_a_request_that_fails_changes_nothing(request_of, fault, memory, rng, tmp_path, monkeypatch):
    model = mapped(rng, tmp_path / "m", memory=memory, alpha=2.0)
    before, certificate = everything(model), model.certificate()

    def fail(*_, **__):
        raise fault("now")

    with monkeypatch.context() as patch:
        patch.setattr(head, "solve", fail)
        with pytest.raises(fault):
            request_of(model)
    assert_equal(everything(model), before)
    assert model.certificate() is certificate
    assert not (tmp_path / "m" / "stale").exists()
    assert request_of(model) is model.certificate() is not certificate  # it goes through after that
    after = everything(model)
    model.close()
    back = CertifiedGPR.load(tmp_path / "m")
    assert_equal(everything(back), after)
    back.close()


@pytest.mark.parametrize("memory", [None, LITTLE])
def test_a_full_disk_changes_nothing(memory, rng, tmp_path, monkeypatch):
    model = mapped(rng, tmp_path / "m", memory=memory)
    before, calls, real = everything(model), [], journal.write_all

    def full(handle, array):
        calls.append(1)
        if len(calls) == 4:
            raise OSError(errno.ENOSPC, "No space left on device")
        real(handle, array)

    with monkeypatch.context() as patch:
        patch.setattr(journal, "write_all", full)
        with pytest.raises(LedgerError, match=r"cannot be written \(No space left on device\)\. Nothing was changed"):
            model.remove_nodes([3])
    assert_equal(everything(model), before)
    model.close()
    back = CertifiedGPR.load(tmp_path / "m")
    assert_equal(everything(back), before)
    back.close()


def test_a_journal_counts_when_it_is_whole(rng, tmp_path, monkeypatch):
    """It is whole when the files fail: then loading carries it out. Cut off or changed anywhere, it never was."""
    model = mapped(rng, tmp_path / "m")
    before = everything(model)

    def fail(_):
        raise OSError(errno.EIO, "Input/output error")

    with monkeypatch.context() as patch:
        patch.setattr(data, "finish", fail)
        with pytest.raises(LedgerError, match="in the journal, but not yet carried out"):
            model.remove_nodes([3, 50])
    with pytest.raises(nareg.errors.SolverError, match="load the store"):
        model.predict()
    model.close()
    whole = (tmp_path / "m" / "journal").read_bytes()
    cuts = [whole[:0], whole[:10], whole[:31], whole[: len(whole) // 2], whole[:-1]]
    flips = [bytes([*whole[:at], whole[at] ^ 1, *whole[at + 1 :]]) for at in (0, 40, len(whole) // 2, len(whole) - 1)]
    for torn in (*cuts, *flips):
        (tmp_path / "m" / "journal").write_bytes(torn)
        back = CertifiedGPR.load(tmp_path / "m")
        assert_equal(everything(back), before)
        assert not (tmp_path / "m" / "journal").exists()
        back.close()
    (tmp_path / "m" / "journal").write_bytes(whole)
    for _ in range(2):
        back = CertifiedGPR.load(tmp_path / "m")
        assert back.remaining.tolist() == [i for i in range(60) if i not in (3, 50)]
        back.close()
        (tmp_path / "m" / "journal").write_bytes(whole)  # as if it had been killed before the journal was deleted


SERVICE = textwrap.dedent(
    """
    import os, signal, sys
    from nareg.unlearning import CertifiedGPR
    from nareg.unlearning.mapped import folder, journal, tables

    path, memory, left = sys.argv[1], int(sys.argv[2]) or None, int(sys.argv[3])
    model = CertifiedGPR.load(path, memory=memory)
    steps = 0

    def counted(function):
        def call(*arguments, **options):
            global steps
            if steps == left:
                os.kill(os.getpid(), signal.SIGKILL)
            steps += 1
            return function(*arguments, **options)
        return call

    for module, name in (
        (folder, "sync"), (folder, "atomic_write"), (journal, "sync"), (journal, "write_all"), (tables, "sync"),
        (tables, "write_all"),
    ):
        setattr(module, name, counted(getattr(module, name)))
    model.remove_nodes([3, 50])
    print(steps)
    """
)


@pytest.mark.slow
@pytest.mark.parametrize("memory", [None, LITTLE])
def test_a_kill_at_any_write_leaves_the_old_or_the_new_state(memory, rng, tmp_path):
    """SIGKILL before the k-th write of a request: the first ones leave the old state, the last ones the new state."""
    model = mapped(rng, tmp_path / "m", memory=memory)
    old = everything(model)
    model.close()
    shutil.copytree(tmp_path / "m", tmp_path / "new")
    model = CertifiedGPR.load(tmp_path / "new", memory=memory)
    model.remove_nodes([3, 50])
    new = everything(model)
    model.close()

    def killed(step):
        shutil.copytree(tmp_path / "m", tmp_path / str(step))
        stated = [sys.executable, "-c", SERVICE, str(tmp_path / str(step)), str(memory or 0), str(step)]
        done = subprocess.run(stated, capture_output=True, text=True, check=False)
        assert done.returncode in (-signal.SIGKILL, 0), done.stderr
        return int(done.stdout or -1)

    steps = killed(10**6)
    assert steps > 40
    points = sorted({*np.linspace(0, steps - 1, 14).astype(int).tolist(), 1, steps - 2})
    seen = []
    for step in points:
        assert killed(step) == -1
        back = CertifiedGPR.load(tmp_path / str(step), memory=memory)
        seen.append(back.remaining.size == 58)
        for one, other in zip(everything(back), new if seen[-1] else old, strict=True):
            np.testing.assert_allclose(one, other, rtol=1e-12, atol=1e-13)  # what was stale is computed anew
        assert sorted(file.name for file in (tmp_path / str(step)).iterdir() if file.suffix not in (".npy", ".json")) == [
            "lock"
        ]
        back.remove_nodes([7])
        back.close()
    assert seen == sorted(seen)
    assert seen[0] is False
    assert seen[-1] is True


@pytest.mark.slow
def test_a_killed_fit_leaves_no_folder(tmp_path):
    code = """
        import os, signal, sys
        import numpy as np, nareg
        from nareg.unlearning import CertifiedGPR, head
        head.solve = lambda *a, **k: os.kill(os.getpid(), signal.SIGKILL)
        d = nareg.datasets.node_classification.synthetic(60, 3, n_features=6, rng=np.random.default_rng(0))
        CertifiedGPR(folder=sys.argv[1]).fit(d.graph, d.features, d.labels, np.arange(40))
    """
    stated = [sys.executable, "-c", textwrap.dedent(code), str(tmp_path / "m")]
    assert subprocess.run(stated, check=False).returncode == -signal.SIGKILL
    assert not (tmp_path / "m").exists()
    assert len(list(tmp_path.iterdir())) == 1  # the draft
    mapped(np.random.default_rng(0), tmp_path / "m").close()
    assert [file.name for file in tmp_path.iterdir()] == ["m"]


def test_a_fit_that_fails_leaves_the_older_model(rng, tmp_path, monkeypatch):
    mapped(rng, tmp_path / "m").close()
    before = (tmp_path / "m" / "state.json").read_bytes()
    with pytest.raises(CertificateError):
        mapped(rng, tmp_path / "m", alpha=1e-12)
    monkeypatch.setattr(blocks._checks, "memory", _too_large)
    with pytest.raises(TooLargeError):
        mapped(rng, tmp_path / "m")
    assert [file.name for file in tmp_path.iterdir()] == ["m"]
    assert (tmp_path / "m" / "state.json").read_bytes() == before
    CertifiedGPR.load(tmp_path / "m").close()


def _too_large(*_, **__):
    raise TooLargeError("now")


def test_what_was_removed_is_in_no_file(rng, tmp_path):
    graph, X, y = problem(rng)
    X[50] = np.pi * np.arange(1, 7)
    model = CertifiedGPR(rng=rng, folder=tmp_path / "m", weights=[0.2, 0.3, 0.5]).fit(graph, X, y, np.arange(40))
    root = np.sqrt(model._data.graph.degrees[50])
    pair = sorted(model._data.graph.neighbors_of(50).tolist())

    def held():
        files = b"".join(file.read_bytes() for file in (tmp_path / "m").iterdir())
        return X[50].tobytes() in files, (root * X[50] * 0.2).tobytes() in files, np.array(pair, np.int32).tobytes() in files

    assert held()[0]
    assert held()[2]
    model.remove_nodes([50])
    assert held() == (False, False, False)
    model.close()


def test_one_model_has_a_folder_at_a_time(rng, tmp_path):
    model = mapped(rng, tmp_path / "m")
    with pytest.raises(LedgerError, match="another model or process has it open"):
        CertifiedGPR.load(tmp_path / "m")
    with pytest.raises(LedgerError, match="another model or process has it open"):
        mapped(rng, tmp_path / "m")
    graph, X, y = problem(rng)
    with pytest.raises(nareg.errors.InputError, match="fit was called on a model with the open store"):
        model.fit(graph, X, y, np.arange(40))
    with pytest.raises(nareg.errors.InputError, match="which is its store"):
        model.save(tmp_path / "store")
    model.remove_nodes([3])
    model.close()
    with pytest.raises(nareg.errors.InputError, match="not fitted"):
        model.predict()
    model.fit(graph, X, y, np.arange(40))
    assert model.remaining.size == 60
    model.close()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"r_max": 1e-3}, "r_max is 0.001 and folder is given"),
        ({"device": "cpu"}, "device is 'cpu' and folder is given"),
        ({"memory": 0}, "memory is 0"),
    ],
)
def test_options_that_a_folder_cannot_have_are_refused(options, message, tmp_path):
    with pytest.raises(nareg.errors.InputError, match=message):
        CertifiedGPR(folder=tmp_path / "m", **options)


def test_input_that_cannot_work_is_refused(rng, tmp_path):
    graph, X, y = problem(rng)
    nareg.Graph(2 * graph.adjacency).save(tmp_path / "weighted.graph")
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "mine.txt").write_text("mine")
    bad = X.copy()
    bad[7, 2] = np.nan
    for where, arguments, message in (
        (
            "m",
            (tmp_path / "weighted.graph", X, y, np.arange(40)),
            "has edge weights: certified removal is for edges of weight one",
        ),
        ("m", (nareg.Graph(2 * graph.adjacency), X, y, np.arange(40)), "graph has an edge of weight 2"),
        ("m", (tmp_path / "none.graph", X, y, np.arange(40)), "is not a graph folder"),
        ("m", (graph, tmp_path / "none.npy", y, np.arange(40)), "which is no file"),
        ("m", (graph, X[:7], y, np.arange(40)), "features has shape"),
        ("m", (graph, X[:, 0], y, np.arange(40)), "features"),
        ("m", (graph, bad, y, np.arange(40)), r"features\[7, 2\] is nan"),
        ("m", (graph, X, y, []), "train is empty"),
        ("other", (graph, X, y, np.arange(40)), "exists and is not a folder with state.json"),
    ):
        with pytest.raises(nareg.errors.InputError, match=message):
            CertifiedGPR(folder=tmp_path / where).fit(*arguments)
    assert sorted(file.name for file in tmp_path.iterdir()) == ["other", "weighted.graph"]
    with pytest.raises(nareg.errors.InputError, match="is not the folder of a model"):
        CertifiedGPR.load(tmp_path / "other")
    assert [file.name for file in (tmp_path / "other").iterdir()] == ["mine.txt"]


def test_centered_columns_raise_the_warning_of_the_model_in_memory(rng, tmp_path):
    graph, X, y = problem(rng)
    X = 1e6 + X - X.mean(axis=0)
    CertifiedGPR(folder=tmp_path / "m", alpha=0).fit(graph, X, y, np.arange(40)).close()  # far from zero: no warning
    with pytest.warns(UserWarning, match="6 of 6 columns of features have mean zero") as caught:
        CertifiedGPR(folder=tmp_path / "n").fit(graph, X - X.mean(axis=0), y, np.arange(40)).close()
    assert caught[0].filename == __file__


def test_new_nodes_need_features_that_the_files_can_hold(rng, tmp_path):
    graph, X, y = problem(rng)
    model = CertifiedGPR(rng=rng, folder=tmp_path / "m").fit(graph, X.astype(np.float32), y, np.arange(40))
    before = everything(model)
    with pytest.raises(nareg.errors.InputError, match="has values that float32, in which the model's were given, cannot hold"):
        model.add_nodes(np.full((1, 6), 0.1))
    assert_equal(everything(model), before)
    model.add_nodes(np.full((1, 6), 0.1, dtype=np.float32))
    model.close()


@pytest.mark.parametrize("name", ["sum.npy", "state.json", "term.npy", "live.npy"])
@pytest.mark.parametrize("damage", ["missing", "cut", "other"])
def test_a_damaged_folder_is_refused(name, damage, rng, tmp_path):
    mapped(rng, tmp_path / "m").close()
    file = tmp_path / "m" / name
    content = file.read_bytes()
    if damage == "missing":
        file.unlink()
    else:
        file.write_bytes(content[: len(content) - 9] if damage == "cut" else b"x" * len(content))
    with pytest.raises((LedgerError, nareg.errors.InputError), match=r"restore|is not the folder of a model"):
        CertifiedGPR.load(tmp_path / "m")
    file.write_bytes(content)
    CertifiedGPR.load(tmp_path / "m").close()  # the lock was given back


@pytest.mark.parametrize(("name", "at", "value"), [
    ("start", 3, 10**9), ("start", 3, -1), ("live", 0, 50), ("room", 5, 10**6), ("row", 7, 99), ("row", 7, 8), ("node", 0, 1),
    ("neighbors", 4, 60), ("neighbors", 4, -7),
])  # fmt: skip
def test_numbers_that_would_lead_out_of_the_tables_are_refused(name, at, value, rng, tmp_path):
    mapped(rng, tmp_path / "m").close()
    array = np.load(tmp_path / "m" / f"{name}.npy", mmap_mode="r+")
    array[at] = value
    array.flush()
    del array
    with pytest.raises(LedgerError, match="its files do not fit together"):
        CertifiedGPR.load(tmp_path / "m")


def test_a_preview_is_the_change_and_leaves_the_files(rng, tmp_path):
    model = mapped(rng, tmp_path / "m")
    edge = np.argwhere(np.triu(model._data.graph.adjacency().toarray()))[5]
    before = everything(model)
    factors = model.preview(edge)
    assert_equal(everything(model), before)
    Z = model.embedding()
    Z[factors.nodes] += factors.left @ factors.right
    model.remove_edges([edge])
    np.testing.assert_allclose(model.embedding(), Z, atol=1e-12)
    model.close()


def test_a_table_reads_its_changes_and_forgets_them(tmp_path):
    table = Table.create(tmp_path / "t.npy", "<f8", (10, 3))
    table.write(0, np.arange(30.0).reshape(10, 3))
    table.attach()
    table.array[[2, 7]] = -1
    table.note(np.array([7, 2]))
    expected = np.arange(30.0).reshape(10, 3)
    np.testing.assert_array_equal(np.load(tmp_path / "t.npy"), expected)
    expected[[2, 7]] = -1
    np.testing.assert_array_equal(table.read(1, 8), expected[1:8])
    table.grow(20)
    np.testing.assert_array_equal(table.array[:10], expected)
    np.testing.assert_array_equal(table.noted(), [2, 7])
    table.attach()
    assert table.array[2, 0] == 6
    assert len(np.load(tmp_path / "t.npy")) == table.capacity == 25
