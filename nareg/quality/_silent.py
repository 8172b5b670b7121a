"""Faults that need no model: sensors that repeat one value, and sensors that stopped reading."""

from __future__ import annotations

import numpy as np

from nareg.quality import _text
from nareg.quality._finding import Finding
from nareg.quality._flags import Flag
from nareg.quality._residuals import Residuals
from nareg.spacetime._learn.repeats import stuck_runs

#: A station is dead from its last reading on where it is silent for this share of the record at least,
#: and for this many times its longest earlier gap.
SILENT_SHARE, SILENT_TIMES = 0.1, 5


def stuck(residuals: Residuals) -> list[Finding]:
    """Runs of one value that chance does not explain; the first reading of a run is right, the sensor stuck after it."""
    findings = []
    for run in stuck_runs(residuals.readings.T):
        began = run.rows[0] > np.flatnonzero(np.isfinite(residuals.readings[run.station]))[0]
        evidence = (
            f"It reads {_text.number(run.value)} at {_text.count(run.rows.size, 'time')} in a row, "
            f"{_text.span(*residuals.grid.values[run.rows[[0, -1]]])}."
        )
        score = float(np.sqrt(2 * run.evidence))
        findings.append(Finding(run.station, "stuck", score, run.rows[int(began) :], Flag.BAD, evidence))
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
