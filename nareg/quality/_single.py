"""Simple faults: spikes, noisy sensors, and those that repeat one value or stopped reading."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import replace

import numpy as np
import scipy.sparse as sp
from scipy.special import pdtrc

from nareg._core.arrays import MAD_TO_STD, robust_std
from nareg.graph import Graph
from nareg.io import count
from nareg.quality._residuals import FEWEST, Residuals
from nareg.quality._results import Finding, Flag, number, span, time
from nareg.spacetime import TOGETHER, RepeatedValue, freezes, robust_spread, steps, stuck_runs

#: A station is dead from its last reading on where it is silent for this share of the record at least,
#: and for this many times its longest earlier gap.
SILENT_SHARE, SILENT_TIMES = 0.1, 5


def stuck(residuals: Residuals) -> list[Finding]:
    """Runs of one value that chance does not explain; the first reading of a run is right, the sensor stuck after it.

    Where the whole network repeats its values, or several stations do at once, that is one finding of all of them.
    """
    findings, values, network = [], residuals.grid.values, count(residuals.n_nodes, "station")
    seen, frozen = np.isfinite(residuals.readings), freezes(residuals.readings.T)
    spans = [span(*values[[min(run.rows[0] for run in runs), max(run.rows[-1] for run in runs)]]) for runs in frozen]
    by_end = defaultdict[int, list[RepeatedValue]](list)
    for run in stuck_runs(residuals.readings.T):
        if not any(_joined(runs, run) for runs in frozen):
            by_end[run.rows[-1]].append(run)
    last = np.flatnonzero(seen.any(axis=0))[-1:]
    for end, runs in by_end.items():
        shared = len(runs) >= TOGETHER and bool((end < last).all())
        times = span(*values[[min(run.rows[0] for run in runs), end]])
        evidence = f"{len(runs)} of {network} repeat their values, {times}, and go on at once: what they share stood still."
        for run in runs:
            if not shared:
                times = span(*values[run.rows[[0, -1]]])
                evidence = f"It reads {number(run.value)} at {count(run.rows.size, 'time')} in a row, {times}."
            began = run.rows[0] > np.flatnonzero(seen[run.station])[0]
            score = float(np.sqrt(2 * run.evidence))
            findings.append(Finding(run.station, "stuck", score, run.rows[int(began) :], Flag.BAD, evidence, shared=shared))
    for times, runs in zip(spans, frozen, strict=True):
        evidence = f"{len(runs)} of {network} repeat their values, {times}: the logger or the link stood still."
        score = float(np.sqrt(2 * runs[0].evidence))
        findings += [Finding(run.station, "stuck", score, run.rows, Flag.BAD, evidence, shared=True) for run in runs]
    return findings


def _joined(runs: list[RepeatedValue], run: RepeatedValue) -> bool:
    """Whether most of a station's run lies in one of a network that stood still; then that one has the rest of it, too."""
    for k, whole in enumerate(runs):
        inside = np.isin(run.rows, whole.rows)
        if whole.station == run.station and 2 * inside.sum() > inside.size:
            runs[k] = replace(whole, rows=np.union1d(whole.rows, run.rows[1:]))
            return True
    return False


def out_of_range(residuals: Residuals) -> list[Finding]:
    """Stations with readings beyond the ranges of the rules."""
    findings = []
    for i in map(int, np.flatnonzero(residuals.outside.any(axis=1))):
        columns = np.flatnonzero(residuals.outside[i])
        values = residuals.readings[i, columns]
        verb = "is" if columns.size == 1 else "are"
        evidence = (
            f"{count(columns.size, 'reading')} {verb} beyond the range that is set: {_range(values.min(), values.max())}."
        )
        findings.append(Finding(i, "range", float("inf"), columns, Flag.BAD, evidence))
    return findings


def dead(residuals: Residuals) -> list[Finding]:
    """Stations without a reading, and stations that stopped for good.

    Where most have none, as in a file of several quantities, that is one finding of all of them.
    """
    there = np.isfinite(residuals.readings)
    T = there.shape[1]
    if not there.any():
        return []
    end = int(np.flatnonzero(there.any(axis=0))[-1])
    findings, none = [], int((~there.any(axis=1)).sum())
    most = 2 * none > residuals.n_nodes
    words = f"{none} of {residuals.n_nodes} stations have no reading: do they read another quantity?"
    for i in range(residuals.n_nodes):
        seen = np.flatnonzero(there[i])
        if seen.size == 0:
            evidence = words if most else f"It has no reading at {T:,} times."
            findings.append(Finding(i, "dead", float("inf"), np.arange(T), Flag.MISSING, evidence, shared=most))
            continue
        silent = end - seen[-1]
        longest = int(np.diff(seen).max(initial=1))
        if silent >= max(SILENT_SHARE * T, SILENT_TIMES * longest):
            columns = np.arange(seen[-1] + 1, T)
            evidence = (
                f"It has no reading at the last {columns.size:,} times, since {time(residuals.grid.values[columns[0]])}; "
                f"its longest gap before was {longest - 1:,} times."
            )
            score = float(np.sqrt(2 * silent * np.log(T)))
            findings.append(Finding(i, "dead", score, columns, Flag.MISSING, evidence))
    return findings


#: Readings that stand out are suspect from this share of the limit on.
SUSPECT_SHARE = 0.8
#: A station is suspect for its spikes where chance gives so many with at most this probability anywhere in the network.
CHANCE = 1e-3
FEWEST_SPIKES = 3
#: One reading so many times the limit off is enough.
SINGLE = 2.0
#: Noise so many times the network's median standard deviation is a fault.
NOISY = 3.0
#: And this share of what the station's readings are off from their prediction: less is only inferred.
SHOWN = 0.25
#: Noise that is another one from a time on has so many readings, and this share of the record, on either side of it; and an
#: error counts up to so many times the median one when that time is sought.
SHORTEST, SHARE, MOST = 48, 0.05, 5.0
#: A station copies another one where so large a share of its changed readings equal the other's.
COPIED = 0.8
#: And so many robust standard deviations of the network's log variances above its median.
NOISY_SPREADS = 4.0
#: Its third differences exceed those of the median station by this factor, and by so many robust standard deviations of the
#: network's, in the logarithm: where stations are unlike, some are rough by nature.
ROUGHER, ROUGHER_SPREADS = 1.1, 2.0
#: Variance of a third difference of white noise of unit variance.
THIRD_DIFFERENCE = 20.0


def spikes(residuals: Residuals) -> list[Finding]:
    """Stations with more gross outliers than chance and the rest of the network explain."""
    sizes = np.abs(residuals.by_station(residuals.scores))
    sizes[residuals.by_station(residuals.frozen) | residuals.outside] = np.nan
    hits = residuals.by_station(residuals.spiky | residuals.absurd) & np.isfinite(sizes)  # frozen ones are stuck
    counts, seen = hits.sum(axis=1), np.isfinite(sizes).sum(axis=1)
    live = seen >= FEWEST
    if not live.any():
        return []
    usual = max(float(np.median(counts[live] / seen[live])), 1e-5)
    findings = []
    for i in np.flatnonzero(live & (counts > 0)):
        largest = float(sizes[i, hits[i]].max())
        by_chance = float(pdtrc(counts[i] - 1, usual * seen[i])) * residuals.n_nodes
        if largest < SINGLE * residuals.limit and (counts[i] < FEWEST_SPIKES or by_chance > CHANCE):
            continue
        columns = np.flatnonzero(hits[i])
        off = residuals.gaps[i, columns]
        sigma = sizes[i, columns]
        reach = _range(sigma.min(), sigma.max())
        verb, whose = ("is", "its") if columns.size == 1 else ("are", "their")
        evidence = (
            f"{count(columns.size, 'reading')} {verb} {reach} standard deviations from {whose} prediction by neighbors and "
            f"nearby times, off by {_range(np.abs(off).min(), np.abs(off).max())}."
        )
        findings.append(Finding(int(i), "spikes", largest, columns, Flag.BAD, evidence, sigma))
    return findings


def spike_scores(residuals: Residuals) -> np.ndarray:
    """(N, T) how far a reading stands out from the others' and also from the scores just before and after it.

    An error that lasts is no spike: it is what the tests of lasting errors are for.
    """
    scores = residuals.scores
    there = np.isfinite(scores)
    values = np.pad(np.where(there, scores, 0.0), ((1, 1), (0, 0)))
    counts = np.pad(there.astype(float), ((1, 1), (0, 0)))
    around = (values[:-2] + values[2:]) / np.maximum(counts[:-2] + counts[2:], 1.0)
    return residuals.by_station(np.minimum(np.abs(scores), np.abs(scores - around)))


def noisy(residuals: Residuals) -> list[Finding]:
    """Stations whose noise is far above the network's, of which stations with the same readings say nothing."""
    std = np.sqrt(residuals.model.unit_noise) * residuals.spread
    # noise that the residuals do not show is the fit's: lasting faults enlarge it
    shown = std * np.minimum(robust_spread(residuals.scores), 1.0)
    seen = residuals.usable.sum(axis=0)
    live = (seen >= FEWEST) & ~_copies(residuals.readings, residuals.model.graph)
    if live.sum() < 3:
        return []
    logs = np.log(std)
    center = float(np.median(logs[live]))
    spread = max(robust_std(logs[live]), 0.1)
    z = (logs - center) / spread
    # noise within a step of the instrument is nobody's fault, nor is noise that predictions are too far off to show
    visible = np.ones(live.size, dtype=bool)
    if residuals.model.transform.linear:
        visible = std * residuals.model.unit > steps(residuals.readings)
        off = MAD_TO_STD * np.nanmedian(np.abs(residuals.gaps[live]), axis=1)
        visible[live] &= std[live] * residuals.model.unit > SHOWN * off
    # what jumps no more than the others is noisy to a model alone that takes their noise for weather
    jumps = np.diff(np.where(residuals.usable, residuals.y, np.nan), n=3, axis=0)
    known = np.isfinite(jumps).sum(axis=0) >= FEWEST
    jumps = MAD_TO_STD * np.nanmedian(np.abs(np.where(known, jumps, 0.0)), axis=0)
    if (known & live).sum() > 1:  # one alone has none to exceed
        logged = np.log(np.maximum(jumps, 1e-300))
        usual = logged[known & live]
        visible &= ~known | (logged - np.median(usual) > max(np.log(ROUGHER), ROUGHER_SPREADS * robust_std(usual)))
        # noise cannot exceed what third differences show of it: pumps draw a well down smoothly, unlike its neighbors
        excess = (jumps**2 - np.median(jumps[known & live]) ** 2) / THIRD_DIFFERENCE
        shown = np.where(known, np.minimum(shown, np.sqrt(np.exp(2 * center) + np.maximum(excess, 0.0))), shown)
    findings = _noisy_parts(residuals, live)
    partly = {finding.station for finding in findings}
    visible &= np.log(shown) - center > np.log(NOISY)
    for i in np.flatnonzero(live & visible & (z > NOISY_SPREADS)):
        if i in partly:
            continue
        columns = np.flatnonzero(np.isfinite(residuals.readings[i]))
        here, usual = (value * residuals.model.unit for value in (std[i], float(np.exp(center))))
        what = "" if residuals.model.transform.linear else f" ({residuals.model.transform.name} of the readings)"
        evidence = (
            f"Its noise has a standard deviation of {number(here)}{what}, {number(here / usual)} times the "
            f"network's median of {number(usual)}."
        )
        # of a noisy station no reading is worse than its own score
        findings.append(Finding(int(i), "noisy", float(z[i]), columns, Flag.SUSPECT, evidence, np.zeros(columns.size)))
    return findings


def _noisy_parts(residuals: Residuals, live: np.ndarray) -> list[Finding]:
    """Stations whose noise grows or falls at once, by much more than the others' at that time; the noisier part is at fault."""
    if not residuals.model.transform.linear:
        return []
    off = np.where(residuals.by_station(residuals.frozen | residuals.absurd) | ~live[:, None], np.nan, np.abs(residuals.gaps))
    findings, step = [], steps(residuals.readings)
    for i in map(int, np.flatnonzero(live)):
        columns = np.flatnonzero(np.isfinite(off[i]))
        n, least = columns.size, int(max(SHORTEST, SHARE * columns.size))
        cuts = np.arange(least, n - least + 1)
        if not cuts.size:
            continue
        sums = np.cumsum(np.minimum(off[i, columns], MOST * np.median(off[i, columns])))
        first, second = sums[cuts - 1] / cuts, (sums[-1] - sums[cuts - 1]) / (n - cuts)
        if min(first.min(), second.min()) <= 0:
            continue
        best = int(np.argmin(cuts * np.log(first) + (n - cuts) * np.log(second)))
        parts = columns[: cuts[best]], columns[cuts[best] :]
        part, rest = parts if first[best] > second[best] else parts[::-1]
        known = live & (np.isfinite(off[:, part]).sum(axis=1) >= FEWEST) & (np.isfinite(off[:, rest]).sum(axis=1) >= FEWEST)
        there = off[known][:, part]
        below = 2 * (there < np.nanmedian(off[i, part]) / NOISY).sum(axis=1) >= np.isfinite(there).sum(axis=1)
        if 2 * below.sum() < below.size:  # its noise is not that far above the median, which takes longer to look for
            continue
        noise, usual = (MAD_TO_STD * np.nanmedian(off[known][:, columns], axis=1) for columns in (part, rest))
        own = int(known[:i].sum())
        if known.sum() < 3 or min(noise.min(), usual.min()) <= 0:
            continue
        logs = np.log(noise / usual)
        grown = logs[own] - np.median(logs)
        z = grown / max(robust_std(logs), 0.1)
        if min(grown, np.log(noise[own] / np.median(noise))) <= np.log(NOISY) or z <= NOISY_SPREADS or noise[own] <= step[i]:
            continue
        evidence = (
            f"Its noise has a standard deviation of {number(noise[own])}, {span(*residuals.grid.values[part[[0, -1]]])}, and "
            f"of {number(usual[own])} at other times; the network's median is {number(float(np.median(noise)))}."
        )
        findings.append(Finding(i, "noisy", float(z), part, Flag.SUSPECT, evidence, np.zeros(part.size)))
    return findings


def _copies(y: np.ndarray, graph: Graph) -> np.ndarray:
    """(N,) True for stations whose readings (N, T) are those of a neighbor, at most times at which they change."""
    result = np.zeros(len(y), dtype=bool)
    changed = np.isfinite(y)
    changed[:, 1:] &= y[:, 1:] != y[:, :-1]
    for i, j in np.argwhere(sp.triu(graph.adjacency, 1).toarray() > 0):
        both = (changed[i] | changed[j]) & np.isfinite(y[i] + y[j])
        if both.sum() >= FEWEST and (y[i, both] == y[j, both]).mean() >= COPIED:
            result[[i, j]] = True
    return result


def _range(low: float, high: float) -> str:
    first, last = number(low), number(high)
    return first if first == last else f"{first} to {last}"
