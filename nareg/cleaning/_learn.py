"""The space-time model of a network, its check of the readings, and a second fit without misleading stations."""

from __future__ import annotations

import warnings
from dataclasses import replace

import numpy as np

from nareg import spacetime
from nareg.cleaning._network import StationNetwork
from nareg.cleaning._words import plural
from nareg.errors import DegenerateFitWarning, SolverError, TooLargeError
from nareg.progress import Progress, ProgressCallback
from nareg.quality import Flag, Quality, check
from nareg.spacetime import SpaceTimeModel, SparseSpaceTimeModel
from nareg.spacetime._dense.em import DynamicsName
from nareg.spacetime._readings.transforms import TransformLike

#: A model needs this many readings and times.
FEWEST_READINGS, FEWEST_TIMES = 10, 10
#: Readings that differ by less than this share of their size are constant.
CONSTANT = 1e-12
#: Faults that move a station's level, which the model would take for the station's own.
LASTING = ("unit", "level", "swapped")
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
