"""Results of quality control: flags of readings, findings of single tests, suspect stations, and words of their evidence."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from enum import IntEnum

import numpy as np

from nareg._core.arrays import briefly_shown


class Flag(IntEnum):
    """Flag of a reading, with the codes of QARTOD (UNKNOWN: not evaluated).

    Examples
    --------
    >>> from nareg.quality import Flag
    >>> [f"{flag.value} {flag.name}" for flag in Flag]
    ['1 GOOD', '2 UNKNOWN', '3 SUSPECT', '4 BAD', '9 MISSING']
    """

    GOOD = 1
    UNKNOWN = 2
    SUSPECT = 3
    BAD = 4
    MISSING = 9


#: Kinds of suspects, worst first.
KINDS = ("dead", "stuck", "range", "unit", "level", "gain", "sunlit", "clock", "swapped", "drift", "spikes", "noisy")
#: Those of all quantities: at a road, too, dirty hours are unlike those of all other stations, and no fault.
USUAL = tuple(kind for kind in KINDS if kind != "sunlit")


@briefly_shown
@dataclass(frozen=True)
class Suspect:
    """A station that looks faulty, with the evidence.

    Attributes
    ----------
    station : int
        Index of the station.
    name : str
        Name of the station in the graph, or its index as text.
    kind : str
        ``"dead"``, ``"stuck"``, ``"range"``, ``"unit"``, ``"level"``, ``"gain"`` (beside a reference), ``"sunlit"``,
        ``"clock"``, ``"swapped"``, ``"drift"``, ``"spikes"`` or ``"noisy"``.
    score : float
        In robust standard deviations, comparable between kinds; infinite for a dead station, and readings beyond a range.
    start, stop : time
        First and last time of the fault, in UTC where the readings' times have a zone.
    evidence : str
        One sentence.
    size : float
        How far a drifting station, or one with a wrong clock, is off, in the unit of the readings; NaN for other faults.
    columns : int array
        Which of the station's readings these are.
    corrected, corrected_std : arrays or None
        These readings without the error of the sensor, and the standard deviation of the correction; None where it has none.
    shared : bool
        Whether the whole network has the fault, as where its logger stands still.
    """

    station: int
    name: str
    kind: str
    score: float
    start: np.datetime64 | float
    stop: np.datetime64 | float
    evidence: str
    size: float = math.nan
    columns: np.ndarray = field(default_factory=lambda: np.zeros(0, dtype=int), repr=False, compare=False)
    corrected: np.ndarray | None = field(default=None, repr=False, compare=False)
    corrected_std: np.ndarray | None = field(default=None, repr=False, compare=False)
    shared: bool = False


def events(suspects: Iterable[Suspect]) -> tuple[Suspect, ...]:
    """One suspect per station and kind of fault, the longest first; it has the evidence of the longest finding.

    What all stations share is one.
    """
    groups: dict[tuple[int | str, str], list[Suspect]] = {}
    for suspect in suspects:
        groups.setdefault((suspect.evidence if suspect.shared else suspect.station, suspect.kind), []).append(suspect)
    for same in groups.values():
        same.sort(key=_length, reverse=True)
    return tuple(_event(same) for same in sorted(groups.values(), key=lambda same: _length(same[0]), reverse=True))


def _length(suspect: Suspect) -> float:
    """Seconds, or the unit of times that are numbers."""
    length = np.subtract(suspect.stop, suspect.start)
    return float(length / np.timedelta64(1, "s") if isinstance(length, np.timedelta64) else length)


def _event(same: list[Suspect]) -> Suspect:
    if same[0].shared:
        return replace(same[0], name=f"{same[0].name} and {len(same) - 1} more")
    more = f" {len(same) - 1} more like it." if len(same) > 1 else ""
    return replace(
        same[0],
        score=max(s.score for s in same),
        start=min(s.start for s in same),
        stop=max(s.stop for s in same),
        evidence=same[0].evidence + more,
    )


@briefly_shown
@dataclass(frozen=True, eq=False)
class Quality:
    """Flags and scores of readings, and the stations that look faulty.

    Attributes
    ----------
    flags : (N, T) int8 array
        Codes of :class:`Flag`.
    scores : (N, T) array
        Reading minus its prediction from all others, in robust standard deviations; NaN where it is missing.
    badness : (N, T) array
        Largest score over all tests, in standard deviations; NaN where the reading is missing.
    suspects : tuple of Suspect
        Largest score first.
    times : (T,) array
    dismissed : tuple of Suspect
        Findings that the :class:`Rules` dismiss.
    timings : dict of seconds
        ``"total"``.
    """

    flags: np.ndarray
    scores: np.ndarray
    badness: np.ndarray
    suspects: tuple[Suspect, ...]
    times: np.ndarray
    dismissed: tuple[Suspect, ...] = ()
    timings: dict[str, float] = field(default_factory=dict, repr=False)

    def count(self, flag: Flag) -> int:
        """Number of readings with a flag."""
        return int((self.flags == flag).sum())

    def summary(self) -> str:
        """Counts of the flags, and one line per suspect station and kind of fault, the longest fault first."""
        counts = ", ".join(f"{self.count(flag):,} {flag.name.lower()}" for flag in Flag if self.count(flag))
        lines = [f"{self.flags.size:,} readings: {counts}"]
        if not self.suspects:
            lines.append("no suspect stations")
        lines += [f"  {suspect.name}, {suspect.kind}: {suspect.evidence}" for suspect in events(self.suspects)]
        lines += [f"  dismissed {suspect.name}, {suspect.kind}: {suspect.evidence}" for suspect in events(self.dismissed)]
        return "\n".join(lines)


@dataclass(frozen=True, eq=False)
class Finding:
    """Readings of one station that failed a test.

    Attributes
    ----------
    station : int
    kind : str
    score : float
        In standard deviations.
    columns : int array
        Columns of the readings, one per time.
    flag : Flag
    evidence : str
    level : array or float
        Badness of each of these readings; default the score.
    size : float
        How far off they are, in the unit of the readings; NaN where that is not one number.
    corrected, corrected_std : arrays or None
    shared : bool
        As in :class:`Suspect`.
    """

    station: int
    kind: str
    score: float
    columns: np.ndarray
    flag: Flag
    evidence: str
    level: np.ndarray | None = None
    size: float = math.nan
    corrected: np.ndarray | None = None
    corrected_std: np.ndarray | None = None
    shared: bool = False

    def suspect(self, names: tuple[str, ...], times: np.ndarray) -> Suspect:
        """The finding with the station's name and dates, as a user gets it."""
        first, last = (times[self.columns[k]] for k in (0, -1))
        return Suspect(
            self.station, names[self.station], self.kind, float(self.score), first, last, self.evidence, self.size,
            self.columns, self.corrected, self.corrected_std, self.shared,
        )  # fmt: skip


@dataclass(frozen=True)
class Fault:
    """A fault of a station from row ``start`` up to ``stop`` of the grid, by ``ratio`` standard deviations."""

    station: int
    start: int
    stop: int
    ratio: float


def number(value: float) -> str:
    """Three digits, without an exponent where that is short; ``-0`` is ``0``."""
    text = f"{value:.3g}"
    if "e" in text and 1e-4 <= abs(value) < 1e6:
        text = f"{value:.0f}"
    return text if float(text) else "0"


def time(value: np.datetime64 | float) -> str:
    """A date to the minute, or a number."""
    if isinstance(value, np.datetime64):
        minutes = np.datetime_as_string(value, unit="m").replace("T", " ")
        return minutes.removesuffix(" 00:00")
    return number(float(value)) if float(value) % 1 else f"{float(value):.0f}"


def span(start: np.datetime64 | float, stop: np.datetime64 | float) -> str:
    """``from A to B``, or ``at A``."""
    first, last = time(start), time(stop)
    return f"at {first}" if first == last else f"from {first} to {last}"


def duration(seconds: float) -> str:
    """``6 h``, ``90 min``, ``1 day``, in the largest unit of which it is a whole number."""
    for unit, size in (("day", 86_400), ("h", 3_600), ("min", 60)):
        if seconds >= size and seconds % size == 0:
            return f"{seconds / size:.0f} {unit}"
    return f"{number(seconds)} s"
