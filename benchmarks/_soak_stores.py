"""Stores and folders of models that are mistreated at random, against what was asked and acknowledged (see ``soak.py``).

This process never runs a compiled loop, so that it can fork the ones that do.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import tempfile
import threading
import time
import traceback
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp
from scipy.special import expit

import nareg
from nareg.errors import BusyError, LedgerError, NaregError
from nareg.unlearning import CertifiedGPR, verify

WEIGHTS = np.array([0.1, 0.2, 0.7])
N, TRAIN = 120, 80
#: Requests to a store before it is made anew.
LIFE = 24
#: Seconds that a process may take, which is killed then: it waits for a lock that nobody gives back.
PATIENCE = 120


class Task:
    """Raw data, a store or folder of a model on them, and the log of requests."""

    def __init__(self, folder: Path, kind: str, seed: int) -> None:
        self.path, self.log, self.kind, self.seed = folder / "model", folder / "log", kind, seed
        #: What links lead to, and nobody may change.
        self.victim = folder / "victim"

    def data(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Adjacency, features and labels."""
        made = nareg.datasets.node_classification.synthetic(N, 3, n_features=6, rng=np.random.default_rng(self.seed))
        return made.graph.adjacency.toarray(), np.array(made.features, dtype=float), made.labels

    def create(self) -> None:
        A, X, y = self.data()
        options: dict[str, Any] = {"folder": self.path} if self.kind == "folder" else {}
        model = CertifiedGPR(weights=WEIGHTS, lam=0.01, alpha=0.1, **options)
        model.fit(A, X, y, np.arange(TRAIN), classes=np.unique(y))
        if self.kind == "store":
            model.save(self.path)
        model.close()

    def write(self, what: str, request: list[Any]) -> None:
        """One line, as a whole and at once."""
        handle = os.open(self.log, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
        os.write(handle, (json.dumps([what, request]) + "\n").encode())
        os.close(handle)

    def read(self, what: str) -> list[list[Any]]:
        lines = self.log.read_text().splitlines() if self.log.exists() else []
        return [request for kind, request in map(json.loads, lines) if kind == what]


def ask(task: Task, model: CertifiedGPR, rng: np.random.Generator) -> None:
    """A random request, written down before it and when it is acknowledged."""
    here = model.remaining
    if rng.random() < 0.1:
        model.renew()
        return
    node = int(rng.choice(here[1:]))
    with model._lock.mutex:
        ends = model._data.graph.neighbors_of(node)
    if ends.size and rng.random() < 0.5:
        request: list[Any] = ["edge", sorted([node, int(ends[0])])]
        act: Callable[[], Any] = lambda: model.remove_edges([request[1]])  # noqa: E731
    else:
        request, act = ["node", node], lambda: model.remove_nodes([node])
    task.write("asked", request)
    act()
    task.write("done", request)


def serve(task: Task, rng: np.random.Generator, *, threads: bool, fork: bool, plant: bool) -> None:
    """Remove until this process is killed."""
    model = CertifiedGPR.load(task.path)
    if plant:
        (task.path / "journal").symlink_to(task.victim)
    children: list[int] = []

    def loop(rng: np.random.Generator) -> None:
        for _ in range(LIFE // 2):
            try:
                ask(task, model, rng)
            except (BusyError, nareg.errors.InputError):  # the other thread is at it, or was first
                time.sleep(0.001)

    failures: list[str] = []

    def watched(rng: np.random.Generator) -> None:
        try:
            loop(rng)
        except BaseException:
            failures.append(traceback.format_exc())

    others = [threading.Thread(target=watched, args=(one,)) for one in rng.spawn(2)] if threads else []
    for other in others:
        other.start()
    if fork:
        for _ in range(3):
            time.sleep(float(rng.random()) * 0.05)
            if not (child := os.fork()):
                _refused(task, model)
            children.append(child)
    if not others:
        loop(rng)
    for other in others:
        other.join()
    if failures:
        raise AssertionError(failures[0])
    for child in children:
        if os.waitpid(child, 0)[1]:
            raise AssertionError("a fork was acknowledged a request, or was not told why not")
    model.close()


def _refused(task: Task, model: CertifiedGPR) -> None:
    """In a fork of a service: a request must be refused, and closing must not disturb the service."""
    status = 1
    try:
        signal.alarm(PATIENCE)
        try:
            model.remove_nodes([1])
        except (LedgerError, nareg.errors.SolverError):
            status = 0
        model.close()
    finally:
        os._exit(status)


def check(task: Task, *, flip: np.random.Generator | None = None) -> str:
    """Compare a model with the log; with ``flip`` after a bit of a copy did, and a further removal."""
    asked, done = task.read("asked"), task.read("done")
    A, X, y = task.data()
    try:
        if flip is not None:
            _flip(task, flip)
        elif not verify(task.path).holds:
            return "verify says that the certificate does not hold"
        model = CertifiedGPR.load(task.path)
    except NaregError:
        if flip is None:
            raise
        return ""
    try:
        if flip is not None:
            model.remove_nodes([int(flip.choice(model.remaining[1:]))])
        spent, here = model.certificate().spent, model.remaining
        left = {tuple(edge) for edge in np.argwhere(np.triu(model._data.graph.adjacency().toarray())).tolist()}
        W, B, train, classes, lam = model.coefficients, model._head.B, model.train, model.classes, model.lam
    except NaregError:
        if flip is None:
            raise
        return ""
    finally:
        model.close()
    gone = set(range(N)) - set(here.tolist())
    edges = {tuple(edge) for edge in np.argwhere(np.triu(A)).tolist()}
    if flip is None:
        nodes_of = {what: {at for kind, at in log if kind == "node"} for what, log in (("asked", asked), ("done", done))}
        edges_of = {what: {tuple(at) for kind, at in log if kind == "edge"} for what, log in (("asked", asked), ("done", done))}
        if not nodes_of["done"] <= gone or edges_of["done"] & left:
            return f"acknowledged, but there: {sorted(nodes_of['done'] - gone)}, {sorted(edges_of['done'] & left)}"
        unasked = {edge for edge in edges - left if not gone & set(edge)} - edges_of["asked"]
        if not gone <= nodes_of["asked"] or unasked:
            return f"gone, but nobody asked: {sorted(gone - nodes_of['asked'])}, {sorted(unasked)}"
    if not left <= edges or any(gone & set(edge) for edge in left):
        return "edges that were never there, or of nodes that are gone"
    X[list(gone)] = 0
    pairs = np.array(sorted(left), dtype=int).reshape(-1, 2)
    half = sp.csr_array((np.ones(len(pairs)), (pairs[:, 0], pairs[:, 1])), shape=(N, N))
    loops = half + half.T + sp.eye_array(N)
    roots = sp.diags_array(1 / np.sqrt(loops.sum(axis=1)))
    Z = sum(w * part for w, part in zip(WEIGHTS, _powers(roots @ loops @ roots, X), strict=True))[train]
    if sorted(set(range(TRAIN)) - gone) != train.tolist():
        return "it trains on other nodes than remain"
    signs = np.where(y[train][:, None] == classes, 1.0, -1.0)
    gradient = float(np.linalg.norm(Z.T @ (-signs * expit(-signs * (Z @ W))) + lam * len(train) * W + B))
    return "" if gradient <= spent * (1 + 1e-6) + 1e-10 else f"a false certificate: spent {spent:.3g}, gradient {gradient:.3g}"


def _powers(P: Any, X: np.ndarray) -> list[np.ndarray]:
    return [X, P @ X, P @ (P @ X)]


def _flip(task: Task, rng: np.random.Generator) -> None:
    files = [file for file in task.path.iterdir() if file.stat().st_size]
    file = files[rng.integers(len(files))]
    content = bytearray(file.read_bytes())
    content[rng.integers(len(content))] ^= 1 << int(rng.integers(8))
    file.write_bytes(content)


def in_a_process(act: Callable[[], str | None], *, killed_after: float | None = None) -> str:
    """What an act in a process of its own finds wrong; with ``killed_after`` it is killed after so many seconds."""
    there, here = os.pipe()
    child = os.fork()
    if not child:
        try:
            os.close(there)
            signal.alarm(PATIENCE)
            try:
                wrong = act() or ""
            except BaseException:
                wrong = traceback.format_exc()
            os.write(here, wrong.encode()[-4000:])
        finally:
            os._exit(0)
    os.close(here)
    if killed_after is not None:
        time.sleep(killed_after)
        os.kill(child, signal.SIGKILL)
    with os.fdopen(there, "rb", closefd=True) as pipe:
        wrong = "" if killed_after is not None else pipe.read().decode()
    _, status = os.waitpid(child, 0)
    if killed_after is None and status:
        return wrong or f"the process ended with status {status}"
    return wrong


def run(seconds: float, seed: int) -> int:
    """Mistreat stores for so long; print what was done, and return 1 if something was violated."""
    end, rng = time.monotonic() + seconds, np.random.default_rng(seed)
    counts: Counter[str] = Counter()
    violations: list[str] = []
    while time.monotonic() < end:
        with tempfile.TemporaryDirectory() as place:
            task = Task(Path(place), str(rng.choice(["store", "folder"])), int(rng.integers(2**31)))
            task.victim.write_bytes(b"x" * 400)
            violations += filter(None, [in_a_process(task.create)])
            while time.monotonic() < end and len(task.read("asked")) < LIFE and not violations:
                mode = {name: bool(rng.random() < 0.5) for name in ("threads", "fork", "plant")}
                killed = float(rng.gamma(2.0, 0.5)) if rng.random() < 0.7 else None
                own = np.random.default_rng(rng.integers(2**31))
                before = len(task.read("done"))
                wrong = [in_a_process(lambda: serve(task, own, **mode), killed_after=killed)]  # noqa: B023
                if (task.path / "journal").is_symlink():  # the service was killed before it took the place of the link
                    (task.path / "journal").unlink()
                wrong += [in_a_process(lambda: check(task))]  # noqa: B023
                copy = Task(Path(place) / "copy", task.kind, task.seed)
                for _ in range(3):
                    shutil.rmtree(copy.path.parent, ignore_errors=True)
                    shutil.copytree(place, copy.path.parent, ignore=shutil.ignore_patterns("copy"))
                    wrong += [in_a_process(lambda: check(copy, flip=own))]  # noqa: B023
                if task.victim.read_bytes() != b"x" * 400:
                    wrong.append("a file outside of the folder was changed")
                counts.update({name: 1 for name, on in mode.items() if on} | {"flip": 3, "service": 1, task.kind: 1})
                counts.update({"kill": killed is not None, "acknowledged": len(task.read("done")) - before})
                violations += [f"{task.kind}, {mode}, killed after {killed}: {one}" for one in wrong if one]
        if violations:
            break
    print(", ".join(f"{name} {count}" for name, count in sorted(counts.items())))
    for one in violations:
        print(one)
    print(f"{len(violations)} violations in {seconds:.0f} seconds, seed {seed}")
    return int(bool(violations))
