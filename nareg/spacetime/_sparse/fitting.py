"""From readings of a large network to a process: windows, a start from a patch, the field's smoothness, what to leave out."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, replace

import numpy as np
import scipy.sparse as sp

from nareg._core import checks
from nareg._solvers.costs import factor_size
from nareg._solvers.threads import one_thread
from nareg.graph import Graph
from nareg.results import Status
from nareg.spacetime._dense.families import windows_of
from nareg.spacetime._dense.parametric import Penalized, maximize
from nareg.spacetime._dense.starts import first_guess
from nareg.spacetime._readings.cycle_errors import OffsetErrors
from nareg.spacetime._readings.engine import Learned, Learner, LearningTask, StageClock
from nareg.spacetime._readings.holdout import FEWEST_HIDDEN, HeldOut, hide, improvement, robust_scale
from nareg.spacetime._readings.outliers import deletion_scores, gross
from nareg.spacetime._readings.space import Space
from nareg.spacetime._sparse.cycles import SparseShrinkage
from nareg.spacetime._sparse.estimates import THREADS, estimate, mean_of
from nareg.spacetime._sparse.field import SMOOTHNESS, FieldFamily, neighborhood
from nareg.spacetime._sparse.learning import FittedProcess, Memory, Window, learn, shrunk_noise
from nareg.spacetime._sparse.system import Process, log_likelihood
from nareg.spacetime._sparse.variances import OffsetShares, everything, shares_of

#: Unknowns of the windows that learning sees, and the fewest times in a window.
UNKNOWNS, FEWEST_ROWS = 500_000, 24
#: Stations of the part that a larger network is learned on.
STATIONS = 20_000
#: Readings that are hidden at most, and their share.
HIDDEN, HIDDEN_SHARE = 20_000, 0.1
#: Stations of the patch that a dense model is fitted to for a start, and iterations of that fit.
PATCH, PATCH_ITERATIONS = 60, 12
#: Iterations of scoring: for the first field, for the other smoothness, which starts from its answer, and with all readings.
ITERATIONS, WARM, AGAIN = 25, 12, 8
#: Residual of the solves that predict hidden readings.
PREDICTION_TOL = 1e-4
#: Residual of those that tell what stays of errors of mean and cycles, and of those that only look for gross outliers.
ROUGH_TOL, ROUGH = 1e-2, 1e-3


#: Stations of a patch by which a transform is chosen.
TRANSFORM_PATCH = 60
#: Rounds that look for gross outliers and improve the noise variances.
ROUNDS = 2
#: Bytes that a fit takes per reading, and per entry of a sparse factor, of which there are some.
PER_READING, PER_ENTRY, FACTORS = 160, 16, 30
#: Smaller networks fit anywhere, whatever their graph.
SMALL = 2_000


@dataclass(frozen=True)
class SparseLearner(Learner):
    """Learns with sparse precisions, on a part of the record and of a larger network."""

    graph: Graph
    pool: ThreadPoolExecutor
    families: dict[int, FieldFamily]  # of every smoothness

    def patch(self, y: np.ndarray) -> tuple[np.ndarray, Space]:
        """Some neighbors, where readings (N, T) are densest."""
        stations = neighborhood(self.graph.adjacency, np.isfinite(y).sum(axis=1), TRANSFORM_PATCH)
        return stations, Space.of(self.graph.subgraph(stations))

    def shrinkage(self, rows: np.ndarray, z: np.ndarray | None) -> SparseShrinkage:
        """Towards sparse fields."""
        return SparseShrinkage(self.families[2], np.isfinite(rows).sum(axis=0), z)

    def learn(self, rows: np.ndarray, task: LearningTask, clock: StageClock) -> Learned:
        """Learn from readings (T, N), mean and cycles removed, NaN where missing."""
        graph, pool = self.graph, self.pool
        learned = learn_part(rows, graph, self.families, task, clock, pool)
        process = learned.process
        excluded = np.zeros(rows.shape, dtype=bool)
        clock.enter("noise of every station from all readings", 1.0, ROUNDS + 1)
        memory = Memory()
        for _ in range(ROUNDS):
            x, var = estimate(np.where(excluded, np.nan, rows), process, graph, pool, ROUGH, memory=memory)
            if task.robust:
                excluded |= gross(deletion_scores(rows, x, var, np.where(excluded, np.inf, process.noise)))
            if task.noise is None:
                noise = _station_noise(np.where(excluded, np.nan, rows), x, var, process.noise)
                process = replace(process, noise=task.bounded(noise))
            clock.tick(1)
        rows = np.where(excluded, np.nan, rows)
        x = mean_of(rows, process, pool, ROUGH, memory)
        clock.tick(1)
        spatial, gains = process.field, learned.fitted.gains
        smoothness = spatial.family.smoothness
        return Learned(
            {"process": process, "shares": learned.shares}, process.noise, process.variance, excluded,
            log_likelihood(rows.T, x.T, process, pool),
            f"Matern field on the graph of smoothness {smoothness}, reach {spatial.reach:.3g} edges, order 1", learned.choices,
            Status.CONVERGED if learned.fitted.converged else Status.MAX_ITERATIONS, abs(gains[-1]) if gains else float("inf"),
            learned.held_out,
        )  # fmt: skip


@contextmanager
def open_learner(graph: Graph, rows: int) -> Iterator[SparseLearner]:
    """A learner for readings at so many rows of a grid."""
    _check_size(graph, rows)
    with one_thread(), ThreadPoolExecutor(THREADS) as pool:
        yield SparseLearner(graph, pool, {smoothness: FieldFamily(graph.adjacency, smoothness) for smoothness in SMOOTHNESS})


@dataclass(frozen=True, eq=False)
class LearnedProcess:
    """The process, how it was chosen, and the hidden readings with their predictions."""

    fitted: FittedProcess
    held_out: HeldOut | None
    choices: list[tuple[str, float, float]]
    shares: OffsetShares

    @property
    def process(self) -> Process:
        return self.fitted.process


def windows(counts: np.ndarray, n: int) -> list[slice]:
    """Parts of the record that learning sees: all of it, or up to four windows spread over it, each where readings are densest.

    ``counts`` (T,) are the readings of every row of the grid. Where most rows of an uneven grid are empty, windows are longer.
    """
    T, filled = counts.size, max(int(np.count_nonzero(counts)), 1)
    rows = max(FEWEST_ROWS, UNKNOWNS // n) * T // filled
    if rows >= T:
        return [slice(0, T)]
    count = int(np.clip(rows * filled // (T * FEWEST_ROWS), 1, 4))
    length = rows // count
    total = np.concatenate([[0], np.cumsum(counts)])
    inside = total[length:] - total[:-length]  # readings of the window that begins at each row
    parts = []
    for first, last in itertools.pairwise(np.linspace(0, T, count + 1).astype(int)):
        starts = np.arange(first, max(last - length, first) + 1)
        starts = starts[starts + length <= T]
        start = int(starts[np.argmax(inside[starts])])
        parts.append(slice(start, start + length))
    return parts


def learn_large(
    y: np.ndarray,
    graph: Graph,
    families: dict[int, FieldFamily],
    task: LearningTask,
    progress: StageClock,
    pool: ThreadPoolExecutor,
) -> LearnedProcess:
    """Learn from readings (T, N) on a grid, mean and cycles removed, NaN where missing."""
    slices = windows(np.isfinite(y).sum(axis=1), graph.n_nodes)
    parts = [y[p] for p in slices]
    assert task.offsets is not None  # of_rows gave them
    offsets = [task.offsets.at(p) for p in slices]
    known = np.isfinite(y).any(axis=0)
    count = sum(int(np.isfinite(p).sum()) for p in parts)
    share = min(HIDDEN_SHARE, HIDDEN / max(count, 1))
    masks = [hide(p, share, task.rng) for p in parts]
    seeds = [int(seed) for seed in task.rng.integers(2**63, size=len(parts))]
    seen = [np.where(m, np.nan, p) for p, m in zip(parts, masks, strict=True)]

    def fit(readings: Sequence[np.ndarray], start: Process, iterations: int) -> FittedProcess:
        given = [Window(np.ascontiguousarray(part.T), seed) for part, seed in zip(readings, seeds, strict=True)]
        tick = lambda: progress.tick(1.0)  # noqa: E731
        fixed = task.noise is not None
        return learn(given, start, iterations=iterations, fixed_noise=fixed, least=task.least, pool=pool, tick=tick)

    progress.enter("first guess from a patch of stations", 0.05, PATCH_ITERATIONS)
    start = first_process(seen, graph, families[2], task)
    progress.enter("learning the field and the noise", 0.4, ITERATIONS)
    best = fit(seen, start, ITERATIONS)
    if task.robust:
        outliers = [_gross(part, best.process, graph, pool) for part in seen]
        if any(w.any() for w in outliers):
            seen = [np.where(w, np.nan, part) for w, part in zip(outliers, seen, strict=True)]
            best = fit(seen, best.process, AGAIN)
    choices: list[tuple[str, float, float]] = []
    held_out, shares = None, everything(known)
    if sum(int(m.sum()) for m in masks) >= FEWEST_HIDDEN:
        progress.enter("comparing fields", 0.55, WARM)
        other = fit(seen, replace(best.process, field=families[1].at(best.process.field.reach)), WARM)
        predictions = [_held_out(parts, seen, masks, offsets, known, f.process, graph, pool) for f in (best, other)]
        held_out, shares = predictions[0]
        before = held_out.errors
        gain, error = improvement(before, predictions[1][0].errors, robust_scale(before))
        choices.append(("field of smoothness 1", gain, error))
        if gain > error:
            best, (held_out, shares) = other, predictions[1]
    progress.enter("learning from all readings", 0.7, AGAIN)
    whole = parts
    if task.robust:
        whole = [np.where(_gross(part, best.process, graph, pool), np.nan, part) for part in parts]
    return LearnedProcess(fit(whole, best.process, AGAIN), held_out, choices, shares)


def learn_part(
    y: np.ndarray, graph: Graph, families: dict[int, FieldFamily], task: LearningTask, progress: StageClock,
    pool: ThreadPoolExecutor,
) -> LearnedProcess:  # fmt: skip
    """The same on a part of a network that has far more stations than its few parameters need; all then share them."""
    n = graph.n_nodes
    if n <= STATIONS:
        return learn_large(y, graph, families, task, progress, pool)
    counts = np.isfinite(y).sum(axis=0)
    part = neighborhood(graph.adjacency, counts, STATIONS)
    few = graph.subgraph(part)
    smaller = {k: FieldFamily(few.adjacency, k) for k in families}
    learned = learn_large(y[:, part], few, smaller, task.of(part), progress, pool)
    process = learned.process
    everywhere = np.full(n, float(np.exp(np.log(process.noise).mean())))
    everywhere[part] = process.noise
    # the reach is in edges of the graph's mean degree
    scale = float(np.sqrt(graph.adjacency.sum() / n / (few.adjacency.sum() / few.n_nodes or 1.0)))
    field = families[process.field.family.smoothness].at(process.field.reach * scale)
    whole = Process(field, process.rho, process.variance, task.bounded(everywhere) if task.noise is None else task.noise)
    shares = replace(learned.shares, known=counts > 0)
    return replace(learned, fitted=replace(learned.fitted, process=whole), shares=shares)


def first_process(parts: Sequence[np.ndarray], graph: Graph, family: FieldFamily, task: LearningTask) -> Process:
    """A dense model of a patch of neighbors, or where that has too few readings a plain guess."""
    counts = np.sum([np.isfinite(p).sum(axis=0) for p in parts], axis=0)
    patch = neighborhood(graph.adjacency, counts, PATCH)
    few = [p[:, patch] for p in parts]
    few = [w[part] for w in few for part in windows_of(w, 1)]
    few = [w for w in few if np.isfinite(w).sum() >= FEWEST_HIDDEN]
    if not few:
        level = float(np.nanvar(np.concatenate(parts))) or 1.0
        return Process(family.at(2.0), 0.8, level / 2, np.full(graph.n_nodes, level / 2) if task.noise is None else task.noise)
    noise = None if task.noise is None else task.noise[patch]
    space = Space(graph.subgraph(patch).adjacency, None, "euclidean")
    guess = first_guess(few, space, "graph", noise)
    fitted = maximize(Penalized(few, space, guess, fixed_noise=noise is not None), PATCH_ITERATIONS).parameters
    typical = float(np.exp(np.median(fitted.log_noise)))
    everywhere = task.bounded(np.full(graph.n_nodes, typical)) if task.noise is None else task.noise
    reach = float(np.clip(np.exp(fitted.log_reach), 0.5, 50.0))
    rho = float(np.clip(np.tanh(fitted.partials[0]), -0.99, 0.995))
    return Process(family.at(reach), rho, float(np.exp(fitted.log_variance)), everywhere)


def _gross(y: np.ndarray, process: Process, graph: Graph, pool: ThreadPoolExecutor) -> np.ndarray:
    """(T, N) True for readings that all others contradict."""
    x, var = estimate(y, process, graph, pool, PREDICTION_TOL)
    return gross(deletion_scores(y, x, var, process.noise))


def _held_out(
    parts: Sequence[np.ndarray], seen: Sequence[np.ndarray], masks: Sequence[np.ndarray], offsets: Sequence[OffsetErrors],
    known: np.ndarray, process: Process, graph: Graph, pool: ThreadPoolExecutor,
) -> tuple[HeldOut, OffsetShares]:  # fmt: skip
    """Predictions of the hidden readings, and what the others leave of errors of mean and cycles."""
    means, variances, left = [], [], []
    for given, errors in zip(seen, offsets, strict=True):
        memory = Memory()
        mean, var = estimate(given, process, graph, pool, PREDICTION_TOL, memory=memory)
        means.append(mean)
        variances.append(var)
        draws = errors.draws
        rest = np.empty_like(draws)
        for j in range(draws.shape[2]):
            one = np.where(np.isfinite(given), draws[..., j], np.nan)
            rest[..., j] = draws[..., j] - mean_of(one, process, pool, ROUGH_TOL, replace(memory, X=None))
        left.append((var / process.variance, draws, rest))
    shares = shares_of(left, known)
    stds = [
        np.sqrt(var + process.noise + errors.variance * shares.at(var / process.variance))[mask]
        for var, errors, mask in zip(variances, offsets, masks, strict=True)
    ]
    truth, x = ([values[mask] for values, mask in zip(some, masks, strict=True)] for some in (parts, means))
    return HeldOut(np.concatenate(truth), np.concatenate(x), np.concatenate(stds)), shares


def _check_size(graph: Graph, rows: int) -> None:
    """Refuse, before anything is allocated, what would not fit into memory."""
    remedy = "fit parts of the network (graph.subgraph), or fewer times"
    n, degrees = graph.n_nodes, np.diff(graph.adjacency.indptr)
    cells = PER_READING * float(n * rows)
    checks.memory(
        "the sparse space-time model", cells + PER_ENTRY * float((degrees.astype(float) ** 2).sum()), alternative=remedy
    )
    if n > SMALL:
        pattern = sp.csr_array(graph.adjacency + graph.adjacency @ graph.adjacency + sp.eye_array(n))
        checks.memory(
            "the sparse space-time model, whose factors fill in on this graph,",
            cells + FACTORS * PER_ENTRY * factor_size(pattern)[0], alternative=remedy, reserved=8,
        )  # fmt: skip


def _station_noise(rows: np.ndarray, x: np.ndarray, var: np.ndarray, before: np.ndarray) -> np.ndarray:
    """A step of EM in every station's noise variance, on the whole record."""
    seen = np.isfinite(rows)
    squares = np.where(seen, (rows - x) ** 2 + var, 0.0).sum(axis=0)
    return shrunk_noise(seen.sum(axis=0), squares, before)
