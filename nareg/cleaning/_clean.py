"""Clean a network: hide readings, fit, check, compare, smooth."""

from __future__ import annotations

from dataclasses import dataclass, replace
from time import perf_counter
from typing import TYPE_CHECKING

import numpy as np

from nareg.cleaning import _compare
from nareg.cleaning._cleaned import Cleaned
from nareg.cleaning._compare import Hidden, contradicted
from nareg.cleaning._learn import (
    CleanSettings,
    Job,
    NoiseLike,
    drift_errors,
    drift_note,
    in_own_times,
    learn,
    portion,
    without_spikes,
)
from nareg.cleaning._limits import at_end, failed, follow_heights, limits
from nareg.cleaning._methods import EDGES, LINE, MEDIAN, MODEL, WEIGHT, EdgeWeights, Method, SpaceTimeMethod, simple_methods
from nareg.cleaning._network import NEIGHBORS, ReadingsLike, StationNetwork, StationsLike, assemble
from nareg.cleaning._words import number, plural
from nareg.errors import NaregError
from nareg.io import readings_to_frame
from nareg.progress import ProgressCallback
from nareg.quality import Flag, Quality
from nareg.spacetime import (
    Bounds,
    DynamicsName,
    SpaceTimeModel,
    SparseSpaceTimeModel,
    TransformLike,
    absurd,
    hide,
    intermittent,
    stuck,
)

if TYPE_CHECKING:
    import pandas as pd

#: Where the fit and the check of the readings end on the progress bar, simple methods, and edge weights; smoothing is the rest.
FITTED, PREDICTED, COMPARED = 0.7, 0.8, 0.94
#: What is said of an intermittent quantity.
RESTING = (
    "The quantity rests at a bound in much of the record, where it does not scatter, so that noise cannot be told from its own "
    "variation. Readings are kept as they are, and gaps are filled."
)


def clean(
    readings: ReadingsLike, stations: StationsLike = None, *, strict: bool = False, neighbors: int = NEIGHBORS,
    noise: NoiseLike = None, transform: TransformLike = "auto", dynamics: DynamicsName = "auto", hidden: float = 0.08,
    unit: str | None = None, lower: float | None = None, upper: float | None = None,
    rng: np.random.Generator | None = None, progress: ProgressCallback | None = None,
) -> Cleaned:  # fmt: skip
    """Denoise the readings of a sensor network, fill their gaps and flag bad ones. No option is needed.

    Parameters
    ----------
    readings : pandas or polars DataFrame, xarray DataArray, path or nareg.io.Readings
        A row per time and a column per station, or long: time, station, value. Empty cells are gaps. Files are CSV, Parquet,
        netCDF or NPZ.
    stations : pandas, polars or geopandas frame, path, nareg.io.Stations or Graph, optional
        A row per station: station, latitude and longitude, or x and y; or points. Default: the coordinates of an xarray array
        or of a netCDF file of readings.
    strict : bool
        Raise an error where the format of a table is ambiguous, instead of guessing with a note.
    neighbors : int
        Nearest neighbors per station; not used where ``stations`` is a graph.
    noise : number, (N,) array or mapping, optional
        Noise variance(s) in the squared unit of the readings, in the order of the readings' stations or by name.
        Default: estimated.
    transform : "auto", None, "sqrt", "log" or pair of callables
        As in :func:`nareg.spacetime.fit`.
    dynamics : str
        As in :func:`nareg.spacetime.fit`.
    hidden : float
        Share of the readings that is hidden from all methods, to compare them; 0 to 0.5.
    unit : str, optional
        Unit of the readings, for texts and pictures, such as ``"°C"``. Default: what an xarray array states in ``units``.
    lower, upper : float, optional
        Bounds of the quantity, in the unit of the readings, such as 0 and 100 of humidity. Estimates and bands stay inside.
        Default: the smallest and the largest reading, where many readings of several stations are exactly that.
    rng : numpy.random.Generator, optional
        Chooses the hidden readings. Default: ``numpy.random.default_rng(0)``.
    progress : callable, optional
        Called with a :class:`~nareg.progress.Progress` per step: its stage, and the fraction that is done.

    Returns
    -------
    Cleaned
        Frames ``x``, ``std`` and ``flags``; ``errors`` of every method at hidden readings; ``report(path)``.

    Raises
    ------
    InputError
        If a table cannot be read, or an argument has no valid value.

    Notes
    -----
    A share of the readings is hidden: half single readings, half runs as long as the gaps of the table. The space-time model,
    edge weights (:func:`nareg.design.edge`) and simple methods predict it from the rest. If another method than the model is
    better by more than the standard error of the difference, its estimate is returned. Otherwise all readings are smoothed, the
    hidden ones too, with the parameters that were learned without them. Edge weights are left out, with a note, where stations
    and edges together exceed 1,500, where fewer than 20 times have two readings, and where no model is fitted.
    Variation that one station alone shows, at one time, counts as noise, unless ``noise`` is given.

    A reading at a bound of the quantity is its own estimate: there is no noise at a bound. Where more than a quarter of the
    readings are at a bound, as with rain, all good readings are. Flags of single readings are not
    applied, with a note, where a straight line in time predicts the flagged readings twice as well as the model. An estimate
    beyond all readings by more than their spread is a failed prediction: that of the next best method is used there.

    The order of the columns, the zero of the readings and their unit change nothing, up to rounding.

    Examples
    --------
    >>> import numpy as np, pandas as pd, nareg
    >>> network = nareg.datasets.simulated(8, 150, faults=(), rng=np.random.default_rng(0))
    >>> index = pd.DatetimeIndex(network.times, name="time")
    >>> readings = pd.DataFrame(network.readings.T, index=index, columns=network.names)
    >>> places = pd.DataFrame(network.coordinates, index=network.names, columns=["latitude", "longitude"])
    >>> cleaned = nareg.clean(readings, places, unit="°C")
    >>> error = np.sqrt(np.nanmean((cleaned.x.to_numpy().T - network.truth) ** 2))
    >>> bool(error < 0.6 * network.noise)
    True
    """
    network = assemble(readings, stations, strict=strict, neighbors=neighbors)
    unit = network.readings.unit if unit is None else unit
    settings = CleanSettings(noise, transform, dynamics, hidden, unit, lower, upper, rng)
    return run(network, settings, progress)


@dataclass(frozen=True, eq=False)
class _Compared:
    """What every method predicts of the hidden readings, and which readings are bad."""

    methods: dict[str, Method]
    quality: Quality | None
    flags: np.ndarray
    bad: np.ndarray
    hidden: Hidden
    good: np.ndarray  # (N, T) readings without bad ones
    ends: Bounds


def run(network: StationNetwork, settings: CleanSettings, progress: ProgressCallback | None = None) -> Cleaned:
    """Clean a network that is in memory."""
    marks = [perf_counter()]
    job = Job.of(network, settings, progress)
    screened = _screened(job.y)
    usable = np.where(screened, np.nan, job.y)
    chosen = hide(usable.T, job.share, job.rng).T
    model, quality, without = learn(job, chosen, FITTED)
    marks.append(perf_counter())
    compared = _compared(job, model, quality, screened | without, chosen, np.where(chosen, np.nan, usable))
    predicted = {name: method.predicted for name, method in compared.methods.items()}
    errors = _compare.table(job.y, predicted if compared.hidden.enough else {}, compared.hidden)
    name, why = _choose(job.y, predicted, compared.hidden)
    marks.append(perf_counter())
    method = compared.methods[name]
    own = compared.methods.get(MODEL)
    assert own is None or isinstance(own, SpaceTimeMethod)
    shares, stretch, check_line = _compare.coverage(job.y, None if own is None else own.prediction, compared.hidden)
    if own is not None:
        own.stretch = stretch
    x, std, replaced = _estimated(job, compared, method, list(errors.index))
    resting = intermittent(compared.good.T)
    final, std = _possible(job, compared, x, std, resting)
    drift = drift_errors(compared.quality, job.y.shape)
    job.note(drift_note(drift))
    edges = compared.methods.get(EDGES)
    result = Cleaned(
        x=_frame(network, final), std=_frame(network, std := np.hypot(std, drift)), flags=_frame(network, compared.flags),
        model=model, edges=edges.design if isinstance(edges, EdgeWeights) else None, quality=compared.quality, errors=errors,
        method=name, notes=tuple(job.notes), reading_error=np.nan, clean_error=np.nan, coverage=shares, unit=settings.unit,
        network=network, hidden=compared.hidden.mask, smoothed=method.smoothed if isinstance(method, SpaceTimeMethod) else None,
        drift=drift, bounds=compared.ends, replaced=replaced | (final != compared.ends.clip(x)),
        reasons=tuple(_reasons(network, model, edges, (name, why), check_line, given=job.noise is not None)),
    )  # fmt: skip
    job.tick("done", 1.0)
    suspects = set(result.suspects)
    healthy = np.array([station not in suspects for station in network.readings.names])
    noises = _compare.likely_noise(model) if model is not None and name == MODEL and not resting else None
    reading_error, clean_error = _compare.typical_errors(noises, std, np.isfinite(job.y), compared.bad, healthy)
    marks.append(perf_counter())
    timings = dict(zip(("fit", "compare", "smooth"), np.diff(marks).tolist(), strict=True)) | {"total": marks[-1] - marks[0]}
    return replace(result, reading_error=reading_error, clean_error=clean_error, timings=timings)


def _screened(y: np.ndarray) -> np.ndarray:
    """(N, T) True for absurd and stuck readings, unless all are."""
    screened = (absurd(y.T) | stuck(y.T)).T
    if screened[np.isfinite(y)].all():
        screened[:] = False
    return screened


def _compared(
    job: Job, model: SpaceTimeModel | SparseSpaceTimeModel | None, quality: Quality | None, excluded: np.ndarray,
    chosen: np.ndarray, seen: np.ndarray,
) -> _Compared:  # fmt: skip
    """Predict the ``chosen`` readings from those that are ``seen`` by every method; ``excluded`` ones are bad."""
    y, graph = job.y, job.network.graph
    if quality is not None:
        quality = in_own_times(quality, job.network.readings)
    flags = _flags(y, excluded) if quality is None else quality.flags
    bad = excluded | (flags == Flag.BAD)
    hidden = Hidden.of(chosen, np.isfinite(y), bad)
    fitted = [] if model is None else [_fitted(job, SpaceTimeMethod(model, job.times), FITTED, PREDICTED, seen)]
    if chosen.any() or model is None:
        steps = np.linspace(FITTED + 0.02, PREDICTED, 8)
        simple = simple_methods(graph, job.times, job.rng)
        fitted += [_fitted(job, method, step, PREDICTED, seen) for method, step in zip(simple, steps, strict=False)]
    methods = {method.name: method for method in fitted if method is not None}
    if quality is not None and MODEL in methods and LINE in methods:
        model_, line = methods[MODEL].predicted, methods[LINE].predicted
        wrong_flags = contradicted(y, model_, line, hidden.flagged & ~excluded)
        if wrong_flags is not None:
            job.note(wrong_flags)
            quality = without_spikes(quality, excluded)
            flags, bad = quality.flags, excluded
            hidden = Hidden.of(chosen, np.isfinite(y), bad)
    good = np.where(bad, np.nan, y)
    ends, stated = limits(good, job.settings.lower, job.settings.upper)
    job.note(stated)
    if model is not None and hidden.enough and graph.n_nodes > 1:
        edges = _fitted(job, EdgeWeights(model, job.times), PREDICTED, COMPARED, seen)
        methods |= {} if edges is None else {EDGES: edges}
    if not hidden.enough and job.share > 0:
        job.note(f"Too few readings could be hidden to compare methods: {int(hidden.mask.sum())}.")
    for method in methods.values():
        method.predicted = ends.clip(method.predicted)
    return _Compared(methods, quality, flags, bad, hidden, good, ends)


def _estimated(job: Job, compared: _Compared, method: Method, ranking: list[str]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Estimate and standard deviation (N, T) of the method in use, from all good readings; where another one is used.

    That is where the method failed: the next best in the ``ranking`` is used there.
    """
    job.tick("smoothing" if method.name == MODEL else f"estimating: {method.name}", COMPARED)
    if method.name != MODEL and MODEL in compared.methods:
        job.note("The flags come from the space-time model, which is worse here than the method in use: check them.")

    def estimated(method: Method) -> tuple[np.ndarray, np.ndarray]:
        x = method.estimate(compared.good, portion(job.report, COMPARED, 0.99))
        return x, method.band(job.y, compared.hidden)

    x, std = estimated(method)
    replaced = failed(x, std, compared.good)
    other = next((other for other in ranking if other not in (method.name, MODEL)), None)
    if replaced.any() and other is not None:
        theirs = estimated(compared.methods[other])
        x, std = (np.where(replaced, their, mine) for mine, their in zip((x, std), theirs, strict=True))
        count, stations = plural(int(replaced.sum()), "estimate"), plural(int(replaced.any(axis=1).sum()), "station")
        job.note(
            f"{count} of {method.name} at {stations} would be beyond all readings by more than their spread. "
            f"{other.capitalize()} is used there."
        )
    return x, std, replaced


def _possible(job: Job, compared: _Compared, x: np.ndarray, std: np.ndarray, resting: bool) -> tuple[np.ndarray, np.ndarray]:
    """What the quantity can be there: silent stations at their height, all inside the bounds, readings at rest as they are."""
    good, ends = compared.good, compared.ends
    x, std, by_height = follow_heights(job.network.graph, job.network.elevation, good, x, std)
    job.note(by_height)
    job.note(RESTING if resting else None)
    own = np.isfinite(good) if resting else at_end(good, ends)
    return np.where(own, good, ends.clip(x)), std


def _fitted(job: Job, method: Method, begin: float, end: float, seen: np.ndarray) -> Method | None:
    """The method, fitted to readings that are ``seen``; None with a note where it cannot work."""
    stage = "predicting hidden readings" if method.name == MODEL else f"comparing: {method.name}"
    job.tick(stage, begin)
    try:
        method.fit(seen, portion(job.report, begin, end, prefix=f"comparing {method.name}: "))
    except NaregError as error:
        job.note(f"The method {method.name!r} was left out of the comparison: {error}")
        return None
    return method


def _flags(y: np.ndarray, screened: np.ndarray) -> np.ndarray:
    """Flags without a model: absurd and stuck readings are bad, the rest is not evaluated."""
    flags = np.full(y.shape, Flag.UNKNOWN, dtype=np.int8)
    flags[screened] = Flag.BAD
    flags[~np.isfinite(y)] = Flag.MISSING
    return flags


def _choose(y: np.ndarray, predicted: dict[str, np.ndarray], hidden: Hidden) -> tuple[str, str]:
    """Choose the method, with the reason."""
    if not hidden.enough:
        name = next(name for name in (MODEL, WEIGHT, MEDIAN, LINE) if name in predicted)  # without a comparison: in space
        return name, "too few hidden readings to compare methods" if hidden.mask.any() else "no reading was hidden"
    rms = {name: float(np.sqrt(np.mean((x - y)[hidden.mask] ** 2))) for name, x in predicted.items()}
    other = min((name for name in rms if name != MODEL), key=rms.__getitem__)
    if MODEL not in rms:
        return other, f"best of the simple methods at hidden readings, RMSE {number(rms[other])}"
    excess, error = _compare.excess(y, predicted[MODEL], predicted[other], hidden)
    share = rms[MODEL] / rms[other] if rms[other] > 0 else 1.0
    if excess > error:
        return other, (
            f"another method wins: RMSE {number(rms[other], 3)} at hidden readings, against {number(rms[MODEL], 3)} of the "
            "space-time model"
        )
    return MODEL, f"its RMSE at hidden readings is {share:.2f} times that of the best other method, {other}"


def _reasons(
    network: StationNetwork,
    model: SpaceTimeModel | SparseSpaceTimeModel | None,
    edges: Method | None,
    chosen: tuple[str, str],
    check_line: str,
    *,
    given: bool,
) -> list[tuple[str, str]]:
    """The choices and their reasons, as (name, text)."""
    values = network.readings.values
    gaps = 1 - np.isfinite(values).mean()
    lines = [
        ("network", f"{plural(values.shape[0], 'station')}, {plural(values.shape[1], 'time')}, {100 * gaps:.1f} % missing"),
        ("method", "; ".join(chosen)),
    ]
    if model is not None:
        cycles = ", ".join(model.cycles.names)
        lines.append(("model", model.details.chosen))
        lines.append(("transform", "none" if model.transform.name == "none" else model.transform.name))
        lines.append(("cycles removed and put back", cycles or "none"))
        variance = float(np.median(model.noise))
        text = f"standard deviation {number(np.sqrt(variance))}, variance {number(variance)}"
        lines.append(("noise " + ("given" if given else "estimated"), text + ", median over stations"))
    if edges is not None:
        lines.append((EDGES, str(edges)))
    if check_line:
        lines.append(("check of the uncertainty", check_line))
    return lines


def _frame(network: StationNetwork, values: np.ndarray) -> pd.DataFrame:
    frame = readings_to_frame(replace(network.readings, values=values))
    return frame.astype("int8") if values.dtype == np.int8 else frame
