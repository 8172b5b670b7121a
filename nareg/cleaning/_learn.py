"""The space-time model of a network, its check of the readings, and what suspect stations mean for both."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple, TypeAlias, cast

import numpy as np
from numpy.typing import ArrayLike

from nareg import spacetime
from nareg._core import checks
from nareg.cleaning._kinds import Kind, looked_for
from nareg.cleaning._limits import limits
from nareg.cleaning._network import StationNetwork, chosen
from nareg.cleaning._parts import in_network, merged, neighborhoods, unevaluated
from nareg.cleaning._plan import EFFORTS, Effort
from nareg.cleaning._words import plural, same_unit
from nareg.errors import DegenerateFitWarning, InputError, SolverError, TooLargeError
from nareg.io import Readings, stations_named
from nareg.progress import Progress, ProgressCallback
from nareg.quality import (
    Flag,
    Quality,
    Rules,
    Suspect,
    beside,
    beyond,
    check,
    comparable,
    dismissals,
    muted,
    of_quantity,
    references,
)
from nareg.spacetime import TIDE, DynamicsName, SpaceTimeModel, SparseSpaceTimeModel, TransformLike, tidal

#: Variances in the order of the stations, or by name; None estimates them.
NoiseLike: TypeAlias = ArrayLike | Mapping[str, float] | None
#: A model needs this many readings and times.
FEWEST_READINGS, FEWEST_TIMES = 10, 10
#: Readings that differ by less than this share of their size are constant.
CONSTANT = 1e-12
#: Faults that move a station's level, which the model would take for the station's own.
LASTING = ("unit", "level", "swapped")
#: Share of the time that one fit takes, of all that is done here.
ONE_FIT = 0.94


#: Sizes of readings whose squares and cubes are no trouble.
SMALLEST, LARGEST_SIZE = 1e-90, 1e90


@dataclass(frozen=True)
class CleanSettings:
    """Settings of :func:`clean`."""

    noise: NoiseLike = None
    transform: TransformLike = "auto"
    dynamics: DynamicsName = "auto"
    hidden: float = 0.08
    unit: str | None = None
    bounds: tuple[float | None, float | None] = (None, None)
    kind: Kind = "auto"
    rng: np.random.Generator | None = None
    quality: Rules | Mapping[str, Any] | None = None
    effort: Effort = "normal"


@dataclass(frozen=True, eq=False)
class Job:
    """A table to clean, with checked settings, and where its notes and its progress go."""

    network: StationNetwork
    settings: CleanSettings
    share: float  # of the readings that is hidden
    rng: np.random.Generator
    noise: np.ndarray | None  # (N,) known variances
    rules: Rules
    report: ProgressCallback
    notes: list[str]

    @classmethod
    def of(cls, network: StationNetwork, settings: CleanSettings, progress: ProgressCallback | None) -> Job:
        share = checks.number("hidden", settings.hidden, low=0, high=0.5)
        rng = checks.generator(settings.rng)
        checks.choice("effort", settings.effort, EFFORTS)
        if settings.unit is not None and not isinstance(settings.unit, str):
            raise InputError(f"unit is {settings.unit!r}: pass a text such as '°C'.")
        noise = variances(settings.noise, network)
        _check_size(network.readings.values)
        notes, stated = list(network.notes), network.readings.unit
        if settings.unit is not None and stated is not None and not same_unit(settings.unit, stated):
            notes.append(
                f"The table has its readings in {stated}, but unit is {settings.unit}: nothing is converted. Omit unit, or "
                "convert the readings."
            )
        names, quantity = network.readings.names, network.quantity
        rules = looked_for(Rules.of(settings.quality), stated if settings.unit is None else settings.unit)
        rules, others = of_quantity(rules, quantity, names)
        dismissals(rules, names, stamps(network.readings))  # raises for unknown stations, as does the next
        known = references(rules, names)
        if known and network.graph.coordinates is None:
            raise InputError(
                f"quality.reference is {', '.join(rules.reference)}, but stations have no places: pass their coordinates, "
                "which say what stands beside it."
            )
        pairs = beside(network.graph, known, network.readings.values)
        if known and not pairs:
            notes.append(f"No station is within 100 m of {' or '.join(rules.reference)}: nothing is compared with a reference.")
        for j in known:
            few = [names[i] for i, k in pairs if k == j and not comparable(network.readings.values, i, j)]
            if few:
                notes.append(f"{names[j]} has too few times in common with {stations_named(few)} beside it to be compared.")
        what = f"neither a station's nor the quantity's, {' or '.join(map(repr, quantity))}" if quantity else "no station's"
        notes += [f"quality.ranges has {text!r}, whose name is {what}: it is not used." for text in others]
        outside = int(beyond(rules, names, network.readings.values).sum())
        if 0 < outside == np.isfinite(network.readings.values).sum():
            raise InputError(f"quality.ranges has {' and '.join(rules.ranges)}, but no reading is inside: use their unit.")
        return cls(network, settings, share, rng, noise, rules, progress or (lambda _: None), notes)

    @property
    def quantity(self) -> tuple[str, ...]:
        """Unit and names of what is read, those that are known."""
        return tuple(word for word in (self.settings.unit or self.network.readings.unit, *self.network.quantity) if word)

    @property
    def y(self) -> np.ndarray:
        """(N, T) readings, NaN where missing."""
        return self.network.readings.values

    @property
    def times(self) -> np.ndarray | None:
        return self.network.readings.timestamps

    def spared(self, kind: str) -> np.ndarray:
        """(N, T) True where the rules want no flag for a kind of finding."""
        return muted(self.rules, self.network.readings.names, stamps(self.network.readings), kind)

    @cached_property
    def beyond(self) -> np.ndarray:
        """(N, T) True for readings beyond the ranges of the rules."""
        return beyond(self.rules, self.network.readings.names, self.y) & np.logical_not(self.spared("range"))

    def part(self, stations: np.ndarray, report: ProgressCallback) -> Job:
        """The same for some of the stations, in a network of usual size."""
        network, readings = self.network, self.network.readings
        known = {name: values if len(values) == 1 else values[stations] for name, values in network.covariates.items()}
        inside = set(stations.tolist())
        entries = dismissals(self.rules, readings.names, stamps(readings))
        return replace(
            self,
            network=replace(
                network,
                graph=network.graph.subgraph(stations),
                readings=chosen(readings, stations),
                covariates=known,
            ),
            settings=replace(self.settings, effort="normal", dynamics="scalar"),
            noise=None if self.noise is None else self.noise[stations],
            rules=replace(
                of_quantity(self.rules, (), [readings.names[i] for i in stations])[0],
                dismiss=tuple(entry.text for entry in entries if entry.station in inside),
                reference=tuple(readings.names[i] for i in references(self.rules, readings.names) if i in inside),
            ),
            report=report,
            notes=[],
        )

    def tick(self, stage: str, fraction: float) -> None:
        self.report(Progress(stage, fraction=fraction))

    def note(self, sentence: str | None) -> None:
        if sentence is not None:
            self.notes.append(sentence)


def stamps(readings: Readings) -> np.ndarray:
    """(T,) times of the readings, as a model has them."""
    return np.arange(len(readings.times)) if readings.timestamps is None else readings.timestamps


def _check_size(y: np.ndarray) -> None:
    largest = float(np.nanmax(np.abs(y)))
    if largest > LARGEST_SIZE or 0 < largest < SMALLEST:
        raise InputError(f"readings has a value of size {largest:.3g}, whose powers overflow float64: use another unit.")


def variances(noise: NoiseLike, network: StationNetwork) -> np.ndarray | None:
    """Noise variances (N,) in the order of the readings' stations."""
    if noise is None or (isinstance(noise, str) and noise == "estimate"):
        return None
    names = network.readings.names
    if hasattr(noise, "keys"):  # a mapping, or a pandas Series
        by_name = cast("Mapping[str, float]", noise)
        absent = [name for name in names if name not in by_name]
        if absent:
            raise InputError(f"noise has no entry for station {absent[0]!r}: give every station a variance.")
        noise = [by_name[name] for name in names]
    if isinstance(noise, str):
        raise InputError(f"noise is {noise!r}: pass a variance, one per station, or None to estimate it.")
    return checks.nonnegative_vector("noise", noise, len(names), why="a variance is at least 0; square standard deviations")


class LearnedNetwork(NamedTuple):
    """What is learned of a network.

    Attributes
    ----------
    model, quality
        None, with a note that gives the reason, where no model, or no check of the stations, is possible.
    without : (N, T) bool array
        Readings that the last fit left out, beyond what the check flags.
    corrected : tuple of Suspect
        Those whose corrected readings the last fit had.
    """

    model: SpaceTimeModel | SparseSpaceTimeModel | None
    quality: Quality | None
    without: np.ndarray
    corrected: tuple[Suspect, ...] = ()


def learn(job: Job, hidden: np.ndarray, until: float) -> LearnedNetwork:
    """Learn what a network is, and check it. Where its readings are a tide, the model of the estimate has it as a cycle.

    One autoregression is not the tide and what else a gauge reads at once. But a gauge's faults show in the tide, so that the
    check has it in the field.
    """
    learned = _learn(job, hidden, until)
    model = learned.model
    if not isinstance(model, SpaceTimeModel):
        return learned
    if not tidal(model.grid.on_rows(np.where(model.excluded, np.nan, model.readings).T), model.grid):
        return learned
    usable = np.where(learned.without | hidden | job.beyond, np.nan, corrections(learned.corrected, job.y)[0])
    again = _fit(job, usable, portion(job.report, until, until, prefix="tide: "), (*model.cycles.names, TIDE))
    if not isinstance(again, SpaceTimeModel):
        return learned
    stale = {*_sentences(model)} - {*_sentences(again)}  # of a model that is not in use
    job.notes[:] = [note for note in job.notes if note not in stale]
    return learned._replace(model=again)


def _learn(job: Job, hidden: np.ndarray, until: float) -> LearnedNetwork:
    """Fit to the readings that are not hidden, check all of them, and fit again where a station reads in another unit."""
    y, times, progress = job.y, job.times, job.report
    hidden = hidden | job.beyond
    seen = np.where(hidden, np.nan, y)
    without = np.zeros(y.shape, dtype=bool)
    if job.settings.effort == "fast":
        return LearnedNetwork(None, None, without)
    model = _fit(job, seen, portion(progress, 0.0, ONE_FIT * until))
    if model is None:
        return LearnedNetwork(None, None, without)
    if isinstance(model, SparseSpaceTimeModel):
        return _learn_large(job, model, hidden, until)
    progress(Progress("checking readings", fraction=ONE_FIT * until))
    quality = check(model, y, times=times, rules=job.rules, quantity=job.quantity)
    corrected = _correctable(job, quality)
    y, _ = corrections(corrected, y)
    right = {suspect.station for suspect in corrected}
    lasting = [suspect for suspect in quality.suspects if suspect.kind in LASTING and suspect.station not in right]
    # of a level that may be right, and is no more than suspect, nothing is left out
    wrong = [s for s in lasting if (quality.flags[s.station, s.columns] == Flag.BAD).mean() > 0.5]
    misled = sorted({suspect.station for suspect in wrong})
    without[misled] = quality.flags[misled] == Flag.BAD
    if not without.any() and not corrected:
        return LearnedNetwork(model, quality, without)
    _say_left_out(job, without)
    usable = np.where(without, np.nan, y)
    again = _fit(job, np.where(hidden, np.nan, usable), portion(progress, ONE_FIT * until, until, prefix="once more: "))
    if not isinstance(again, SpaceTimeModel):
        return LearnedNetwork(model, quality, without)
    # a model that was misled accuses others as well
    second = check(again, usable, times=times, rules=job.rules, quantity=job.quantity)
    return LearnedNetwork(again, _rechecked(quality, second, misled, corrected), without, corrected)


def _learn_large(job: Job, model: SparseSpaceTimeModel, hidden: np.ndarray, until: float) -> LearnedNetwork:
    """Of a network that is too large for one check: its stations are checked in neighborhoods, where that is wanted."""
    if job.settings.effort != "thorough":
        job.note(
            "In a network of this size only readings that all others contradict are flagged. Stations with many of them, or "
            "with much noise, are suspect. Effort thorough looks for drifts, wrong units and levels as well."
        )
        spared = np.where(spacetime.stuck(job.y.T).T, job.spared("stuck"), job.spared("spikes"))
        return LearnedNetwork(model, None, model.excluded & ~spared)
    known = references(job.rules, job.network.readings.names)
    parts = neighborhoods(job.network.graph, beside(job.network.graph, known, job.y))
    steps = np.linspace(0.5, 1.0, len(parts) + 1) * ONE_FIT * until
    learned = [
        _learn(job.part(part, portion(job.report, begin, end, prefix=f"part {k} of {len(parts)}: ")), hidden[part], 1.0)
        for k, (part, begin, end) in enumerate(zip(parts, steps, steps[1:], strict=False), 1)
    ]
    unchecked = sum(part.size for part, one in zip(parts, learned, strict=True) if one.quality is None)
    job.note(f"{plural(unchecked, 'station')} in parts with too few readings are not checked." if unchecked else None)
    times = stamps(job.network.readings)
    quality = merged(parts, [one.quality or unevaluated(job.y[part], times) for part, one in zip(parts, learned, strict=True)])
    corrected = tuple(s for part, one in zip(parts, learned, strict=True) for s in in_network(one.corrected, part))
    without = np.zeros(job.y.shape, dtype=bool)
    for part, one in zip(parts, learned, strict=True):
        without[part] = one.without
    if without.any() or corrected:
        _say_left_out(job, without)
        usable = np.where(without | hidden, np.nan, corrections(corrected, job.y)[0])
        again = _fit(job, usable, portion(job.report, ONE_FIT * until, until, prefix="once more: "))
        model = again if isinstance(again, SparseSpaceTimeModel) else model
    return LearnedNetwork(model, quality, without, corrected)


def _say_left_out(job: Job, without: np.ndarray) -> None:
    names = [job.network.readings.names[i] for i in np.flatnonzero(without.any(axis=1))]
    if names:
        job.note(
            f"The model was fitted again without {plural(int(without.sum()), 'reading')} of {stations_named(names)}, which "
            "look like another unit or place: correct them and clean again."
        )


def _correctable(job: Job, quality: Quality) -> tuple[Suspect, ...]:
    """Suspects whose readings are to be corrected: none where they are not a minority, which the others could put right.

    A reference says by itself what is right. No correction leads beyond the bounds of the quantity.
    """
    ends, _ = limits(job.y, job.settings.bounds)
    result = tuple(
        replace(suspect, corrected=ends.clip(suspect.corrected))
        for suspect in quality.suspects if job.rules.correct and suspect.corrected is not None
    )  # fmt: skip
    beside = tuple(suspect for suspect in result if suspect.kind == "gain")
    stations = len({suspect.station for suspect in result} - {suspect.station for suspect in beside})
    live = int(np.isfinite(job.y).any(axis=1).sum())
    if 2 * stations <= live:
        return result
    job.note(f"Nothing is corrected: {stations} of {live} stations would be, and the others are too few to say what is right.")
    return beside


def corrections(suspects: Iterable[Suspect], y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(N, T) readings with those of some suspects corrected, and the standard deviation of the correction, else NaN."""
    values, std = y.copy(), np.full(y.shape, np.nan)
    for suspect in suspects:
        if suspect.corrected is not None:
            values[suspect.station, suspect.columns] = suspect.corrected
            std[suspect.station, suspect.columns] = suspect.corrected_std
    return values, std


def _rechecked(first: Quality, second: Quality, misled: list[int], corrected: tuple[Suspect, ...]) -> Quality:
    """The second check, and of the stations that misled the first model, or are corrected, what the first one says."""
    parts = {name: getattr(second, name).copy() for name in ("flags", "scores", "badness")}
    for name, values in parts.items():
        values[misled] = getattr(first, name)[misled]
    for suspect in corrected:
        at = (suspect.station, suspect.columns)
        parts["flags"][at] = np.maximum(parts["flags"][at], Flag.SUSPECT)
    suspects = [s for s in first.suspects if s.station in misled]
    suspects += [replace(s, evidence=f"{s.evidence} Corrected.") for s in corrected]
    suspects += [s for s in second.suspects if s.station not in misled]
    dismissed = {(s.station, s.kind, s.start): s for s in (*first.dismissed, *second.dismissed)}
    timings = {"total": first.timings["total"] + second.timings["total"]}
    return replace(
        first, **parts, suspects=tuple(sorted(suspects, key=lambda s: -s.score)), dismissed=tuple(dismissed.values()),
        timings=timings,
    )  # fmt: skip


def portion(progress: ProgressCallback, begin: float, end: float, prefix: str = "") -> ProgressCallback:
    """Progress of one part of the whole call, from the fraction ``begin`` to ``end``."""
    return lambda part: progress(
        replace(part, stage=prefix + part.stage, fraction=begin + (end - begin) * (part.fraction or 0.0))
    )


def _fit(
    job: Job, y: np.ndarray, progress: ProgressCallback, cycles: str | tuple[str, ...] = "auto"
) -> SpaceTimeModel | SparseSpaceTimeModel | None:
    """The space-time model, or None with a note that says why there is none."""
    notes = job.notes
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
                job.network.graph, y, times=job.times, noise="estimate" if job.noise is None else job.noise,
                dynamics=job.settings.dynamics, transform=job.settings.transform, covariates=job.network.covariates,
                cycles=cycles, rng=job.rng, progress=progress,
            )  # fmt: skip
            averaged = job.network.readings.averaged
            if averaged is not None and job.noise is None and isinstance(model, SpaceTimeModel):
                model = model.with_averages(averaged)
    except (SolverError, TooLargeError, np.linalg.LinAlgError) as error:
        notes.append(f"The space-time model could not be fitted, so the best of the simple methods is used: {error}")
        return None
    notes += [sentence for sentence in _sentences(model) if sentence not in notes]
    return model


def _sentences(model: SpaceTimeModel | SparseSpaceTimeModel) -> list[str]:
    return [f"{note[0].upper()}{note[1:]}" for note in model.details.notes]
