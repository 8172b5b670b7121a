"""Faults that need no model: sensors that repeat one value, and sensors that stopped reading."""

from __future__ import annotations

import numpy as np

from nareg.quality import _text
from nareg.quality._finding import Finding
from nareg.quality._flags import Flag
from nareg.quality._residuals import Residuals

#: A station is dead from its last reading on where it is silent for this share of the record at least,
#: and for this many times its longest earlier gap.
SILENT_SHARE, SILENT_TIMES = 0.1, 5


def stuck(residuals: Residuals) -> list[Finding]:
    """Runs of one value that chance does not explain; the first reading of a run is right, the sensor stuck after it."""
    frozen = residuals.by_station(residuals.frozen)
    surprise = _surprise(residuals.readings)
    findings = []
    for i in np.flatnonzero(frozen.any(axis=1)):
        seen = np.flatnonzero(np.isfinite(residuals.readings[i]))
        values, flagged = residuals.readings[i, seen], frozen[i, seen]
        starts = np.flatnonzero(flagged & np.r_[True, (values[1:] != values[:-1]) | ~flagged[:-1]])
        for a in starts:
            b = a + 1
            while b < seen.size and flagged[b] and values[b] == values[a]:
                b += 1
            columns = seen[a + (1 if a else 0) : b]
            score = float(np.sqrt(2 * (b - a - 1) * surprise))
            evidence = (
                f"It reads {_text.number(values[a])} at {_text.count(int(b - a), 'time')} in a row, "
                f"{_text.span(residuals.grid.values[seen[a]], residuals.grid.values[seen[b - 1]])}."
            )
            findings.append(Finding(int(i), "stuck", score, columns, Flag.BAD, evidence))
    return findings


def dead(residuals: Residuals) -> list[Finding]:
    """Stations without a reading, and stations that stopped for good."""
    there = np.isfinite(residuals.readings)
    T = there.shape[1]
    if not there.any():
        return []
    end = int(np.flatnonzero(there.any(axis=0))[-1])
    findings = []
    for i in range(residuals.n_nodes):
        seen = np.flatnonzero(there[i])
        if seen.size == 0:
            findings.append(Finding(i, "dead", float("inf"), np.arange(T), Flag.MISSING, f"It has no reading at {T:,} times."))
            continue
        silent = end - seen[-1]
        longest = int(np.diff(seen).max(initial=1))
        if silent >= max(SILENT_SHARE * T, SILENT_TIMES * longest):
            columns = np.arange(seen[-1] + 1, T)
            evidence = (
                f"It has no reading at the last {columns.size:,} times, since {_text.time(residuals.grid.values[columns[0]])}; "
                f"its longest gap before was {longest - 1:,} times."
            )
            score = float(np.sqrt(2 * silent * np.log(T)))
            findings.append(Finding(i, "dead", score, columns, Flag.MISSING, evidence))
    return findings


def _surprise(y: np.ndarray) -> float:
    """Minus the log probability that a reading repeats the one before, at a usual station."""
    shares, total = [], 0
    for row in y:
        seen = row[np.isfinite(row)]
        total += seen.size
        if seen.size > 1:
            shares.append(float(np.mean(np.diff(seen) == 0)))
    usual = min(max(float(np.median(shares)) if shares else 0.0, 1 / max(total, 2)), 1 - 1e-9)
    return float(-np.log(usual))
