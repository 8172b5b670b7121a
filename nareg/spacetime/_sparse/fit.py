"""Fit a model to the readings of a large network."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import numpy as np
import scipy.sparse as sp

from nareg._core import checks
from nareg._solvers.costs import factor_size
from nareg._solvers.threads import one_thread
from nareg.graph import Graph
from nareg.progress import ProgressCallback
from nareg.results import Status
from nareg.spacetime._dense.identifiability import remarks
from nareg.spacetime._model.results import Bands, FitDetails, calibrate
from nareg.spacetime._model.sparse import ROUGH, THREADS, SparseSpaceTimeModel
from nareg.spacetime._readings import times as _times
from nareg.spacetime._readings import transforms as _transforms
from nareg.spacetime._readings.outliers import deletion_scores, gross
from nareg.spacetime._readings.resolution import noise_floor
from nareg.spacetime._readings.space import Space
from nareg.spacetime._readings.task import LearningTask, StageClock
from nareg.spacetime._readings.transforms import Transform, TransformLike
from nareg.spacetime._sparse import cycles
from nareg.spacetime._sparse.field import FieldFamily
from nareg.spacetime._sparse.fitting import estimate, learn_part, mean_of, neighborhood
from nareg.spacetime._sparse.learning import Memory, shrunk_noise
from nareg.spacetime._sparse.system import log_likelihood

#: Stations of a patch by which a transform is chosen.
TRANSFORM_PATCH = 60
#: Rounds that look for gross outliers and improve the noise variances.
ROUNDS = 2
#: Bytes that a fit takes per reading, and per entry of a sparse factor, of which there are some.
PER_READING, PER_ENTRY, FACTORS = 160, 16, 30
#: Smaller networks fit anywhere, whatever their graph.
SMALL = 2_000


def fit_sparse(
    graph: Graph, y: np.ndarray, calm: np.ndarray, grid: _times.TimeGrid, transform: TransformLike,
    wanted: str | tuple[str, ...], task: LearningTask, progress: ProgressCallback | None,
) -> SparseSpaceTimeModel:  # fmt: skip
    """Fit to readings ``calm`` (N, T), which are ``y`` without stuck and absurd ones."""
    _check_size(graph, grid.length)
    track = StageClock(progress)
    with one_thread(), ThreadPoolExecutor(THREADS) as pool:
        law = _chosen_transform(transform, calm, grid, graph, wanted)
        families = {k: FieldFamily(graph.adjacency, k) for k in (1, 2)}
        values = law.forward(calm).T
        spread = float(np.nanstd(values))
        unit = spread if spread > 0 else max(float(np.nanmax(np.abs(values))), 1.0)
        rows = grid.on_rows(values / unit)
        seasonal = cycles.fit(rows, grid.seconds, grid.step, grid.dated, families[2], wanted)
        rows = rows - seasonal.at(grid.seconds)
        task = task.of_rows(unit, seasonal.errors_at(grid.seconds), noise_floor(calm, rows, law, unit, graph.adjacency))
        learned = learn_part(rows, graph, families, task, track, pool)
        process = learned.process
        excluded = np.zeros(rows.shape, dtype=bool)
        track.enter("noise of every station from all readings", 1.0, ROUNDS + 1)
        memory = Memory()
        for _ in range(ROUNDS):
            x, var = estimate(np.where(excluded, np.nan, rows), process, graph, pool, ROUGH, memory=memory)
            if task.robust:
                excluded |= gross(deletion_scores(rows, x, var, np.where(excluded, np.inf, process.noise)))
            if task.noise is None:
                noise = _station_noise(np.where(excluded, np.nan, rows), x, var, process.noise)
                process = replace(process, noise=task.bounded(noise))
            track.tick(1)
        rows = np.where(excluded, np.nan, rows)
        x = mean_of(rows, process, pool, ROUGH, memory)
        track.tick(1)
        value = log_likelihood(rows.T, x.T, process, pool)
    unusable, known = np.isfinite(y) & ~np.isfinite(calm), task.noise is not None
    notes = remarks(y, unusable, rows, process.noise, process.variance, graph.names, fixed_noise=known, further=1)
    left_out = unusable | excluded[grid.rows].T
    seen = y[np.isfinite(y) & ~left_out]
    value += float(law.log_slope(seen).sum()) - seen.size * float(np.log(unit))
    spatial = process.field
    chosen = f"Matern field on the graph of smoothness {spatial.family.smoothness}, reach {spatial.reach:.3g} edges, order 1"
    return SparseSpaceTimeModel(
        graph=graph, transform=law, unit=unit, cycles=seasonal, unit_noise=process.noise, process=process,
        shares=learned.shares, grid=grid,
        bands=Bands() if learned.held_out is None else calibrate(learned.held_out).in_unit(unit),
        status=Status.CONVERGED if learned.fitted.converged else Status.MAX_ITERATIONS, log_likelihood=value, readings=y,
        excluded=left_out, timings=track.timings(),
        details=FitDetails(
            chosen, tuple(learned.choices), (), abs(learned.fitted.gains[-1]) if learned.fitted.gains else float("inf"),
            0 if learned.held_out is None else int(learned.held_out.truth.size), notes,
        ),
    )  # fmt: skip


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


def _chosen_transform(
    transform: TransformLike, y: np.ndarray, grid: _times.TimeGrid, graph: Graph, wanted: str | tuple[str, ...]
) -> Transform:
    """The transform that a user named, or the likeliest for a patch of neighbors."""
    seen = y[np.isfinite(y)]
    if not (isinstance(transform, str) and transform == "auto"):
        return _transforms.named(transform, seen)
    laws = {law.name: law for law in _transforms.candidates(seen)}
    if len(laws) == 1:
        return laws["none"]
    from nareg.spacetime._model.fit import chosen_transform

    patch = neighborhood(graph.adjacency, np.isfinite(y).sum(axis=1), TRANSFORM_PATCH)
    law = chosen_transform("auto", y[patch], grid, Space.of(graph.subgraph(patch)), wanted)
    return laws.get(law.name, laws["none"])
