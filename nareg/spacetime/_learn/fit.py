"""Fit a graph state-space model to noisy, gappy readings."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import TYPE_CHECKING, Literal

import numpy as np
from numpy.typing import ArrayLike

from nareg._core import checks
from nareg._solvers.threads import few_threads
from nareg.errors import InputError, TooLargeError
from nareg.graph import Graph
from nareg.io import takes_tables
from nareg.progress import ProgressCallback
from nareg.results import Status
from nareg.spacetime import _times, _transforms
from nareg.spacetime._learn import cycles as _cycles
from nareg.spacetime._learn.em import DYNAMICS, DynamicsName
from nareg.spacetime._learn.families import windows_of
from nareg.spacetime._learn.identifiability import noise_errors, remark, remarks
from nareg.spacetime._learn.learning import Learned, learn
from nareg.spacetime._learn.outliers import absurd
from nareg.spacetime._learn.parametric import first_guess, maximize
from nareg.spacetime._learn.repeats import intermittent, stuck
from nareg.spacetime._learn.resolution import noise_floor
from nareg.spacetime._learn.task import LearningTask, StageClock
from nareg.spacetime._model.bands import Bands, calibrate
from nareg.spacetime._model.base import checked_readings, masked
from nareg.spacetime._model.dense import SpaceTimeModel
from nareg.spacetime._model.results import FitDetails
from nareg.spacetime._space import Space
from nareg.spacetime._transforms import Transform, TransformLike

if TYPE_CHECKING:
    from nareg.spacetime._sparse.model import SparseSpaceTimeModel

#: Largest number of stations with dense covariances: a pass costs about 20 N^3 operations per time.
LARGEST = 500
#: Evaluations of the likelihood per transform that "auto" compares.
TRIAL = 8


@takes_tables("readings", "observed", times="times")
def fit(
    graph: Graph,
    readings: ArrayLike,
    *,
    times: ArrayLike | None = None,
    observed: ArrayLike | None = None,
    noise: ArrayLike | Literal["estimate"] = "estimate",
    dynamics: DynamicsName = "auto",
    transform: TransformLike = "auto",
    cycles: str | Iterable[str] | None = "auto",
    robust: bool = True,
    engine: Literal["auto", "dense", "sparse"] = "auto",
    rng: np.random.Generator | None = None,
    progress: ProgressCallback | None = None,
) -> SpaceTimeModel | SparseSpaceTimeModel:
    """Fit a graph state-space model to noisy readings with gaps. It needs no clean data.

    Parameters
    ----------
    graph : Graph
        With coordinates (:meth:`Graph.from_knn`) and at most 500 stations correlations depend on distances, else on the graph.
    readings : (N, T) array, or frame of pandas or polars, or xarray array
        NaN where missing. A table has a row per time and a column per station, and its times.
    times : (T,) array, optional
        Increasing dates (datetime64 or ISO texts) or numbers; default 0, 1, 2, ... Uneven steps get a finer grid.
    observed : (N, T) bool array, optional
        False marks a reading as missing.
    noise : "estimate", number or (N,) array
        Known noise variance(s), in the squared unit of the readings.
    dynamics : {"auto", "scalar", "diagonal", "modes", "graph", "full"}
        Form of A: one number, one per station, one per eigenvector of the field's covariance, a matrix on the graph's edges,
        or any matrix. Each is shrunk towards one number. ``"auto"`` takes the form that predicts hidden readings best.
    transform : "auto", None, "sqrt", "log" or pair of callables
        Transform that makes the readings more nearly Gaussian; a pair is (forward, backward). ``"auto"`` compares the
        likelihoods of None, ``"sqrt"`` and ``"log"`` where readings are skewed and hardly fall below zero.
    cycles : "auto", None or sequence of {"day", "year"}
        Smooth cycles to remove before the fit and to add back afterwards.
    robust : bool
        Fit without stuck runs, absurd values and readings that all others contradict.
    engine : {"auto", "dense", "sparse"}
        ``"dense"`` keeps covariances of all stations, at most 500. ``"sparse"`` serves larger networks: one autoregression, a
        Matern field on the graph, a noise variance per station. ``"auto"`` is dense up to 500 stations.
    rng : numpy.random.Generator, optional
        Chooses the hidden readings. Default: ``numpy.random.default_rng(0)``.
    progress : callable, optional
        Called with a :class:`~nareg.progress.Progress` per step: its stage, and the fraction that is done.

    Raises
    ------
    InputError
        If an argument has no valid value.
    TooLargeError
        Above 500 stations with the dense engine, or where the sparse one would not fit into memory.

    Warns
    -----
    DegenerateFitWarning
        If the likelihood has no maximum: readings that do not vary, or look free of noise, or like nothing but noise.

    Notes
    -----
    ``x_t = A_1 x_{t-1} (+ A_2 x_{t-2}) + e_t`` with ``e_t ~ N(0, Q)`` and ``y_t = x_t + v_t`` with ``v_t ~ N(0, diag(r))``
    where there is a reading. The first step maximizes the likelihood over one autoregression, an exponential, Matern or graph
    covariance and a noise variance per station. The second frees Q and A by EM, shrunk towards the first, where that predicts
    hidden readings better. What one station alone reads at one time counts as noise, unless ``noise`` is given. With
    ``A = rho`` the smoother is ``(C + S)^-1 C y`` on the product of the graph and time.

    Examples
    --------
    >>> import numpy as np, nareg
    >>> rng = np.random.default_rng(0)
    >>> g = nareg.graphs.grid((3, 3))
    >>> truth = np.cumsum(0.1 * rng.standard_normal(300)) + np.zeros((9, 1))
    >>> model = nareg.spacetime.fit(g, truth + 0.5 * rng.standard_normal((9, 300)), rng=rng)
    >>> bool(abs(np.sqrt(model.noise).mean() - 0.5) < 0.05)
    True
    """
    if not isinstance(graph, Graph):
        raise InputError(f"graph is a {type(graph).__name__}: pass a nareg.Graph, as Graph.from_knn(coordinates, k) makes.")
    y = checked_readings(readings, graph.n_nodes)
    checks.choice("engine", engine, ("auto", "dense", "sparse"))
    sparse = engine == "sparse" or (engine == "auto" and graph.n_nodes > LARGEST)
    if graph.n_nodes > LARGEST and not sparse:
        raise TooLargeError(
            f"graph has {graph.n_nodes} stations, more than the {LARGEST} that dense covariances serve: pass engine='sparse', "
            "or omit engine."
        )
    if sparse and dynamics not in ("auto", "scalar"):
        raise InputError(
            f"dynamics is {dynamics!r}, but the sparse engine, for more than {LARGEST} stations, has one autoregression: pass "
            "'auto' or 'scalar'."
        )
    y = masked(y, observed)
    if np.isfinite(y).sum() < 10:
        raise InputError(f"readings has {int(np.isfinite(y).sum())} values: a fit needs at least 10.")
    checks.choice("dynamics", dynamics, ("auto", *DYNAMICS))
    generator = checks.generator(rng)
    wanted = checked_cycles(cycles)
    grid = _times.grid(_times.checked(times, y.shape[1]))
    variances = None if isinstance(noise, str) and noise == "estimate" else _checked_noise(noise, graph.n_nodes, y)
    if variances is not None and transform == "auto":
        transform = None
    if variances is not None and transform is not None:
        raise InputError("noise and transform are both given, but a transform changes the noise variance: omit one of them.")
    unusable = absurd(y.T) | stuck(y.T) if robust else np.zeros(y.T.shape, dtype=bool)
    calm = np.where(unusable.T, np.nan, y)
    # where the quantity rests at a bound, what it does elsewhere is an outlier of every Gaussian model
    task = LearningTask(dynamics, variances, robust and not intermittent(calm.T), generator)
    if sparse:
        from nareg.spacetime._sparse.fit import fit_sparse

        return fit_sparse(graph, y, calm, grid, transform, wanted, task, progress)
    space, track = Space.of(graph), StageClock(progress)
    with few_threads(graph.n_nodes):
        law = chosen_transform(transform, calm, grid, space, wanted)
        rows, unit, seasonal = _prepare(calm, grid, law, space, wanted)
        least = noise_floor(calm, rows, law, unit, graph.adjacency)
        learned = learn(rows, space, task.of_rows(unit, seasonal.errors_at(grid.seconds), least), track)
    estimate = learned.estimate
    field = float(estimate.dynamics.P0.diagonal()[: graph.n_nodes].mean())
    notes = remarks(y, unusable.T, rows, estimate.r, field, graph.names, fixed_noise=variances is not None)
    error = None
    if variances is None:
        counts = np.isfinite(rows).sum(axis=0)
        error = noise_errors(replace(learned.parameters, log_noise=np.log(estimate.r)), space, counts)
        notes += remark(estimate.r, error, counts)
    return _model(graph, y, grid, law, unit, seasonal, learned, unusable, error, notes, track.timings())


def _model(
    graph: Graph, y: np.ndarray, grid: _times.TimeGrid, law: Transform, unit: float, cycles: _cycles.Cycles, learned: Learned,
    unusable: np.ndarray, noise_error: np.ndarray | None, notes: tuple[str, ...], timings: dict[str, float],
) -> SpaceTimeModel:  # fmt: skip
    estimate, refinement = learned.estimate, learned.refinement
    excluded = unusable.T | learned.excluded[grid.rows].T
    seen = y[np.isfinite(y) & ~excluded]
    bands = Bands() if learned.held_out is None else calibrate(learned.held_out).in_unit(unit)
    chosen = f"{learned.parameters.family} correlation, order {learned.parameters.order}"
    if refinement is not None:
        chosen += f"; {refinement.describe()}, {estimate.iterations} iterations of EM"
    status = Status.CONVERGED
    if not estimate.converged:  # EM's iterations were chosen by hidden readings; the parametric search ran out of its own
        status = Status.MAX_ITERATIONS if refinement is None else Status.STOPPED_EARLY
    return SpaceTimeModel(
        graph=graph, transform=law, unit=unit, cycles=cycles, dynamics=estimate.dynamics, unit_noise=estimate.r,
        parameters=learned.parameters, df=None if refinement is None else refinement.df, grid=grid, bands=bands,
        status=status, noise_error=noise_error,
        log_likelihood=estimate.log_likelihood + float(law.log_slope(seen).sum()) - seen.size * float(np.log(unit)),
        readings=y, excluded=excluded,
        details=FitDetails(
            chosen, tuple(learned.choices), tuple(estimate.objective), estimate.gradient,
            0 if learned.held_out is None else int(learned.held_out.truth.size), notes,
        ),
        timings=timings,
    )  # fmt: skip


def _checked_noise(noise: ArrayLike, n: int, y: np.ndarray) -> np.ndarray:
    if isinstance(noise, str):
        raise InputError(f"noise is {noise!r}: pass 'estimate', a variance, or one variance per station.")
    variances = checks.noise("noise", noise, n)
    if variances.ndim == 2:
        raise InputError("noise is a covariance, but this model has independent noise: pass a variance, or one per station.")
    spread = float(np.nanvar(y))
    if (variances > 4 * spread).any() and spread > 0:
        i = int(np.argmax(variances))
        raise InputError(
            f"noise[{i}] is {variances[i]:g} but the readings have a variance of {spread:g}: pass a variance in the "
            "squared unit of the readings (check its unit), or omit it."
        )
    return variances


def checked_cycles(cycles: str | Iterable[str] | None) -> str | tuple[str, ...]:
    """Names of the cycles that a user wants, or "auto"."""
    if cycles is None:
        return ()
    if not isinstance(cycles, (str, tuple, list, set, frozenset)):
        raise InputError(f"cycles is {cycles!r}: pass 'auto', None, or names of {', '.join(map(repr, _cycles.PERIODS))}.")
    if isinstance(cycles, str):
        return "auto" if cycles == "auto" else (checks.choice("cycles", cycles, tuple(_cycles.PERIODS)),)
    return tuple(checks.choice("cycles", name, tuple(_cycles.PERIODS)) for name in cycles)


def _prepare(
    y: np.ndarray, grid: _times.TimeGrid, law: Transform, space: Space, wanted: str | tuple[str, ...]
) -> tuple[np.ndarray, float, _cycles.Cycles]:
    """Transformed readings on the grid over their standard deviation, without means and cycles; that unit; these."""
    values = law.forward(y).T
    spread = float(np.nanstd(values))
    unit = spread if spread > 0 else max(float(np.nanmax(np.abs(values))), 1.0)
    rows = grid.on_rows(values / unit)
    seasonal = _cycles.fit(rows, grid.seconds, grid.step, grid.dated, space, wanted)
    return rows - seasonal.at(grid.seconds), unit, seasonal


def chosen_transform(
    transform: TransformLike, y: np.ndarray, grid: _times.TimeGrid, space: Space, wanted: str | tuple[str, ...]
) -> Transform:
    """The transform that a user named, or the one of largest likelihood of the readings after a few steps."""
    seen = y[np.isfinite(y)]
    if not (isinstance(transform, str) and transform == "auto"):
        return _transforms.named(transform, seen)
    laws = _transforms.candidates(seen)
    if len(laws) == 1:
        return laws[0]
    scores = []
    for law in laws:
        rows, unit, _ = _prepare(y, grid, law, space, wanted)
        parts = windows_of(rows, 1)
        windows = [rows[p] for p in parts]
        start = first_guess(windows, space, space.families[0], 1, None)
        fitted = maximize(windows, space, start, fixed_noise=False, iterations=TRIAL)
        used = np.concatenate([np.isin(grid.rows, np.arange(p.start, p.stop)).nonzero()[0] for p in parts])
        part = y[:, used]
        part = part[np.isfinite(part)]
        scores.append(fitted.log_likelihood + float(law.log_slope(part).sum()) - part.size * float(np.log(unit)))
    return laws[int(np.argmax(scores))]
