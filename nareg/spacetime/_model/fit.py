"""Fit a graph state-space model to noisy, gappy readings."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike

from nareg._core import checks
from nareg.errors import DegenerateFitWarning, InputError, TooLargeError
from nareg.graph import Graph
from nareg.io import listed, takes_tables
from nareg.progress import ProgressCallback
from nareg.spacetime._dense import learning as _dense
from nareg.spacetime._dense.em import DYNAMICS, DynamicsName
from nareg.spacetime._dense.families import windows_of
from nareg.spacetime._dense.parametric import NOISE_RANGE, NOTED, SMALLEST, Penalized, maximize
from nareg.spacetime._dense.places import PlaceKernel, best_kernel
from nareg.spacetime._dense.starts import calm_noise, first_guess
from nareg.spacetime._model.base import checked_readings
from nareg.spacetime._model.dense import SpaceTimeModel
from nareg.spacetime._model.results import Bands, FitDetails, calibrate
from nareg.spacetime._model.sparse import SparseSpaceTimeModel
from nareg.spacetime._readings import cycles as _cycles
from nareg.spacetime._readings import times as _times
from nareg.spacetime._readings import transforms as _transforms
from nareg.spacetime._readings.covariates import Covariates, Regression
from nareg.spacetime._readings.cycles import Cycles
from nareg.spacetime._readings.engine import Learned, Learner, LearningTask, StageClock
from nareg.spacetime._readings.freezes import stuck
from nareg.spacetime._readings.leaps import leaps
from nareg.spacetime._readings.outliers import absurd
from nareg.spacetime._readings.repeats import intermittent
from nareg.spacetime._readings.resolution import noise_floor
from nareg.spacetime._readings.series import Series
from nareg.spacetime._readings.space import Space
from nareg.spacetime._readings.station_series import StationSeries
from nareg.spacetime._readings.times import TimeGrid
from nareg.spacetime._readings.transforms import Transform, TransformLike
from nareg.spacetime._sparse import fitting as _sparse

#: Largest number of stations with dense covariances: a pass costs about 20 N^3 operations per time.
LARGEST = 500
#: Evaluations of the likelihood per transform that "auto" compares.
TRIAL = 8
#: A noise variance so near to the lower bound of its search, as a factor, has run into it.
AT_BOUND = 3.0
#: A field with less variance than this share of the noise's has vanished.
VANISHED = 1e-3


@takes_tables("readings", times="times")
def fit(
    graph: Graph,
    readings: ArrayLike,
    *,
    times: ArrayLike | None = None,
    noise: ArrayLike | Literal["estimate"] = "estimate",
    dynamics: DynamicsName = "auto",
    transform: TransformLike = "auto",
    cycles: str | Iterable[str] | None = "auto",
    covariates: Mapping[str, ArrayLike] | None = None,
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
    noise : "estimate", number or (N,) array
        Known noise variance(s), in the squared unit of the readings.
    dynamics : {"auto", "scalar", "diagonal", "modes", "graph", "full"}
        Form of A: one number, one per station, one per eigenvector of the field's covariance, a matrix on the graph's edges,
        or any matrix. Each is shrunk towards one number. ``"auto"`` takes the form that predicts hidden readings best.
    transform : "auto", None, "sqrt", "log" or pair of callables
        Transform that makes the readings more nearly Gaussian; a pair is (forward, backward). ``"auto"`` compares the
        likelihoods of None, ``"sqrt"`` and ``"log"`` where readings are skewed and hardly fall below zero.
    cycles : "auto", None or sequence of {"day", "year", "week", "tide"}
        Cycles to remove before the fit and to add back afterwards. ``"auto"`` takes the week where readings of any station
        clearly follow it, and no tide: it is left to the field.
    covariates : mapping from names to (N,), (1, T) or (N, T) arrays, optional
        What is known of the stations beside their places, such as ``{"elevation": heights}``: means and cycles follow those
        that lower the error at stations left out one at a time. And what all share over time, (1, T), or what is known at
        each over time, (N, T), such as a reanalysis: it is followed where it lowers the error in stretches of time left out.
        ``covariate_lines`` says which.
    robust : bool
        Fit without stuck runs, absurd values, leaps and readings that all others contradict.
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
    of_stations, over_time, of_both = checked_covariates(covariates, *y.shape)
    if np.isfinite(y).sum() < 10:
        raise InputError(f"readings has {int(np.isfinite(y).sum())} values: a fit needs at least 10.")
    checks.choice("dynamics", dynamics, ("auto", *DYNAMICS))
    generator = checks.generator(rng)
    wanted = checked_cycles(cycles, tuple(_cycles.CYCLES))
    grid = _times.grid(_times.checked(times, y.shape[1]))
    variances = None if isinstance(noise, str) and noise == "estimate" else _checked_noise(noise, graph.n_nodes, y)
    if variances is not None and transform == "auto":
        transform = None
    if variances is not None and transform is not None:
        raise InputError("noise and transform are both given, but a transform changes the noise variance: omit one of them.")
    unusable = (absurd(y.T) | leaps(y.T)[0] | stuck(y.T)).T if robust else np.zeros(y.shape, dtype=bool)
    if unusable[np.isfinite(y)].all():  # readings that do not vary are answered as they are
        unusable = np.zeros(y.shape, dtype=bool)
    usable = np.where(unusable, np.nan, y)
    if wanted == "auto" and _cycles.weekly(grid.on_rows(usable.T), grid):
        wanted = (*_cycles.find(grid.seconds, grid.step, grid.dated, wanted)[0], _cycles.WEEK)
    beside = None if not of_stations else Covariates.of(of_stations, np.asarray(np.isfinite(usable).any(axis=1)))
    series = None if not over_time else Series.of(over_time, grid.seconds[grid.rows])
    local = None if not of_both else StationSeries.of(of_both, grid.seconds[grid.rows])
    # where the quantity rests at a bound, what it does elsewhere is an outlier of every Gaussian model
    task, clock = LearningTask(dynamics, variances, robust and not intermittent(usable.T), generator), StageClock(progress)
    with (_sparse if sparse else _dense).open_learner(graph, grid.length) as learner:
        law = chosen_transform(transform, usable, grid, learner, wanted)

        def fit_cycles(rows: np.ndarray) -> Cycles:
            if local is None:
                return learner.cycles(rows, grid, wanted, beside, series)
            plain = _cycles.none(*_cycles.find(grid.seconds, grid.step, grid.dated, wanted)).basis(grid.seconds)
            followed = local.chosen(rows[grid.rows], grid.seconds[grid.rows], plain[grid.rows])
            rest = rows - followed.at(grid.seconds)
            return replace(learner.cycles(rest, grid, wanted, beside, series), local=followed)

        rows, unit, seasonal = _prepared(usable, grid, law, fit_cycles)
        least = noise_floor(usable, rows, law, unit, graph.adjacency)
        learned = learner.learn(rows, task.of_rows(unit, seasonal.errors_at(grid.seconds), least), clock)
        before, (seasonal, gain) = seasonal, learner.regressed(seasonal, rows, grid, learned)
        rows = rows + before.at(grid.seconds) - seasonal.at(grid.seconds)
    notes = remarks(y, unusable, rows, learned, graph, fixed_noise=variances is not None)
    excluded = unusable | learned.excluded[grid.rows].T
    seen = y[np.isfinite(y) & ~excluded]
    model = SparseSpaceTimeModel if sparse else SpaceTimeModel
    parts = dict(learned.parts)
    if not sparse and graph.coordinates is not None:
        parts["places"] = _places(np.where(learned.excluded, np.nan, rows), learned, graph, seasonal.regression)
    return model(
        graph=graph, transform=law, unit=unit, cycles=seasonal, unit_noise=learned.noise, grid=grid, status=learned.status,
        bands=Bands() if learned.held_out is None else calibrate(learned.held_out).in_unit(unit),
        log_likelihood=learned.log_likelihood + gain + float(law.log_slope(seen).sum()) - seen.size * float(np.log(unit)),
        readings=y, excluded=excluded, noise_error=learned.noise_error, timings=clock.timings(),
        details=FitDetails(
            learned.chosen, tuple(learned.choices), learned.objective, learned.gradient,
            0 if learned.held_out is None else int(learned.held_out.truth.size), notes,
        ),
        **parts,
    )  # fmt: skip


def _places(rows: np.ndarray, learned: Learned, graph: Graph, regression: Regression | None) -> PlaceKernel:
    """The covariance for places without a station, by readings (T, N) without mean and cycles, NaN where missing."""
    z = np.empty((graph.n_nodes, 0)) if regression is None else regression.covariates.standard
    used = np.zeros(0, dtype=bool) if regression is None else regression.used
    start = PlaceKernel.of(learned.parts["parameters"], used.size)
    return best_kernel(start, rows, learned.noise, Space.of(graph), z, used)


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


def checked_covariates(
    given: Mapping[str, ArrayLike] | None, stations: int, times: int
) -> tuple[dict[str, ArrayLike], dict[str, ArrayLike], dict[str, ArrayLike]]:
    """Covariates of so many stations, those that they share over so many times, (1, T), and those of both, (N, T)."""
    if given is not None and not hasattr(given, "keys"):
        raise InputError(
            f"covariates is a {type(given).__name__}: pass a mapping from names to one value per station, such as "
            "{'elevation': heights}, or to (1, T) or (N, T) values over time."
        )
    of_stations: dict[str, ArrayLike] = {}
    over_time: dict[str, ArrayLike] = {}
    of_both: dict[str, ArrayLike] = {}
    for name, values in (given or {}).items():
        if np.shape(values) == (times,) != (stations,):
            raise InputError(
                f"covariates[{name!r}] has shape ({times},), a value per time: pass shape (1, {times}) for what all stations "
                f"share over time, or a value for each of {stations} stations."
            )
        rows = len(np.asarray(values)) if np.ndim(values) == 2 else 0
        if np.ndim(values) > 1 and rows not in (1, stations):
            raise InputError(
                f"covariates[{name!r}] has shape {np.shape(values)}: pass shape (1, {times}) for what all stations share over "
                f"time, or ({stations}, {times}), a row per station."
            )
        (over_time if rows == 1 else of_both if rows == stations else of_stations)[name] = values
    return of_stations, over_time, of_both


def checked_cycles(
    cycles: str | Iterable[str] | None, known: tuple[str, ...] = tuple(_cycles.PERIODS)
) -> str | tuple[str, ...]:
    """Names of the cycles that a user wants, of those that are ``known``, or "auto"."""
    if cycles is None:
        return ()
    if not isinstance(cycles, (str, tuple, list, set, frozenset)):
        raise InputError(f"cycles is {cycles!r}: pass 'auto', None, or names of {', '.join(map(repr, known))}.")
    if isinstance(cycles, str):
        return "auto" if cycles == "auto" else (checks.choice("cycles", cycles, known),)
    return tuple(checks.choice("cycles", name, known) for name in cycles)


def _prepared(
    y: np.ndarray, grid: TimeGrid, law: Transform, fit_cycles: Callable[[np.ndarray], Cycles]
) -> tuple[np.ndarray, float, Cycles]:
    """Transformed readings on the grid over their standard deviation, without means and cycles; that unit; these."""
    values = law.forward(y).T
    spread = float(np.nanstd(values))
    unit = spread if spread > 0 else max(float(np.nanmax(np.abs(values))), 1.0)
    rows = grid.on_rows(values / unit)
    seasonal = fit_cycles(rows)
    return rows - seasonal.at(grid.seconds), unit, seasonal


def chosen_transform(
    transform: TransformLike, y: np.ndarray, grid: TimeGrid, learner: Learner, wanted: str | tuple[str, ...]
) -> Transform:
    """The transform that a user named, or the one of largest likelihood of the learner's patch after a few steps."""
    if not (isinstance(transform, str) and transform == "auto"):
        return _transforms.named(transform, y)
    laws = {law.name: law for law in _transforms.candidates(y)}
    if len(laws) == 1:
        return laws["none"]
    stations, space = learner.patch(y)
    part, trial = y[stations], _dense.DenseLearner(space)
    scores = {}
    prepared = [
        (law, *_prepared(part, grid, law, lambda rows: trial.cycles(rows, grid, wanted)))
        for law in _transforms.candidates(part)
    ]
    if all(calm_noise(rows) is not None for _, rows, _, _ in prepared):
        return laws["none"]  # rest and jumps by turns, whatever the transform, make them skewed
    for law, rows, unit, _ in prepared:
        slices = windows_of(rows, 1)
        windows = [rows[p] for p in slices]
        start = first_guess(windows, space, space.families[0], None)
        fitted = maximize(Penalized(windows, space, start, fixed_noise=False), TRIAL)
        inside = np.concatenate([np.isin(grid.rows, np.arange(p.start, p.stop)).nonzero()[0] for p in slices])
        values = part[:, inside]
        values = values[np.isfinite(values)]
        slope = float(law.log_slope(values).sum()) - values.size * float(np.log(unit))
        scores[law.name] = fitted.log_likelihood + slope
    return laws.get(max(scores, key=scores.__getitem__), laws["none"])


def remarks(
    y: np.ndarray, unusable: np.ndarray, rows: np.ndarray, learned: Learned, graph: Graph, *, fixed_noise: bool
) -> tuple[str, ...]:
    """Sentences on readings (N, T) of which ``unusable`` were left out; ``rows`` (T, N) is what the model learned from.

    A likelihood without a maximum is also a :class:`~nareg.errors.DegenerateFitWarning` of whoever called ``fit``.
    """
    label = [str(i) for i in range(len(y))] if graph.names is None else list(graph.names)
    severe = _without_maximum(np.where(unusable, np.nan, y), rows, learned, label, fixed_noise=fixed_noise)
    for sentence in severe:
        warnings.warn(DegenerateFitWarning(sentence), stacklevel=4)  # past this function, fit, and its reader of tables
    observed = np.isfinite(y)
    notes = []
    if not severe:
        constant = observed & ~_varies(y)[:, None]
        alone = np.flatnonzero(constant.sum(axis=1) > 1)
        if alone.size:
            which = (
                "is left out" if (unusable | ~constant)[alone].all() else "misleads the fit: remove it, or fit with robust=True"
            )
            notes.append(f"{_listed(alone, label)} reads one value at all times and {which}.")
    single = np.flatnonzero(observed.sum(axis=1) == 1)
    if single.size:
        notes.append(f"{_listed(single, label)} has one reading: its mean and its noise are the network's.")
    if learned.noise_error is not None:
        notes += _noise_note(learned.noise, learned.noise_error, np.isfinite(rows).sum(axis=0))
    return (*severe, *notes)


def _without_maximum(y: np.ndarray, rows: np.ndarray, learned: Learned, label: list[str], *, fixed_noise: bool) -> list[str]:
    if not _varies(y).any():
        return [
            "no station has two different readings, so the likelihood has no maximum: it grows as field and noise vanish. The "
            "estimate is each station's mean; pass readings that vary."
        ]
    sentences = []
    level = max(float(np.nanvar(np.where(learned.excluded, np.nan, rows))), SMALLEST)
    exact = np.flatnonzero((learned.noise <= AT_BOUND * NOISE_RANGE[0] * level) & np.isfinite(y).any(axis=1))
    if exact.size and not fixed_noise:
        sentences.append(
            f"the noise variance of {_listed(exact, label)} runs to zero, so the likelihood has no maximum: the readings look "
            "exact, as interpolated or simulated ones do. Pass noise= if you know it."
        )
    if learned.field <= VANISHED * float(learned.noise.mean()):
        sentences.append(
            "the variance of the field runs to zero, so the likelihood has no maximum: the readings look like noise around the "
            "stations' means. Check the order of stations and times."
        )
    return sentences


def _varies(y: np.ndarray) -> np.ndarray:
    """(N,) whether a station has two different readings."""
    largest = np.where(np.isfinite(y), y, -np.inf).max(axis=1)
    smallest = np.where(np.isfinite(y), y, np.inf).min(axis=1)
    return largest > smallest


def _listed(stations: np.ndarray, label: list[str]) -> str:
    if stations.size == len(label):
        return "each station"
    return f"{'station' if stations.size == 1 else 'each of the stations'} {listed([label[i] for i in stations])}"


def _noise_note(noise: np.ndarray, error: np.ndarray, counts: np.ndarray) -> tuple[str, ...]:
    """A sentence where readings hardly tell the noise variances (N,) from the field's."""
    there = counts > 0
    relative = float(np.median((error / noise)[:, there], axis=1).max())
    if relative <= NOTED:
        return ()
    return (
        f"noise and field can hardly be told apart by these {int(counts.sum()):,} readings: the noise's standard deviation is "
        f"known to a factor of {np.sqrt(1 + relative):.2g}. The estimate's allows for that; pass noise= if you know it.",
    )
