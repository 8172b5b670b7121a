"""Faults of whole series, against their prediction from the other stations: wrong units and clocks, exchanges, drift."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from itertools import combinations
from typing import NamedTuple, TypeVar

import numpy as np

from nareg.io import count
from nareg.quality._clock import Delay, delays
from nareg.quality._lasting import Lasting, lasting
from nareg.quality._level import KNOWN, Response, deaf, earlier_is_wrong, odds_of_levels, responses
from nareg.quality._others import Others, others, tell
from nareg.quality._reference import ALIKE, SHARP, SensorLaw, calibrations
from nareg.quality._residuals import FEWEST, Residuals
from nareg.quality._results import Fault, Finding, Flag, duration, number, span
from nareg.quality._sun import DAY, PARTS, Sunlit, parts_of_day, sunlit
from nareg.quality._swapped import SwappedPair, exchanges
from nareg.quality._units import CONVERSIONS, Conversion, conversions, possible

FaultType = TypeVar("FaultType", bound=Fault)
#: An exchange has to fit better by this many standard deviations to make suspects, and bad readings.
EXCHANGED, CERTAIN = 9.0, 15.0
#: Words of quantities that are of a water, which has levels of its own at some places; that of the air has none.
IN_WATER = frozenset(("water", "wasser", "eau", "agua", "acqua", "river", "stream", "wtmp", "watertemp", "wassertemperatur"))
IN_AIR = frozenset(("air", "luft", "aire", "aria", "vapor", "vapour", "humidity", "wind"))  # above a river, too
#: In networks of fewer stations than this, few others say what a place reads, and its gain has to be larger in proportion.
MANY = 16
#: Medians of so many readings on each side of a leap are at least so many times as far apart as if two are exchanged there.
BESIDE, CROSSING = 5, 4.0
_CROSSED = "Its {} leap to where those of {} were, and these at once to where its own were: they look exchanged."
#: Badness per standard deviation of an exchange, for the reason of that of lasting errors.
WEIGHT = 0.3


def misplaced(
    residuals: Residuals, seen: Others, quantity: Sequence[str] = (), references: Sequence[int] = ()
) -> list[Finding]:
    """Stations that read otherwise than a reference beside them, in a wrong unit of the quantity, of another level, exchanged
    ones, and those with a wrong clock.
    """
    findings = [_gain(residuals, one, quantity) for one in calibrations(residuals, references)]
    if findings:
        residuals, seen = _without(residuals, [finding.station for finding in findings])
    residuals, seen = _wrong_units(residuals, seen, findings, quantity)
    residuals, seen = _levels_and_exchanges(residuals, seen, findings)
    words = {word for name in quantity for word in re.split(r"[\W_]+", name.casefold())}
    if words & IN_WATER and not words & IN_AIR:
        findings[:] = [_perhaps_the_place(finding) for finding in findings]
    residuals, seen = _one_at_a_time(residuals, seen, findings, delays, _clock)
    _one_at_a_time(residuals, seen, findings, deaf, _level)
    return findings


def _wrong_units(
    residuals: Residuals, seen: Others, findings: list[Finding], quantity: Sequence[str]
) -> tuple[Residuals, Others]:
    """Add stations in a wrong unit, which others say that are not clearly exchanged: a pole's readings bend the tropics."""
    test = partial(conversions, words=quantity)
    stations = [conversion.station for conversion in test(residuals, seen)]
    swaps = _clear(*_without(residuals, stations)) if stations else []
    exchanged = [station for swap in swaps for station in (swap.first, swap.second)]
    if not exchanged:
        return _one_at_a_time(residuals, seen, findings, test, _unit)
    before, (rest, said) = len(findings), _without(residuals, exchanged)
    _one_at_a_time(rest, said, findings, lambda *some: [c for c in test(*some) if c.station not in exchanged], _unit)
    return _without(residuals, [finding.station for finding in findings[before:]])


def _perhaps_the_place(finding: Finding) -> Finding:
    """A level below a dam or at a spring is as unlike the others' as one indoors, and right."""
    if finding.kind != "level" or finding.flag != Flag.BAD:
        return finding
    evidence = f"{finding.evidence} A dam, a spring or an inlet nearby explains that as well."
    return replace(finding, flag=Flag.SUSPECT, evidence=evidence)


def _levels_and_exchanges(residuals: Residuals, seen: Others, findings: list[Finding]) -> tuple[Residuals, Others]:
    """Add stations of another level and exchanged ones, the clearest first.

    An exchanged station has another place's level, so that a clear exchange explains the levels of its two. A station whose
    clock is wrong has other values than its place at that time, and so explains an exchange.
    """
    swaps = _clear(residuals, seen)
    while True:
        stations = {finding.station for finding in findings}.union(*((swap.first, swap.second) for swap in swaps))
        levels = [response for response in responses(residuals, seen) if response.station not in stations]
        level = max(levels, key=lambda response: response.ratio, default=None)
        if level is not None and not (swaps and swaps[0].ratio > level.ratio):
            findings.append(_level(residuals, level))
        elif swaps and (late := _clearer_clock(residuals, seen, swaps[0])) is not None:
            findings.append(_clock(residuals, late))
        elif swaps:
            best, *equals = _explaining_most(residuals, swaps)
            findings += _swapped(residuals, best.swap, [equal.swap for equal in equals])
            residuals, seen, swaps = best.residuals, best.seen, best.swaps
            continue
        else:
            return residuals, seen
        residuals, seen = _without(residuals, [findings[-1].station])
        swaps = _clear(residuals, seen)


def _clearer_clock(residuals: Residuals, seen: Others, swap: SwappedPair) -> Delay | None:
    """A wrong clock at a station of an exchange that explains its readings better."""
    late = [delay for delay in delays(residuals, seen) if delay.station in (swap.first, swap.second)]
    return next((delay for delay in late if delay.ratio > swap.ratio), None)


def _clear(residuals: Residuals, seen: Others) -> list[SwappedPair]:
    """Exchanges that are clear enough, the clearest first, without sensors in the sun: any readings fit better than theirs."""
    limit = EXCHANGED * np.sqrt(max(1.0, MANY / max(int(seen.observed.any(axis=0).sum()), 1)))
    clear = [swap for swap in exchanges(residuals, seen) if swap.ratio >= limit]
    odd = {fault.station for fault in sunlit(residuals, seen)} if clear else set()
    return [swap for swap in clear if not odd & {swap.first, swap.second}]


class _Explained(NamedTuple):
    """An exchange, and what remains without its two stations."""

    swap: SwappedPair
    residuals: Residuals
    seen: Others
    swaps: list[SwappedPair]

    @property
    def left(self) -> float:
        """Gain that exchanges of the other stations still promise."""
        return sum(swap.ratio**2 for swap in self.swaps)


def _explaining_most(residuals: Residuals, swaps: list[SwappedPair]) -> list[_Explained]:
    """Of the clearest exchange and those beside it, the one that leaves least to explain, and those that leave as little.

    An exchange of two far places bends what is expected beside both, so that neighbors of the two look exchanged as well.
    """
    K = residuals.model.parameters.covariance(residuals.model.space)
    first, *rest = swaps
    explained = []
    for swap in (first, *(e for e in rest if _overlap(first, e, K))):
        without, seen = _without(residuals, [swap.first, swap.second])
        explained.append(_Explained(swap, without, seen, _clear(without, seen)))
    least = min(entry.left for entry in explained)
    return [entry for entry in explained if entry.left == least]


def _overlap(one: SwappedPair, other: SwappedPair, K: np.ndarray) -> bool:
    """Whether two exchanges are at the same time, and each place of one tells of a place of the other."""
    (a, b), (c, d) = (one.first, one.second), (other.first, other.second)
    at_once = one.start < other.stop and other.start < one.stop
    return at_once and ((tell(K, a, c) and tell(K, b, d)) or (tell(K, a, d) and tell(K, b, c)))


def _one_at_a_time(
    residuals: Residuals, seen: Others, findings: list[Finding],
    test: Callable[[Residuals, Others], list[FaultType]], finding: Callable[[Residuals, FaultType], Finding],
) -> tuple[Residuals, Others]:  # fmt: skip
    """Add the findings of a test, the clearest first, and leave out its station: it bends what is expected of its neighbors."""
    for _ in range(residuals.n_nodes):
        stations = {finding.station for finding in findings}
        faults = [fault for fault in test(residuals, seen) if fault.station not in stations]
        if not faults:
            break
        worst = max(faults, key=lambda fault: fault.ratio)
        findings.append(finding(residuals, worst))
        residuals, seen = _without(residuals, [worst.station])
    return residuals, seen


def _without(residuals: Residuals, stations: list[int]) -> tuple[Residuals, Others]:
    """The residuals where no reading of some stations tells what to expect of the others, and what is expected then."""
    bad = residuals.bad.copy()
    bad[:, stations] = True
    rest = replace(residuals, bad=bad)
    return rest, others(rest)


def drift(residuals: Residuals, seen: Others) -> tuple[list[Finding], np.ndarray]:
    """Stations that drift or are off for a while, and the badness (N, T) of readings in lasting errors.

    Two that leap at once, each to where the other one was, are exchanged. Stations that vary alike, as the sensors of a chain
    in a lake, show it by nothing else.
    """
    errors, badness = lasting(residuals, seen)
    findings: list[Finding] = []
    exchanged: set[int] = set()
    crossed = [entry for e, f in combinations(errors, 2) if (entry := _crossed(residuals, seen, e, f)) is not None]
    for _, pair in sorted(crossed, key=lambda one: one[0]):  # a station is in one pair at most
        if not exchanged & {pair.first, pair.second}:
            findings += _swapped(residuals, pair, [], _CROSSED)
            exchanged |= {pair.first, pair.second}
    findings += [_drift(residuals, seen, error) for error in errors if error.station not in exchanged]
    return findings, residuals.by_station(badness)


def _crossed(residuals: Residuals, seen: Others, e: Lasting, f: Lasting) -> tuple[float, SwappedPair] | None:
    """The exchange of two stations whose readings leap at the ends of two errors, and go on if they are exchanged there.

    Before it is the share of the leaps that is left then.
    """
    T, spans = len(residuals.y), [(error.start, error.stop) for error in (e, f)]
    values = np.where(residuals.frozen, np.nan, residuals.y + residuals.offset)[:, [e.station, f.station]]
    inner = [[end for end in span if 0 < end < T] for span in spans]
    if not len(inner[0]) == len(inner[1]) > 0:
        return None
    ends, left = [], 0.0
    for one, other in zip(*inner, strict=True):
        near = range(max(min(one, other) - BESIDE, 1), min(max(one, other) + BESIDE, T - 1) + 1)
        end = max(near, key=lambda c: _leap(values, c, 1)[0].min())  # a spike is of one of them
        leap, crossed = _leap(values, end, BESIDE)
        if abs(one - other) > BESIDE or not leap.min() > CROSSING * crossed.max():
            return None
        ends.append(end)
        left = max(left, float(crossed.max() / leap.min()))
    if len(ends) == 1:
        later = (Fault(error.station, ends[0], T, error.ratio) for error in (e, f))
        odds = sum(odds_of_levels(residuals, seen, part) for part in later)
        before, after = (int(np.isfinite(part).sum()) for part in (values[: ends[0]], values[ends[0] :]))
        ends = [0, *ends] if earlier_is_wrong(odds, before, after) else [*ends, T]
    return left, SwappedPair(e.station, f.station, ends[0], ends[1], min(e.ratio, f.ratio))


def _leap(values: np.ndarray, cut: int, beside: int) -> np.ndarray:
    """(2, 2) leaps of two series (T, 2) at a row, between medians of some readings; and if the two are exchanged there."""
    sides = [[part[np.isfinite(part)] for part in side.T] for side in (values[:cut], values[cut:])]
    if min(part.size for side in sides for part in side) < beside:
        return np.zeros((2, 2))
    before, after = np.array([np.median(part[-beside:]) for part in sides[0]]), [np.median(part[:beside]) for part in sides[1]]
    return np.abs(np.array([after, after[::-1]]) - before)


def in_the_sun(residuals: Residuals, seen: Others) -> list[Finding]:
    """Stations that are too warm at some hours of some days."""
    return [_sunlit(residuals, fault) for fault in sunlit(residuals, seen)]


def _columns(residuals: Residuals, station: int, fault: Fault | SwappedPair) -> tuple[np.ndarray, str]:
    """Columns of the readings of a station in the span of a fault, and how many there are from when to when."""
    inside = (residuals.grid.rows >= fault.start) & (residuals.grid.rows < fault.stop)
    columns = np.flatnonzero(inside & np.isfinite(residuals.readings[station]))
    if columns.size == 0:
        return columns, ""
    return columns, f"{count(columns.size, 'reading')} {span(*residuals.grid.values[columns[[0, -1]]])}"


def _unit(residuals: Residuals, c: Conversion) -> Finding:
    columns, what = _columns(residuals, c.station, c)
    evidence = f"{what} are {c.ratio:.1f} standard deviations from the other stations, and fit them if they are {c.name}."
    factor, constant = next((factor, constant) for name, factor, constant, _ in CONVERSIONS if name == c.name)
    right = (residuals.readings[c.station, columns] - constant) / factor
    return Finding(c.station, "unit", c.ratio, columns, Flag.BAD, evidence, corrected=right, corrected_std=np.zeros(right.size))


def _level(residuals: Residuals, r: Response) -> Finding:
    columns, what = _columns(residuals, r.station, r)
    if np.isnan(r.level):
        evidence = (
            f"Its {what} follow the other stations by a factor of {number(r.slope)}, {r.ratio:.1f} standard deviations less "
            "than these follow each other."
        )
        return Finding(r.station, "level", r.ratio, columns, Flag.SUSPECT, evidence)
    values = residuals.readings[r.station, columns]
    right, std = _undone(
        residuals, r.station, columns, r.level, abs(r.level) / r.ratio
    )  # the level that is off was read, so that it is taken away
    shift = float(np.median(np.abs(values - right)))
    follows = "" if np.isnan(r.slope) else f", and follow the other stations by a factor of {number(r.slope)}"
    evidence = f"Its {what} are off by {number(shift)}, {r.ratio:.1f} standard deviations of the stations' levels{follows}."
    finding = Finding(r.station, "level", r.ratio, columns, Flag.BAD, evidence, size=shift)
    # what follows the others by another factor, as indoors, is no reading of the place
    return finding if np.isfinite(r.slope) else replace(finding, corrected=right, corrected_std=std)


def _gain(residuals: Residuals, c: SensorLaw, quantity: Sequence[str]) -> Finding:
    columns, what = _columns(residuals, c.station, c)
    reference, values = residuals.names[c.reference], residuals.readings[c.station]
    law = f"{number(c.factor)} times them {'plus' if c.constant >= 0 else 'minus'} {number(abs(c.constant))}"
    evidence = (
        f"Its {what} differ from those of {reference} beside it by {number(c.before)} in the root mean square, and {law} by "
        f"{number(c.after)}."
    )
    if not c.follows:
        evidence = (
            f"Its {what} do not rise and fall with those of {reference} beside it, which are best told by {law}. They are not "
            "to be corrected."
        )
        return Finding(c.station, "gain", c.ratio, columns, Flag.SUSPECT, evidence)
    if c.late:
        step = residuals.grid.step
        by = duration(abs(c.late) * step) if residuals.grid.dated else number(abs(c.late) * step)
        evidence = (
            f"Its {what} fit those of {reference} beside it if the clock of {reference} is {by} "
            f"{'behind' if c.late > 0 else 'ahead'}, or theirs the other way round. Correct the times: readings are not to be "
            "corrected before."
        )
        return Finding(c.station, "gain", c.ratio, columns, Flag.SUSPECT, evidence)
    if c.worse:
        evidence += " They are not to be corrected: in a part of the record, that is much farther off. One of the two changed."
        return Finding(c.station, "gain", c.ratio, columns, Flag.SUSPECT, evidence)
    if c.changes:
        evidence += " Regressions of the times around fit clearly better: one of the two changes."
    spread = float(np.nanstd(residuals.readings[c.reference]))
    for name, factor, constant in possible(quantity) if c.after < SHARP * spread else ():
        apart = (c.constant - constant + (c.factor - factor) * x for x in (c.low, c.high))
        if max(map(abs, apart)) < ALIKE * spread:
            evidence += f" They are not to be corrected: {reference} looks {name}, or they the other way round. Convert one."
            return Finding(c.station, "gain", c.ratio, columns, Flag.SUSPECT, evidence)
    inside = columns[(values[columns] >= c.low) & (values[columns] <= c.high)]
    if beyond := columns.size - inside.size:
        evidence += (
            f" {count(beyond, 'reading')} beyond those at common times, {number(c.low)} to {number(c.high)}, stay as they are."
        )
    right = c.constant + c.factor * values[inside]
    return Finding(
        c.station, "gain", c.ratio, inside, Flag.SUSPECT, evidence, size=c.before, corrected=right,
        corrected_std=np.full(right.size, c.after),
    )  # fmt: skip


def _undone(
    residuals: Residuals, station: int, columns: np.ndarray, error: np.ndarray | float, std: np.ndarray | float
) -> tuple[np.ndarray, np.ndarray]:
    """Readings of some columns without an error in the model's unit, and the standard deviation of the correction."""
    model = residuals.model
    unit = model.to_unit(residuals.readings[[station]][:, columns])
    right, beyond = (model.to_readings(unit - part)[0] for part in (error, error + std))
    return right, np.abs(right - beyond)


def _shift(residuals: Residuals, station: int, rows: slice, height: float) -> float:
    """A height in the model's unit in that of the readings."""
    center = float(residuals.offset[rows, station].mean())
    return float(np.diff(residuals.model.to_readings(np.array([center, center + height])))[0])


def _sunlit(residuals: Residuals, s: Sunlit) -> Finding:
    columns, _ = _columns(residuals, s.station, s)
    columns = columns[np.isin(parts_of_day(residuals.grid.seconds)[residuals.grid.rows[columns]], s.parts)]
    excess, long = _shift(residuals, s.station, slice(None), s.excess), DAY / PARTS / 3600
    hours = " and ".join(f"{part * long:.0f} to {(part + 1) * long:.0f}" for part in s.parts)
    evidence = (
        f"Its {count(columns.size, 'reading')} from {hours} h are above the other stations by up to {number(excess)} in the "
        f"mean, by much on some days and by little on others, {s.ratio:.1f} standard deviations of all stations' days: is the "
        "sensor in the sun?"
    )
    return Finding(s.station, "sunlit", s.ratio, columns, Flag.SUSPECT, evidence, size=excess)


def _clock(residuals: Residuals, d: Delay) -> Finding:
    columns, what = _columns(residuals, d.station, d)
    shift = abs(d.steps) * residuals.grid.step
    by = duration(shift) if residuals.grid.dated else number(shift)
    evidence = (
        f"Its {what} fit the other "
        f"stations better by {d.ratio:.1f} standard deviations if its clock is {by} {'ahead' if d.steps > 0 else 'behind'}."
    )
    off = abs(_shift(residuals, d.station, slice(None), d.size))
    return Finding(d.station, "clock", d.ratio, columns, Flag.SUSPECT, evidence, np.zeros(columns.size), off)


def _swapped(residuals: Residuals, e: SwappedPair, equals: list[SwappedPair], words: str = "") -> list[Finding]:
    findings = []
    names = residuals.names
    instead = "".join(f" To exchange {names[o.first]} and {names[o.second]} instead fits by {o.ratio:.1f}." for o in equals)
    flag = Flag.BAD if e.ratio >= CERTAIN and not (equals or words) else Flag.SUSPECT
    for station, partner in ((e.first, e.second), (e.second, e.first)):
        columns, what = _columns(residuals, station, e)
        if columns.size == 0:
            continue
        evidence = words.format(what, names[partner]) or (
            f"Its {what} fit better by {e.ratio:.1f} standard deviations if exchanged with those of {names[partner]}.{instead}"
        )
        findings.append(Finding(station, "swapped", e.ratio, columns, flag, evidence, np.full(columns.size, WEIGHT * e.ratio)))
    return findings


def _drift(residuals: Residuals, seen: Others, error: Lasting) -> Finding:
    columns, _ = _columns(residuals, error.station, error)
    # a height in the model's unit is as many in that of the readings as these say: those at the end of a ramp
    there = columns if error.shape == "box" else columns[-max(columns.size // 4, 1) :]
    at = float(np.median(residuals.model.to_unit(residuals.readings[[error.station]][:, there])))
    shift = float(np.diff(residuals.model.to_readings(np.array([at - error.height, at])))[0])
    side = "above" if shift > 0 else "below"
    when = span(*residuals.grid.values[columns[[0, -1]]])
    size = f"{number(abs(shift))} {side} the prediction from the other stations"
    verb = "move to" if error.shape == "ramp" else "are"
    evidence = f"Its readings {verb} {size}, {when}: {error.ratio:.1f} standard deviations."
    rows = residuals.grid.rows[columns] - error.start
    right, std = _undone(residuals, error.station, columns, error.course[rows], error.std[rows])
    finding = Finding(
        error.station, "drift", error.ratio, columns, Flag.SUSPECT, evidence, np.zeros(columns.size), abs(shift), right, std
    )
    readings = int(np.isfinite(residuals.readings[error.station]).sum())
    throughout = columns.size == readings
    # what moves away step by step was right before; of a step, levels alone say which side is wrong
    enough = -KNOWN if error.shape == "ramp" and 2 * columns.size < readings else KNOWN
    if _returned(seen, error) or odds_of_levels(residuals, seen, error) > enough:
        return finding
    which = "whether the first or the last of them" if throughout else "that these readings, and not the others,"
    unknown = f"{evidence} They are not to be corrected: nothing says {which} are wrong."
    return replace(finding, evidence=unknown, corrected=None, corrected_std=None)


def _returned(seen: Others, error: Lasting) -> bool:
    """Whether a station reads after an error as it did before: then what is between is wrong."""
    own, there = seen.residual[:, error.station], seen.observed[:, error.station]
    before, after = (own[part][there[part]] for part in (slice(error.start), slice(error.stop, None)))
    enough = min(before.size, after.size) >= FEWEST
    return enough and bool(2 * abs(np.median(after) - np.median(before)) < abs(error.height))
