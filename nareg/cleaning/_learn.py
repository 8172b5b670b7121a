"""The space-time model of a network, its check of the readings, and what suspect stations mean for both."""

from __future__ import annotations

import re
import warnings
from dataclasses import replace

import numpy as np

from nareg import spacetime
from nareg.cleaning._network import StationNetwork
from nareg.cleaning._words import plural
from nareg.errors import DegenerateFitWarning, SolverError, TooLargeError
from nareg.io import Readings
from nareg.progress import Progress, ProgressCallback
from nareg.quality import Flag, Quality, check, time
from nareg.spacetime import SpaceTimeModel, SparseSpaceTimeModel
from nareg.spacetime._dense.em import DynamicsName
from nareg.spacetime._readings.transforms import TransformLike

#: A model needs this many readings and times.
FEWEST_READINGS, FEWEST_TIMES = 10, 10
#: Readings that differ by less than this share of their size are constant.
CONSTANT = 1e-12
#: Faults that move a station's level, which the model would take for the station's own.
LASTING = ("unit", "level", "swapped")
#: A date, with or without a time of day, as evidence has it.
DATE = re.compile(r"\d{4}-\d\d-\d\d(?: \d\d:\d\d)?")
#: Kinds of suspects whose readings the estimate follows.
FOLLOWED = ("drift", "clock")
#: Share of the time that one fit takes, of all that is done here.
ONE_FIT = 0.94


def learn(
    network: StationNetwork, hidden: np.ndarray, noise: np.ndarray | None, rng: np.random.Generator, notes: list[str],
    progress: ProgressCallback, *, dynamics: DynamicsName, transform: TransformLike, until: float,
) -> tuple[SpaceTimeModel | SparseSpaceTimeModel | None, Quality | None, np.ndarray]:  # fmt: skip
    """Fit to the readings that are not hidden, check all of them, and fit again where a station reads in another unit.

    Returns
    -------
    model, quality
        None, with a note that gives the reason, where no model, or no check of the stations, is possible.
    without : (N, T) bool array
        Readings that the last fit left out, beyond what the check flags.
    """
    y, times = network.readings.values, network.readings.timestamps
    seen = np.where(hidden, np.nan, y)
    without = np.zeros(y.shape, dtype=bool)

    def fitted(values: np.ndarray, progress: ProgressCallback) -> SpaceTimeModel | SparseSpaceTimeModel | None:
        return _fit(network, values, noise, rng, notes, progress, dynamics=dynamics, transform=transform)

    model = fitted(seen, portion(progress, 0.0, ONE_FIT * until))
    if model is None:
        return None, None, without
    if isinstance(model, SparseSpaceTimeModel):
        notes.append(
            "In a network of this size only readings that all others contradict are flagged. Stations with many of them, or "
            "with much noise, are suspect. Drifts and wrong units are looked for among at most 500 stations."
        )
        return model, None, model.excluded
    progress(Progress("checking readings", fraction=ONE_FIT * until))
    quality = check(model, y, times=times)
    misled = sorted({suspect.station for suspect in quality.suspects if suspect.kind in LASTING})
    without[misled] = quality.flags[misled] == Flag.BAD
    if not without.any():
        return model, quality, without
    names = [network.readings.names[i] for i in misled]
    notes.append(
        f"The model was fitted again without {plural(int(without.sum()), 'reading')} of {_stations(names)}, which look like "
        "another unit or place: correct them and clean again."
    )
    again = fitted(np.where(without, np.nan, seen), portion(progress, ONE_FIT * until, until, prefix="once more: "))
    if not isinstance(again, SpaceTimeModel):
        return model, quality, without
    # a model that was misled accuses others as well
    return again, _rechecked(quality, check(again, np.where(without, np.nan, y), times=times), misled), without


def _rechecked(first: Quality, second: Quality, misled: list[int]) -> Quality:
    """The second check, and of the stations that misled the first model what the first one says."""
    parts = {name: getattr(second, name).copy() for name in ("flags", "scores", "badness")}
    for name, values in parts.items():
        values[misled] = getattr(first, name)[misled]
    suspects = [s for s in first.suspects if s.station in misled] + [s for s in second.suspects if s.station not in misled]
    timings = {"total": first.timings["total"] + second.timings["total"]}
    return replace(first, **parts, suspects=tuple(sorted(suspects, key=lambda s: -s.score)), timings=timings)


def portion(progress: ProgressCallback, begin: float, end: float, prefix: str = "") -> ProgressCallback:
    """Progress of one part of the whole call, from the fraction ``begin`` to ``end``."""
    return lambda part: progress(
        replace(part, stage=prefix + part.stage, fraction=begin + (end - begin) * (part.fraction or 0.0))
    )


def _stations(names: list[str]) -> str:
    some = ", ".join(map(repr, names[:3]))
    n_others = len(names) - 3
    return ("station " if len(names) == 1 else "stations ") + some + (f" and {n_others} more" if n_others > 0 else "")


def _fit(
    network: StationNetwork, y: np.ndarray, noise: np.ndarray | None, rng: np.random.Generator, notes: list[str],
    progress: ProgressCallback, *, dynamics: DynamicsName, transform: TransformLike,
) -> SpaceTimeModel | SparseSpaceTimeModel | None:  # fmt: skip
    """The space-time model, or None with a note that says why there is none."""
    n_times = y.shape[1]
    seen = y[np.isfinite(y)]
    if seen.size and np.ptp(seen) <= CONSTANT * np.abs(seen).max():
        notes.append(f"All readings are (nearly) {seen[0]:g}: the space-time model has nothing to learn from them.")
        return None
    if n_times < FEWEST_TIMES or seen.size < FEWEST_READINGS:
        notes.append(
            f"{plural(n_times, 'time')} with {plural(seen.size, 'reading')} are too few for the space-time "
            "model: the best of the simple methods is used."
        )
        return None
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DegenerateFitWarning)  # it is one of the model's notes
            model = spacetime.fit(
                network.graph, y, times=network.readings.timestamps, noise="estimate" if noise is None else noise,
                dynamics=dynamics, transform=transform, rng=rng, progress=progress,
            )  # fmt: skip
    except (SolverError, TooLargeError, np.linalg.LinAlgError) as error:
        notes.append(f"The space-time model could not be fitted, so the best of the simple methods is used: {error}")
        return None
    sentences = [f"{note[0].upper()}{note[1:]}" for note in model.details.notes]
    notes += [sentence for sentence in sentences if sentence not in notes]
    return model


def in_own_times(quality: Quality, readings: Readings) -> Quality:
    """The quality with evidence in the table's own times, where these have a zone: all is computed in UTC."""
    if readings.zone is None or readings.timestamps is None:
        return quality
    labels = dict(zip(map(time, readings.timestamps), readings.times, strict=True))

    def own(evidence: str) -> str:
        return DATE.sub(lambda date: labels.get(date[0], date[0]), evidence)

    return replace(quality, suspects=tuple(replace(s, evidence=own(s.evidence)) for s in quality.suspects))


def without_spikes(quality: Quality, bad: np.ndarray) -> Quality:
    """The quality without the flags of single readings, (N, T) other ones ``bad``, and without suspects for these."""
    flags = quality.flags.copy()
    flags[~bad & (flags == Flag.BAD)] = Flag.GOOD
    return replace(quality, flags=flags, suspects=tuple(s for s in quality.suspects if s.kind != "spikes"))


def drift_errors(quality: Quality | None, shape: tuple[int, int]) -> np.ndarray:
    """(N, T) how far a station that drifts, or has a wrong clock, is off during that time, 0 elsewhere.

    The estimate there follows its readings. Whether they or the other stations are right, readings cannot tell.
    """
    result = np.zeros(shape)
    if quality is None:
        return result
    for s in quality.suspects:
        if np.isfinite(s.size) and s.kind in FOLLOWED:
            during = (quality.times >= s.start) & (quality.times <= s.stop)
            result[s.station, during] = np.maximum(result[s.station, during], s.size)
    return result


def drift_note(errors: np.ndarray) -> str | None:
    """What they do to the estimate, in a sentence."""
    stations = int(errors.any(axis=1).sum())
    if not stations:
        return None
    what = "drifts or has a wrong clock" if stations == 1 else "drift or have a wrong clock"
    return (
        f"{plural(stations, 'station')} {what}: the estimate there follows the readings, and its band is as wide as they are "
        "off. To have it from the other stations instead, remove these readings and clean again."
    )
