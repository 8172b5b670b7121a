"""Loops that share rows among threads, or run in the calling one: the same numbers, and the caller's threads kept."""

import os
import subprocess
import sys

import numba
import numpy as np
import pytest
import scipy.sparse as sp

from nareg._core.compiled import SHARED
from nareg.design._risk import kernels
from tests.helpers import at_night


@pytest.mark.slow
@pytest.mark.parametrize("columns", [3, 40_000])
def test_small_and_large_arguments_give_the_formula(columns, rng):
    pattern = sp.csr_array((rng.random((20, 20)) < 0.3).astype(float))
    A, B = rng.standard_normal((2, 20, columns))
    assert (2 * A.size + pattern.indices.size + pattern.indptr.size >= SHARED) == (columns == 40_000)
    result = kernels.pair_products(pattern.indptr, pattern.indices, A, B)
    rows = np.repeat(np.arange(20), np.diff(pattern.indptr))
    np.testing.assert_allclose(result, (A @ B.T + B @ A.T)[rows, pattern.indices], rtol=1e-12, atol=1e-10)


@pytest.mark.slow
def test_threads_of_the_caller_are_kept(rng):
    before = numba.get_num_threads()
    A = rng.standard_normal((4, 2))
    kernels.pair_products(np.array([0, 1, 1, 1, 1]), np.array([0]), A, A)
    assert numba.get_num_threads() == before
    with pytest.raises(numba.TypingError):
        kernels.pair_products("not an array", None, A, A)
    assert numba.get_num_threads() == before


WORK = """
import sys, tempfile, pathlib
import numpy as np, nareg
from nareg.unlearning import CertifiedGPR

graph = nareg.graphs.grid((120, 120))
y = np.random.default_rng(0).standard_normal((graph.n_nodes, 80))
folder = pathlib.Path(tempfile.mkdtemp())
graph.save(folder / "g.graph")
data = nareg.datasets.node_classification.synthetic(500, 3, n_features=8, rng=np.random.default_rng(0))


def unlearn(k):
    model = CertifiedGPR(lam=0.01, alpha=1.0).fit(data.graph, data.features, data.labels, np.arange(300))
    model.remove_nodes([k])
    return np.abs(model.embedding()).sum()


WORK = {
    "denoise": lambda k: nareg.filters.denoise(graph, 2.0, y, method="cg").x.sum(),
    "propagate": lambda k: nareg.gnn.propagate(graph, y, weights=[0.5, 0.25, 0.25]).sum(),
    "on disk": lambda k: nareg.filters.denoise(folder / "g.graph", 2.0, y, out=folder / f"{k}.npy").x.sum(),
    "unlearn": unlearn,
}


def work(k):
    return [one(k) for one in WORK.values()]
"""

FORK = """
import multiprocessing

expected = work(1)
context = multiprocessing.get_context("fork")
results = context.Queue()
child = context.Process(target=lambda: results.put(work(1)))
child.start()
assert np.allclose(results.get(timeout=200), expected, rtol=1e-6)
child.join()
assert child.exitcode == 0
assert np.allclose(work(1), expected, rtol=1e-6)
print("done")
"""

THREADS = """
from concurrent.futures import ThreadPoolExecutor

expected = [work(k) for k in range(4)] if len(sys.argv) > 1 else None
with ThreadPoolExecutor(4) as pool:
    results = list(pool.map(work, range(6)))
assert expected is None or np.allclose(results[:4], expected, rtol=1e-6)
import numba

assert numba.threading_layer() == "workqueue"
print("done")
"""


def run_script(script, *arguments, **environment):
    done = subprocess.run(
        [sys.executable, "-c", WORK + script, *arguments],
        env={**os.environ, "NUMBA_NUM_THREADS": "2", **environment}, capture_output=True, text=True, timeout=500, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.strip() == "done"


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
@pytest.mark.parametrize("layer", ["omp", "workqueue"])
def test_a_forked_process_computes_what_its_parent_does(layer):
    """GNU OpenMP kills the child of a process that has used it."""
    run_script(FORK, NUMBA_THREADING_LAYER=layer)


@pytest.mark.slow
@pytest.mark.parametrize("first", [[], *at_night([["after one thread"]])])
def test_threads_take_turns_where_numba_has_no_library_for_them(first):
    """Its own threads abort the process when two loops start at once."""
    run_script(THREADS, *first, NUMBA_THREADING_LAYER="workqueue")


COLD = """
import logging
import numpy as np
from nareg._solvers.twofold import add

logging.basicConfig(level=logging.INFO)
for _ in range(2):
    add(*np.ones((3, 2, 2)))
"""


@pytest.mark.slow
def test_a_first_call_says_that_loops_are_compiled(tmp_path):
    """A user who waits is told why, once; a second process has the compiled loops."""
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path)}
    runs = [
        subprocess.run([sys.executable, "-c", COLD], capture_output=True, text=True, env=environment, check=True)
        for _ in range(2)
    ]
    assert [done.stderr.count("Loops are compiled") for done in runs] == [1, 0]


@pytest.mark.slow
def test_without_a_folder_for_them_loops_are_compiled_with_one_note():
    """A read-only installation of a user without a home."""
    environment = {**os.environ, "NUMBA_CACHE_DIR": "", "NUMBA_CACHE_LOCATOR_CLASSES": "UserProvidedCacheLocator"}
    done = subprocess.run([sys.executable, "-c", COLD], capture_output=True, text=True, env=environment, check=True)
    assert done.stderr.count("set NUMBA_CACHE_DIR") == 1


SUMS = """
import numpy as np
from numba.core import event
from nareg._solvers import kernels


class Names(event.Listener):
    names = []

    def on_start(self, event):
        self.names.append(event.data["dispatcher"].py_func.__name__)

    def on_end(self, event):
        pass


event.register("numba:compile", Names())
X, R, P, Q = np.ones((4, 50, 1))
print(kernels.step_and_norms(X, R, P, Q, np.ones(50), np.full(1, 0.5)).ravel().tolist(), *Names.names)
"""


@pytest.mark.slow
def test_small_arguments_compile_neither_threads_nor_sums(tmp_path):
    """Numba's sum along an axis is a hundred functions, and threads triple the time: a first solve would wait for both."""
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path)}
    done = subprocess.run([sys.executable, "-c", SUMS], capture_output=True, text=True, env=environment, check=True)
    sums, names = done.stdout.split("] ")
    assert sums == "[12.5, 12.5, 12.5"
    assert names.split()[0] == "step_and_norms_1_serial"
    assert len(names.split()) < 20
