"""Faults of whole series, against their prediction from the other stations: wrong units and clocks, exchanges, drift."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TypeVar

import numpy as np

from nareg.quality import _text
from nareg.quality._clock import Delay, delays
from nareg.quality._finding import Finding
from nareg.quality._flags import Flag
from nareg.quality._lasting import Lasting, lasting
from nareg.quality._others import Others, others
from nareg.quality._residuals import Residuals
from nareg.quality._response import Response, responses
from nareg.quality._swapped import SwappedPair, exchanges
from nareg.quality._unit import Conversion, conversions

Fault = TypeVar("Fault", Conversion, Delay, Response)
#: An exchange has to fit better by this many standard deviations to make suspects, and bad readings.
EXCHANGED, CERTAIN = 9.0, 15.0
#: In networks of fewer stations than this, few others say what a place reads, and an exchange has to fit better in proportion.
MANY = 16
#: Badness per standard deviation of an exchange, for the reason of that of lasting errors.
WEIGHT = 0.3


def misplaced(residuals: Residuals, seen: Others) -> list[Finding]:
    """Stations in a wrong unit, of another level, exchanged ones, and those with a wrong clock."""
    findings: list[Finding] = []
    residuals, seen = _one_at_a_time(residuals, seen, findings, conversions, _unit)
    limit = EXCHANGED * max(1.0, MANY / max(int(seen.observed.any(axis=0).sum()), 1))
    # an exchanged station has another place's level; where the exchange is the clearer fault, it is the one
    exchanged = {i: e.ratio for e in exchanges(residuals, seen) if e.ratio >= limit for i in (e.first, e.second)}

    def levels(residuals: Residuals, seen: Others) -> list[Response]:
        return [r for r in responses(residuals, seen) if r.ratio > exchanged.get(r.station, 0.0)]

    residuals, seen = _one_at_a_time(residuals, seen, findings, levels, _level)
    for _ in range(residuals.n_nodes // 2):
        swaps = [e for e in exchanges(residuals, seen) if e.ratio >= limit]
        if not swaps:
            break
        findings += _swapped(residuals, swaps[0])
        residuals = _without(residuals, [swaps[0].first, swaps[0].second])
        seen = others(residuals)
    _one_at_a_time(residuals, seen, findings, delays, _clock)
    return findings


def _one_at_a_time(
    residuals: Residuals, seen: Others, findings: list[Finding],
    test: Callable[[Residuals, Others], list[Fault]], finding: Callable[[Residuals, Fault], Finding],
) -> tuple[Residuals, Others]:  # fmt: skip
    """Add the findings of a test, the clearest first, and leave out its station: it bends what is expected of its neighbors."""
    for _ in range(residuals.n_nodes):
        stations = {finding.station for finding in findings}
        faults = [fault for fault in test(residuals, seen) if fault.station not in stations]
        if not faults:
            break
        worst = max(faults, key=lambda fault: fault.order)
        findings.append(finding(residuals, worst))
        residuals = _without(residuals, [worst.station])
        seen = others(residuals)
    return residuals, seen


def _without(residuals: Residuals, stations: list[int]) -> Residuals:
    """The residuals where no reading of some stations tells what to expect of the others."""
    bad = residuals.bad.copy()
    bad[:, stations] = True
    return replace(residuals, bad=bad)


def drift(residuals: Residuals, seen: Others) -> tuple[list[Finding], np.ndarray]:
    """Stations that drift or are off for a while, and the badness (N, T) of readings in lasting errors."""
    errors, badness = lasting(residuals, seen)
    return [_drift(residuals, error) for error in errors], residuals.by_station(badness)


def _columns(residuals: Residuals, station: int, start: int, stop: int) -> np.ndarray:
    """Columns of the readings of a station in a span of the grid."""
    inside = (residuals.grid.rows >= start) & (residuals.grid.rows < stop)
    return np.flatnonzero(inside & np.isfinite(residuals.readings[station]))


def _unit(residuals: Residuals, c: Conversion) -> Finding:
    columns = _columns(residuals, c.station, c.start, c.stop)
    span = _text.span(*residuals.grid.values[columns[[0, -1]]])
    evidence = (
        f"{_text.count(columns.size, 'reading')} {span} are {c.ratio:.1f} standard deviations from the other stations, and fit "
        f"them if they are {c.name}."
    )
    return Finding(c.station, "unit", c.ratio, columns, Flag.BAD, evidence)


def _level(residuals: Residuals, r: Response) -> Finding:
    columns = _columns(residuals, r.station, r.start, r.stop)
    model, values = residuals.model, residuals.readings[[r.station]][:, columns]
    right = model.to_readings(model.to_unit(values) - r.level)  # the level that is off was read, so that it is taken away
    shift = float(np.median(np.abs(values - right)))
    follows = "" if np.isnan(r.slope) else f", and follow the other stations by a factor of {_text.number(r.slope)}"
    evidence = (
        f"Its {_text.count(columns.size, 'reading')} {_text.span(*residuals.grid.values[columns[[0, -1]]])} are off by "
        f"{_text.number(shift)}, {r.ratio:.1f} standard deviations of the stations' levels{follows}."
    )
    return Finding(r.station, "level", r.ratio, columns, Flag.BAD, evidence, size=shift)


def _shift(residuals: Residuals, station: int, span: slice, height: float) -> float:
    """A height in the model's unit in that of the readings."""
    center = float(residuals.offset[span, station].mean())
    return float(np.diff(residuals.model.to_readings(np.array([center, center + height])))[0])


def _clock(residuals: Residuals, d: Delay) -> Finding:
    columns = _columns(residuals, d.station, d.start, d.stop)
    shift = abs(d.steps) * residuals.grid.step
    by = _text.duration(shift) if residuals.grid.dated else _text.number(shift)
    evidence = (
        f"Its {_text.count(columns.size, 'reading')} {_text.span(*residuals.grid.values[columns[[0, -1]]])} fit the other "
        f"stations better by {d.ratio:.1f} standard deviations if its clock is {by} {'ahead' if d.steps > 0 else 'behind'}."
    )
    off = abs(_shift(residuals, d.station, slice(None), d.size))
    return Finding(d.station, "clock", d.ratio, columns, Flag.SUSPECT, evidence, np.zeros(columns.size), off)


def _swapped(residuals: Residuals, e: SwappedPair) -> list[Finding]:
    findings = []
    for station, partner in ((e.first, e.second), (e.second, e.first)):
        columns = _columns(residuals, station, e.start, e.stop)
        if columns.size == 0:
            continue
        evidence = (
            f"Its {_text.count(columns.size, 'reading')} {_text.span(*residuals.grid.values[columns[[0, -1]]])} fit better by "
            f"{e.ratio:.1f} standard deviations if exchanged with those of {residuals.names[partner]}."
        )
        flag = Flag.BAD if e.ratio >= CERTAIN else Flag.SUSPECT
        findings.append(Finding(station, "swapped", e.ratio, columns, flag, evidence, np.full(columns.size, WEIGHT * e.ratio)))
    return findings


def _drift(residuals: Residuals, error: Lasting) -> Finding:
    columns = _columns(residuals, error.station, error.start, error.stop)
    shift = _shift(residuals, error.station, slice(error.start, error.stop), error.height)
    side = "above" if shift > 0 else "below"
    over = _text.span(*residuals.grid.values[columns[[0, -1]]])
    size = f"{_text.number(abs(shift))} {side} the prediction from the other stations"
    verb = "move to" if error.shape == "ramp" else "are"
    evidence = f"Its readings {verb} {size}, {over}: {error.ratio:.1f} standard deviations."
    level = np.zeros(columns.size)
    return Finding(error.station, "drift", error.ratio, columns, Flag.SUSPECT, evidence, level, abs(shift))
