"""Steps that cleaning takes for any kind of quantity: screen, predict hidden readings by every method, choose, estimate."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from nareg.cleaning import _compare
from nareg.cleaning._compare import Hidden, contradicted
from nareg.cleaning._learn import Job, corrections, portion, stamps
from nareg.cleaning._limits import failed, limits
from nareg.cleaning._methods import (
    EDGES,
    KRIGING,
    LINE,
    MEDIAN,
    MODEL,
    WEIGHT,
    EdgeWeights,
    Method,
    SpaceTimeMethod,
    simple_methods,
)
from nareg.cleaning._words import number, plural, readable
from nareg.errors import NaregError
from nareg.io import Readings, listed, readings_to_frame
from nareg.quality import FEWEST, Flag, Quality, Rules, Suspect, dismissals, far_out, time
from nareg.spacetime import Bounds, SpaceTimeModel, SparseSpaceTimeModel, intermittent, stuck

if TYPE_CHECKING:
    import pandas as pd

#: Where the fit and the check of the readings end on the progress bar, simple methods, and edge weights; smoothing is the rest.
FITTED, PREDICTED, COMPARED = 0.7, 0.8, 0.94
#: A date, with or without a time of day, as evidence has it.
DATE = re.compile(r"\d{4}-\d\d-\d\d(?: \d\d:\d\d)?")
#: Kinds of suspects whose readings the estimate follows.
FOLLOWED = ("drift", "clock")


@dataclass(frozen=True, eq=False)
class Compared:
    """What every method predicts of the hidden readings, and which readings are bad."""

    methods: dict[str, Method]
    quality: Quality | None
    flags: np.ndarray
    bad: np.ndarray
    hidden: Hidden
    good: np.ndarray  # (N, T) readings without bad ones
    ends: Bounds
    edges: str | None = None  # what is said of edge weights


def screen(y: np.ndarray, spared: Callable[[str], np.ndarray | bool] = lambda _: False) -> np.ndarray:
    """(N, T) True for absurd and stuck readings, unless all are; but those that are ``spared`` from a kind of finding."""
    still = stuck(y.T)
    absurd = far_out(y.T, still).T & np.logical_not(spared("spikes"))
    screened = absurd | (still.T & np.logical_not(spared("stuck")))
    if screened[np.isfinite(y)].all():
        screened[:] = False
    return screened


def compare(
    job: Job, model: SpaceTimeModel | SparseSpaceTimeModel | None, quality: Quality | None, excluded: np.ndarray,
    chosen: np.ndarray, seen: np.ndarray,
) -> Compared:  # fmt: skip
    """Predict the ``chosen`` readings from those that are ``seen`` by every method; ``excluded`` ones are bad."""
    y, graph = job.y, job.network.graph
    if quality is not None:
        quality = in_own_times(quality, job.network.readings)
    flags = _flags(y, excluded) if quality is None else quality.flags
    bad = excluded | (flags == Flag.BAD)
    hidden = Hidden.of(chosen, y, bad)
    if model is not None:
        model = replace(model, bounds=limits(np.where(bad, np.nan, y), job.settings.bounds)[0])
    own = None if model is None else SpaceTimeMethod(model, job.times, checked=decides(quality, job.rules))
    fitted = [] if own is None else [_fitted(job, own, FITTED, PREDICTED, seen)]
    if chosen.any() or model is None:
        steps = np.linspace(FITTED + 0.02, PREDICTED, 8)
        simple = simple_methods(graph, job.times, job.rng, job.settings.effort)
        fitted += [_fitted(job, method, step, PREDICTED, seen) for method, step in zip(simple, steps, strict=False)]
    methods = {method.name: method for method in fitted if method is not None}
    if quality is not None and MODEL in methods and LINE in methods:
        model_, line = methods[MODEL].predicted, methods[LINE].predicted
        wrong_flags = contradicted(y, model_, line, hidden.flagged & ~excluded)
        if wrong_flags is not None:
            job.note(wrong_flags)
            quality = without_spikes(quality, excluded)
            flags, bad = quality.flags, excluded
            hidden = Hidden.of(chosen, y, bad)
    good = np.where(bad, np.nan, y)
    ends, stated = limits(good, job.settings.bounds)
    job.note(stated)
    said = None
    if model is not None and hidden.enough and graph.n_nodes > 1:
        rivals = [methods[name] for name in (WEIGHT, KRIGING) if name in methods]
        mine = methods[MODEL].predicted
        behind = [_compare.far_behind(y, rival.predicted, mine, hidden, model.noise) for rival in rivals]
        if job.settings.effort != "thorough" and behind and all(behind):
            names = " and ".join(rival.name for rival in rivals)
            said = f"left out: other filters of single times ({names}) are far behind the {MODEL}"
        elif (edges := _fitted(job, EdgeWeights(model, job.times), PREDICTED, COMPARED, seen)) is not None:
            methods[EDGES], said = edges, str(edges)
    if not hidden.enough and job.share > 0:
        job.note(f"Too few readings could be hidden to compare methods: {int(hidden.mask.sum())}.")
    for method in methods.values():
        method.predicted = ends.clip(method.predicted)
    return Compared(methods, quality, flags, bad, hidden, good, ends, said)


def decides(quality: Quality | None, rules: Rules) -> bool:
    """Whether a check judges every single reading: at stations of few, or where spikes are not looked for, none does."""
    if quality is None or "spikes" not in rules.checks:
        return False
    counts = (quality.flags != Flag.MISSING).sum(axis=1)
    return not ((counts > 0) & (counts < FEWEST)).any()


def estimate(job: Job, compared: Compared, method: Method, ranking: list[str]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
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
    own = compared.methods.get(MODEL)
    follows = own.model.cycles.follows if isinstance(own, SpaceTimeMethod) else ()
    # at a station that never reads only the model knows what the covariates say, and a summit is colder than all that read
    silent = ~np.isfinite(compared.good).any(axis=1, keepdims=True) & bool(follows)
    if own is not None and own is not method and silent.any():
        x, std = (np.where(silent, models, mine) for mine, models in zip((x, std), estimated(own), strict=True))
        job.note(
            f"{plural(int(silent.sum()), 'station')} without a reading: by the {MODEL}, which follows {', '.join(follows)}."
        )
    replaced = failed(x, std, compared.good, compared.ends) & ~silent
    other = next((other for other in ranking if other not in (method.name, MODEL)), None)
    if replaced.any() and other is not None:
        theirs = estimated(compared.methods[other])
        x, std = (np.where(replaced, their, mine) for mine, their in zip((x, std), theirs, strict=True))
        count, stations = plural(int(replaced.sum()), "estimate"), plural(int(replaced.any(axis=1).sum()), "station")
        job.note(
            f"{count} of {method.name} at {stations} would be beyond all readings by more than their spread. "
            f"That of the method {other!r} is used there."
        )
    return x, std, replaced


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


def choose(y: np.ndarray, predicted: dict[str, np.ndarray], hidden: Hidden) -> tuple[str, str]:
    """Choose the method, with the reason."""
    if not hidden.enough:
        name = next(name for name in (MODEL, WEIGHT, MEDIAN, LINE) if name in predicted)  # without a comparison: in space
        return name, "too few hidden readings to compare methods" if hidden.mask.any() else "no reading was hidden"
    rms = {name: float(np.sqrt(np.mean(hidden.errors(x, y) ** 2))) for name, x in predicted.items()}
    others = sorted((name for name in rms if name != MODEL), key=rms.__getitem__)
    if MODEL not in rms:
        return others[0], f"best of the simple methods at hidden readings, {hidden.measure} {number(rms[others[0]])}"

    def wins(other: str) -> bool:
        """Whether it is better than the model beyond chance.

        And neither at single readings nor in gaps worse beyond chance, unless by a smaller factor than it is better elsewhere.
        """
        pair = predicted[MODEL], predicted[other]
        excess, error = _compare.excess(y, *pair, hidden)
        parts = [_compare.excess(y, *pair, hidden, part) for part in (hidden.single, hidden.in_gaps)]
        worse = any(more < -chance for more, chance in parts)
        return excess > error and not (worse and _compare.times_better(y, *pair, hidden) <= 1)

    winner = next(filter(wins, others), None)
    if winner is not None:
        return winner, (
            f"another method wins: {hidden.measure} {number(rms[winner], 3)} at hidden readings, "
            f"against {number(rms[MODEL], 3)} of the space-time model"
        )
    other = others[0]
    share = rms[MODEL] / rms[other] if rms[other] > 0 else 1.0
    chance = ", which is not clearly better" if share > 1 else ""
    return MODEL, f"its {hidden.measure} at hidden readings is {share:.2f} times that of the best other method, {other}{chance}"


def frame(readings: Readings, values: np.ndarray) -> pd.DataFrame:
    """Results (N, T) with the labels of the readings."""
    table = readings_to_frame(replace(readings, values=values))
    return table.astype("int8") if values.dtype == np.int8 else table


def size_of(readings: Readings) -> str:
    """Stations, times and gaps, in words."""
    stations, times = (plural(size, noun) for size, noun in zip(readings.values.shape, ("station", "time"), strict=True))
    return f"{stations}, {times}, {100 * float(np.isnan(readings.values).mean()):.1f} % missing"


def in_own_times(quality: Quality, readings: Readings) -> Quality:
    """The quality with evidence in the table's own times, where these have a zone: all is computed in UTC."""
    if readings.zone is None or readings.timestamps is None:
        return quality
    dates = list(map(time, readings.timestamps))
    labels = {date: readable(label, date) for date, label in zip(dates, readings.times, strict=True)}

    def own(evidence: str) -> str:
        return DATE.sub(lambda date: labels.get(date[0], date[0]), evidence)

    suspects, dismissed = (
        tuple(replace(s, evidence=own(s.evidence)) for s in group) for group in (quality.suspects, quality.dismissed)
    )
    return replace(quality, suspects=suspects, dismissed=dismissed)


def without_spikes(quality: Quality, bad: np.ndarray) -> Quality:
    """The quality without the flags of single readings, (N, T) other ones ``bad``, and without suspects for these."""
    flags = quality.flags.copy()
    flags[~bad & (flags == Flag.BAD)] = Flag.GOOD
    return replace(quality, flags=flags, suspects=tuple(s for s in quality.suspects if s.kind != "spikes"))


def sensor_errors(quality: Quality | None, corrected: Sequence[Suspect], y: np.ndarray) -> tuple[np.ndarray, str | None]:
    """(N, T) how far a station that drifts, or has a wrong clock, is off during that time, 0 elsewhere; what it does, in words.

    The estimate there follows its readings. Whether they or the other stations are right, readings cannot tell. Corrected
    readings are off by what is not known of the correction.
    """
    result = np.zeros(y.shape)
    if quality is None:
        return result, None
    done = {(s.station, s.kind, s.start) for s in corrected}
    for s in quality.suspects:
        if np.isfinite(s.size) and s.kind in FOLLOWED and (s.station, s.kind, s.start) not in done:
            during = (quality.times >= s.start) & (quality.times <= s.stop)
            result[s.station, during] = np.maximum(result[s.station, during], s.size)
    stations = int(result.any(axis=1).sum())
    what = "drifts or has a wrong clock" if stations == 1 else "drift or have a wrong clock"
    sentence = (
        f"{plural(stations, 'station')} {what}: the estimate there follows the readings, and its band is as wide as they are "
        "off. To have it from the other stations instead, remove these readings and clean again."
    )
    return np.fmax(result, corrections(corrected, y)[1]), sentence if stations else None


def rule_notes(job: Job, quality: Quality | None, corrected: Sequence[Suspect]) -> list[str]:
    """What is to be said of dismissals and corrections."""
    readings, notes = job.network.readings, list[str]()
    if job.rules.reference and (quality is None or intermittent(job.y.T)):
        why = "no station was checked" if quality is None else "no regression fits a quantity that rests at a bound"
        notes.append(f"Nothing is compared with {' or '.join(job.rules.reference)}: {why}.")
    if quality is None:  # nothing was looked for beyond readings that are spared without a word
        return [*notes, "Nothing is corrected: no station was checked."] if job.rules.correct else notes
    unknown = (quality.flags == Flag.UNKNOWN) & ((quality.flags != Flag.MISSING).sum(axis=1) >= FEWEST)[:, None]
    if unknown.any():
        alone = [readings.names[i] for i in np.flatnonzero(unknown.any(axis=1))]
        verb, whose = ("is", "its") if len(alone) == 1 else ("are", "their")
        notes.append(f"{listed(alone)} {verb} so far from the others that {whose} good readings are not evaluated (flag 2).")
    dismissed = quality.dismissed
    for entry in dismissals(job.rules, readings.names, stamps(readings)):
        if not any(
            s.station == entry.station and entry.kind in (None, s.kind) and entry.during[s.columns].any() for s in dismissed
        ):
            notes.append(f"No finding matches the dismissal {entry.text!r}: check station, kind and times, or delete it.")
    able = () if corrected else tuple(s for s in quality.suspects if s.corrected is not None)
    for suspect in corrected:
        later = np.isfinite(job.y[suspect.station, suspect.columns[-1] + 1 :]).any()
        end = " Its later readings are as they were: a correction is not extrapolated." if later else ""
        notes.append(f"{suspect.name}, {suspect.kind}: {plural(suspect.columns.size, 'reading')} corrected.{end}")
    if able and not job.rules.correct:
        names = ", ".join(dict.fromkeys(s.name for s in able))
        notes.append(f"Corrections of {names} are not applied: nareg clean --correct, or quality={{'correct': True}}, does it.")
    return notes
