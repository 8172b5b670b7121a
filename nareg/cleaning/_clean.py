"""Clean a network: hide readings, fit, check, compare, smooth."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import replace
from time import perf_counter
from typing import Any, TypeAlias

import numpy as np

from nareg._core.interrupts import interrupts_remembered
from nareg.cleaning import _compare, _directions
from nareg.cleaning._cleaned import Cleaned
from nareg.cleaning._kinds import Kind, bounds_of, counter_note, directions, kind_entries, kind_in, refuse_tens, unused_kinds
from nareg.cleaning._learn import CleanSettings, Job, NoiseLike, corrections, learn
from nareg.cleaning._limits import own_estimates, with_own
from nareg.cleaning._methods import EDGES, MODEL, EdgeWeights, SpaceTimeMethod
from nareg.cleaning._network import ReadingsLike, StationNetwork, StationsLike, assemble
from nareg.cleaning._plan import LEFT_OUT, Effort, plan
from nareg.cleaning._steps import FITTED, choose, compare, estimate, frame, rule_notes, screen, sensor_errors, size_of
from nareg.cleaning._words import number
from nareg.io import Recipe
from nareg.progress import Progress, ProgressCallback
from nareg.quality import Flag, Rules
from nareg.spacetime import SPARE, DynamicsName, SpaceTimeModel, SparseSpaceTimeModel, TransformLike, hide, intermittent

#: Columns of the table of stations by name, and tables of series, or their paths.
CovariatesLike: TypeAlias = "str | ReadingsLike | Sequence[str | ReadingsLike]"
#: What is said of an intermittent quantity.
RESTING = (
    "The quantity rests at a bound in much of the record, where it does not scatter, so that noise cannot be told from its own "
    "variation. Readings are kept as they are, and gaps are filled."
)


def clean(
    readings: ReadingsLike, stations: StationsLike = None, *, strict: bool = False,
    noise: NoiseLike = None, transform: TransformLike = "auto", dynamics: DynamicsName = "auto", hidden: float = 0.08,
    unit: str | None = None, bounds: tuple[float | None, float | None] = (None, None), kind: Kind = "auto",
    covariates: CovariatesLike = (), quality: Rules | Mapping[str, Any] | None = None, effort: Effort = "normal",
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
        or of a file of readings. The seven nearest stations are neighbors, unless it is a graph; without places those whose
        readings go up and down together.
    strict : bool
        Raise an error where the format of a table is ambiguous, instead of guessing with a note.
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
    bounds : (float or None, float or None)
        Lower and upper bound of the quantity, in the unit of the readings, such as (0, 100) of humidity. Estimates and bands
        stay inside.
        Default: the smallest and the largest reading, where many readings of several stations are exactly that.
    kind : {"auto", "number", "nonnegative", "bounded", "direction"}, Wind, or mapping from names of quantities to these
        What the quantity is. Bounded is from 0 to 100.
        Directions, in degrees, are cleaned as unit vectors, and errors and bands go around the circle.
        "auto" recognizes them by their name, their unit, or how they cross north, with a note. With
        :class:`nareg.cleaning.Wind` the vectors are as long as the speed.
    covariates : name, table, or sequence of names and tables
        Columns of ``stations``, such as the distance from the coast, that means and daily and yearly cycles may follow. They
        do where that lowers the error at stations left out one at a time. The altitude need not be named. And tables, or
        their paths, with a time and a column per series that all stations share, such as a reanalysis, or with a value per
        station and time; they are followed where that lowers the error in stretches of time left out.
    quality : nareg.quality.Rules or mapping, optional
        Which checks are made, which findings are no faults, and whether sensors that drift, are off or have a wrong unit are
        corrected, such as ``{"dismiss": ["Vernal: drift"], "correct": True}``.
    effort : {"normal", "fast", "thorough"}
        "fast" fits no model and checks no station: the best of three quick methods fills gaps, in about the time of a rolling
        mean. "thorough" compares edge weights wherever they can be designed, and checks the stations of networks above 500 too,
        in neighborhoods of at most 64, each with a model of its own: a quarter of an hour for 2,200 stations and a month of
        hours.
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
    hidden ones too, with the parameters that were learned without them. Edge weights are left out, and it is said why, where
    one weight and kriging are far behind the model, where stations and edges together exceed 1,500, where fewer than 20 times
    have two readings, and where no model is fitted.
    Variation that one station alone shows, at one time, counts as noise, unless ``noise`` is given.
    Where readings clearly follow the moon, the tide is one of the cycles, but not in the model that checks them.

    A reading at a bound of the quantity is its own estimate: there is no noise at a bound. To other estimates it says that the
    field is at least there. Where more than a quarter of the
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
    each = list(covariates) if isinstance(covariates, (list, tuple)) else [covariates]
    named = tuple(one for one in each if isinstance(one, str))
    series = [one for one in each if not isinstance(one, str)]
    network = assemble(
        readings, stations, strict=strict, recipe=Recipe(covariates=named, kind=kind_entries(kind)), series=series
    )
    unit = network.readings.unit if unit is None else unit
    settings = CleanSettings(noise, transform, dynamics, hidden, unit, bounds, kind, rng, quality, effort)
    return run(network, settings, progress)


def run(network: StationNetwork, settings: CleanSettings, progress: ProgressCallback | None = None) -> Cleaned:
    """Clean a network that is in memory."""
    with interrupts_remembered() as check, SPARE.during():

        def report(step: Progress) -> None:
            check()
            if progress is not None:
                progress(step)

        others = unused_kinds(kind_entries(settings.kind), network.quantity)
        kind = kind_in(settings.kind, network.quantity)
        settings = replace(settings, kind=kind, bounds=bounds_of(kind, settings.bounds))
        job = Job.of(network, settings, report)
        job.notes.extend(others)
        refuse_tens(network, kind, settings.unit or network.readings.unit)
        job.note(counter_note(network, kind, settings.unit or network.readings.unit))
        job.note(LEFT_OUT if settings.effort == "fast" else None)
        parts = 2 if directions(network, settings.kind, settings.unit) else 1
        logging.getLogger("nareg").info(plan(job.y.shape[0], job.y.shape[1], settings.effort, parts))
        return _run(job)


def _run(job: Job) -> Cleaned:
    marks, network, settings = [perf_counter()], job.network, job.settings
    if directions(network, settings.kind, settings.unit):
        return _directions.run(job)
    screened = screen(job.y, job.spared) | job.beyond
    chosen = hide(np.where(screened, np.nan, job.y).T, job.share, job.rng).T
    model, quality, without, corrected = learn(job, chosen, FITTED)
    values, off = corrections(corrected, job.y)
    counted = chosen & ~(off > 0)  # a correction knows the reading and the others: to predict what it gives proves nothing
    if corrected:
        job = replace(job, network=replace(network, readings=replace(network.readings, values=values)))
        screened = screen(job.y, job.spared) | job.beyond
    if quality is not None and job.rules.threshold > 0:
        screened &= quality.flags == Flag.BAD
    usable = np.where(screened, np.nan, job.y)
    marks.append(perf_counter())
    compared = compare(job, model, quality, screened | without, counted, np.where(chosen, np.nan, usable))
    predicted = {name: method.predicted for name, method in compared.methods.items()}
    errors = _compare.table(job.y, predicted if compared.hidden.enough else {}, compared.hidden)
    name, why = choose(job.y, predicted, compared.hidden)
    marks.append(perf_counter())
    method = compared.methods[name]
    own = compared.methods.get(MODEL)
    assert own is None or isinstance(own, SpaceTimeMethod)
    shares, excess, check_line = _compare.coverage(job.y, None if own is None else own.prediction, compared.hidden)
    x, std, replaced = estimate(job, compared, method, list(errors.index))
    resting = intermittent(compared.good.T)
    job.note(RESTING if resting else None)
    good, ends = compared.good, compared.ends
    as_read = own_estimates(good, ends)
    final, std = with_own(good, x, std, ends, as_read)  # at rest readings as they are
    std = np.where(as_read, excess * std, std)  # no band was calibrated for the noise of these
    drift, said = sensor_errors(compared.quality, corrected, network.readings.values)
    job.note(said)
    job.notes.extend(rule_notes(job, compared.quality, corrected))
    edges = compared.methods.get(EDGES)
    if model is not None:
        model = replace(model, bounds=compared.ends)
    if corrected and model is not None:  # new readings come after those of the sensor, not after corrected ones
        own_readings = np.where(np.isfinite(model.readings), network.readings.values, np.nan)
        model = replace(model, readings=own_readings)
    result = Cleaned(
        x=frame(network.readings, final), std=frame(network.readings, std := np.hypot(std, drift)),
        flags=frame(network.readings, compared.flags), model=model, quality=compared.quality, errors=errors,
        edges=edges.design if isinstance(edges, EdgeWeights) else None,
        method=name, notes=tuple(job.notes), reading_error=np.nan, clean_error=np.nan, coverage=shares, unit=settings.unit,
        network=network, hidden=compared.hidden.mask, smoothed=method.smoothed if isinstance(method, SpaceTimeMethod) else None,
        drift=drift, bounds=compared.ends, replaced=replaced | (final != compared.ends.clip(x)),
        reasons=tuple(_reasons(network, model, compared.edges, (name, why), check_line, given=job.noise is not None)),
        corrected=corrected, rules=job.rules,
    )  # fmt: skip
    job.tick("done", 1.0)
    suspects = set(result.suspects)
    healthy = np.array([station not in suspects for station in network.readings.names])
    noises = _compare.likely_noise(model) if model is not None and name == MODEL and not resting else None
    reading_error, clean_error = _compare.typical_errors(noises, std, np.isfinite(job.y), compared.bad, healthy)
    marks.append(perf_counter())
    timings = dict(zip(("fit", "compare", "smooth"), np.diff(marks).tolist(), strict=True)) | {"total": marks[-1] - marks[0]}
    return replace(result, reading_error=reading_error, clean_error=clean_error, timings=timings)


def _reasons(
    network: StationNetwork,
    model: SpaceTimeModel | SparseSpaceTimeModel | None,
    edges: str | None,
    chosen: tuple[str, str],
    check_line: str,
    *,
    given: bool,
) -> list[tuple[str, str]]:
    """The choices and their reasons, as (name, text)."""
    lines = [("network", size_of(network.readings)), ("method", "; ".join(chosen))]
    if model is not None:
        lines += [("model", model.details.chosen), ("transform", model.transform.name)]
        lines.append(("cycles removed and put back", ", ".join(model.cycles.names) or "none"))
        lines += [("covariates", line) for line in model.covariate_lines]
        variance = float(np.median(model.noise))
        text = f"standard deviation {number(np.sqrt(variance))}, variance {number(variance)}, median over stations"
        if model.noise_shares is not None:
            text += "; less where a reading is the mean of more"
        lines.append(("noise " + ("given" if given else "estimated"), text))
    if edges is not None:
        lines.append((EDGES, edges))
    if check_line:
        lines.append(("check of the uncertainty", check_line))
    return lines
