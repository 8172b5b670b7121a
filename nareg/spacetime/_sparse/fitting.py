"""From readings of a large network to a process: windows, a start from a patch, the field's smoothness, what to leave out."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace

import numpy as np
import scipy.sparse as sp
from scipy.sparse.csgraph import breadth_first_order, connected_components

from nareg._solvers.backends import Torch, open_torch_time
from nareg.graph import Graph
from nareg.spacetime._dense.learning import windows_of
from nareg.spacetime._dense.parametric import first_guess, maximize
from nareg.spacetime._readings.cycle_errors import OffsetErrors
from nareg.spacetime._readings.holdout import HeldOut, hide, improvement, robust_scale
from nareg.spacetime._readings.outliers import deletion_scores, gross
from nareg.spacetime._readings.space import Space
from nareg.spacetime._readings.task import FEWEST_HIDDEN, LearningTask, StageClock
from nareg.spacetime._sparse.field import FieldFamily
from nareg.spacetime._sparse.learning import FittedProcess, Memory, Window, learn, posterior
from nareg.spacetime._sparse.system import Process
from nareg.spacetime._sparse.variances import Chains, OffsetShares, everything, shares_of

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
#: Residual of those that tell what stays of errors of mean and cycles.
ROUGH_TOL = 1e-2


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
        wild = [_gross(part, best.process, graph, pool) for part in seen]
        if any(w.any() for w in wild):
            seen = [np.where(w, np.nan, part) for w, part in zip(wild, seen, strict=True)]
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
    assert task.offsets is not None  # of_rows gave them
    own = replace(
        task, noise=None if task.noise is None else task.noise[part], offsets=task.offsets.of(part),
        least=None if task.least is None else task.least[part],
    )  # fmt: skip
    smaller = {k: FieldFamily(few.adjacency, k) for k in families}
    learned = learn_large(y[:, part], few, smaller, own, progress, pool)
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
    guess = first_guess(few, space, "graph", 1, noise)
    fitted = maximize(few, space, guess, fixed_noise=noise is not None, iterations=PATCH_ITERATIONS).parameters
    typical = float(np.exp(np.median(fitted.log_noise)))
    everywhere = task.bounded(np.full(graph.n_nodes, typical)) if task.noise is None else task.noise
    reach = float(np.clip(np.exp(fitted.log_reach), 0.5, 50.0))
    rho = float(np.clip(np.tanh(fitted.partials[0]), -0.99, 0.995))
    return Process(family.at(reach), rho, float(np.exp(fitted.log_variance)), everywhere)


def neighborhood(graph: sp.csr_array, counts: np.ndarray, size: int) -> np.ndarray:
    """``size`` stations around the one with most readings (``counts``, (N,)), by breadth-first search.

    It begins in the part of the graph that has most readings, and goes on to others where that is too small.
    """
    parts, label = connected_components(graph, directed=False)
    chosen: list[np.ndarray] = []
    for part in np.argsort(-np.bincount(label, weights=counts, minlength=parts), kind="stable"):
        center = int(np.argmax(np.where(label == part, counts, -1)))
        chosen.append(breadth_first_order(graph, center, directed=False, return_predecessors=False))
        if sum(map(len, chosen)) >= size:
            break
    return np.sort(np.concatenate(chosen)[:size])


def estimate(
    y: np.ndarray, process: Process, graph: Graph, pool: ThreadPoolExecutor, tol: float, backend: Torch | None = None,
    memory: Memory | None = None,
) -> tuple[np.ndarray, np.ndarray]:  # fmt: skip
    """Mean and variance (T, N) of the field given readings (T, N); ``backend`` solves for the mean."""
    x = mean_of(y, process, pool, tol, memory) if backend is None else on_torch(process, y.T, tol, backend).T
    weights = (np.isfinite(y) / process.noise).T
    var = Chains.of(process, weights.mean(axis=1), graph.adjacency).smoothed(weights)
    return x, var.T


def mean_of(y: np.ndarray, process: Process, pool: ThreadPoolExecutor, tol: float, memory: Memory | None = None) -> np.ndarray:
    """Mean (T, N) of the field given readings (T, N); a ``memory`` keeps the answer and the factors for the next call."""
    mean: np.ndarray = posterior(process, Window(np.ascontiguousarray(y.T), 0), 0, tol, memory, pool)[0][:, 0].T
    return mean


def on_torch(process: Process, y: np.ndarray, tol: float, options: Torch) -> np.ndarray:
    """Mean (N, T) of the field given readings (N, T), solved on a device."""
    observed, rho, T = np.isfinite(y), process.rho, y.shape[1]
    weights = observed / process.noise[:, None]
    unit = 1 / (1 - rho**2) if T > 1 else 1.0
    system = open_torch_time(
        process.field.precision() / process.variance, weights, unit, (1 + rho**2) * unit, -rho * unit, process.eigenvalues(T),
        options,
    )  # fmt: skip
    # its preconditioner knows less of the system, and so does the norm of its residuals
    return system.solve(weights * np.where(observed, y, 0.0), 0.1 * tol)


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
