"""What a user decides of the checks: which are made, how clear a finding must be, and which findings are no faults."""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, fields, replace
from typing import Any, Literal, TypeAlias

import numpy as np

from nareg._core import checks
from nareg.errors import InputError
from nareg.quality._results import KINDS, USUAL, Finding

#: What follows the station in a dismissal.
DISMISSAL = re.compile(r"(?P<kind>\w+)?(?:\s*\bfrom\s+(?P<start>\S.*?))?(?:\s*\bto\s+(?P<stop>\S.*))?")
#: A range of readings, of a station, a quantity or of any.
RANGE = re.compile(r"\s*(?:(?P<whose>.*\S)\s*:)?\s*(?P<low>[-+]?[\d.]\S*)?\s*to\s*(?P<high>[-+]?[\d.]\S*)?\s*")
#: Faults that a station of known quality has as well.
PLAIN = ("dead", "stuck", "range")
FlagScheme: TypeAlias = Literal["qartod", "labels", "binary"]


@dataclass(frozen=True)
class Rules:
    """Rules of the checks, as in the table ``[quality]`` of a recipe.

    Attributes
    ----------
    checks : tuple of str
        Kinds of faults that are looked for, as in :class:`Suspect`. Default: all but ``"sunlit"``, which :func:`nareg.clean`
        looks for where the unit is one of temperatures.
    threshold : float
        Findings of a lower score are left out. Every check has a limit of its own, which a lower threshold does not change.
    dismiss : tuple of str
        Findings that are no faults: ``"Vernal"``, ``"Vernal: drift"`` or ``"Vernal: drift from 2025-05-01 to 2025-06-30"``,
        in UTC unless times have an offset. What is found at that station for mostly these times is listed apart, and its
        readings are not flagged for it.
    ranges : tuple of str
        What sensors can read: ``"-30 to 50"``, ``"0 to"``, or of a station ``"Vernal: -30 to 50"``, or of one of the quantities
        that :func:`nareg.clean` is given. Readings beyond are bad (4), and nothing is learned from them.
    reference : tuple of str
        Stations of known quality, such as a monitor that is calibrated: only dead, stuck and out of range are faults there.
        Sensors beside one, up to 100 m away or at the same place of a plane, are compared with it.
    correct : bool
        :func:`nareg.clean` uses the corrected readings of sensors that drift, are off, have a wrong unit, or stand beside a
        reference and read otherwise.
    flags : {"qartod", "labels", "binary"}
        What is written for the flags of readings: codes, words such as ``"stuck outlier"``, or 1 for what is suspect or bad.

    Notes
    -----
    Estimates use the readings of dismissed findings. Only the fit of the model's parameters leaves out what is stuck or absurd.

    Examples
    --------
    >>> import numpy as np, nareg
    >>> rng = np.random.default_rng(0)
    >>> g = nareg.graphs.grid((3, 3))
    >>> readings = np.cumsum(0.1 * rng.standard_normal(200)) + 0.5 * rng.standard_normal((9, 200))
    >>> readings[4, 100:130] = readings[4, 100]
    >>> model = nareg.spacetime.fit(g, readings, rng=rng)
    >>> print(nareg.quality.check(model, rules=nareg.quality.Rules(dismiss="4: stuck")).summary())
    1,800 readings: 1,800 good
    no suspect stations
      dismissed 4, stuck: It reads ... at 30 times in a row, from 100 to 129.
    """

    checks: tuple[str, ...] = USUAL
    threshold: float = 0.0
    dismiss: tuple[str, ...] = ()
    ranges: tuple[str, ...] = ()
    reference: tuple[str, ...] = ()
    correct: bool = False
    flags: FlagScheme = "qartod"

    def __post_init__(self) -> None:
        for name in ("checks", "dismiss", "ranges", "reference"):
            value = getattr(self, name)
            entries = (value,) if isinstance(value, str) else tuple(value) if isinstance(value, Iterable) else (value,)
            if not all(isinstance(entry, str) for entry in entries):
                raise InputError(f"quality has {name} = {value!r}: pass texts in quotes.")
            object.__setattr__(self, name, entries)
        for kind in self.checks:
            checks.choice("quality.checks", kind, KINDS)
        for text in self.ranges:
            _range_of(text)
        checks.number("quality.threshold", self.threshold, low=0)
        if not isinstance(self.correct, bool):
            raise InputError(f"quality has correct = {self.correct!r}: pass true or false.")
        checks.choice("quality.flags", self.flags, ("qartod", "labels", "binary"))

    @classmethod
    def of(cls, value: Rules | Mapping[str, Any] | None) -> Rules:
        """Rules from a table of a recipe, or as they are.

        Parameters
        ----------
        value : Rules, mapping or None

        Returns
        -------
        Rules
        """
        if value is None or isinstance(value, cls):
            return value or cls()
        if not isinstance(value, Mapping):
            raise InputError(f"quality is {value!r}: pass nareg.quality.Rules, or a mapping.")
        known = [field.name for field in fields(cls)]
        for name in value:
            if name not in known:
                raise InputError(f"quality has no entry {name!r}: it may have {', '.join(known)}.")
        return cls(**value)


@dataclass(frozen=True, eq=False)
class Dismissal:
    """An entry of ``dismiss`` for a network: a station, at some of its times (T,), and a kind, or None for all."""

    text: str
    station: int
    kind: str | None
    during: np.ndarray

    def covers(self, finding: Finding) -> bool:
        """Whether it is about a finding."""
        same = finding.station == self.station and self.kind in (None, finding.kind)
        return same and bool(finding.columns.size) and 2 * int(self.during[finding.columns].sum()) > finding.columns.size


def station_of(text: str, names: Sequence[str]) -> str | None:
    """The station that an entry of ``dismiss`` is about; None where none of the names is that."""
    return max((n for n in names if re.match(rf"\s*{re.escape(n)}\s*(:|$)", text)), key=len, default=None)


def dismissals(rules: Rules, names: Sequence[str], times: np.ndarray) -> list[Dismissal]:
    """What the rules dismiss in a network with these stations and times."""
    result = []
    for text in rules.dismiss:
        name = station_of(text, names)
        if name is None:
            raise InputError(f"quality.dismiss has {text!r}, but no station has that name: pass 'STATION' or 'STATION: KIND'.")
        rest = text.strip()[len(name) :].lstrip().removeprefix(":").strip()
        parts = DISMISSAL.fullmatch(rest)
        kind = None if parts is None else parts["kind"]
        if parts is None or kind not in (None, *KINDS):
            raise InputError(
                f"quality.dismiss has {text!r}: pass 'STATION: KIND', or 'STATION: KIND from DATE to DATE', with a kind of "
                f"{', '.join(KINDS)}."
            )
        during = np.ones(len(times), dtype=bool)
        if parts["start"]:
            during &= times >= _time(parts["start"], times, text)
        if parts["stop"]:
            stop = _time(parts["stop"], times, text)
            during &= times < stop + 1 if times.dtype.kind == "M" else times <= stop  # a day or a minute lasts to its end
            if parts["start"] and not _time(parts["start"], times, text) <= stop:
                raise InputError(f"quality.dismiss has {text!r}, which ends before it begins: exchange the times.")
        result.append(Dismissal(text, list(names).index(name), kind, during))
    return result


def references(rules: Rules, names: Sequence[str]) -> list[int]:
    """The stations of known quality."""
    for name in rules.reference:
        if name not in names:
            raise InputError(f"quality.reference has {name!r}, but no station has that name: pass names of stations.")
    return [list(names).index(name) for name in dict.fromkeys(rules.reference)]


def _time(text: str, times: np.ndarray, entry: str) -> Any:
    try:
        if text.strip()[0] not in "0123456789-+.":  # "now" is another time tomorrow, and "NaT" none
            raise ValueError
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # numpy takes an offset away, as it should
            return np.datetime64(text.strip()) if times.dtype.kind == "M" else float(text)
    except ValueError:
        raise InputError(
            f"quality.dismiss has {entry!r}, of which {text.strip()!r} is no time: pass times as 2025-05-01 or "
            "2025-05-01 10:30, or numbers where the readings have these."
        ) from None


def _range_of(text: str) -> tuple[str | None, float, float]:
    """Whose range it is, or None, and both ends."""
    parts = RANGE.fullmatch(text)
    if parts is not None:
        with suppress(ValueError):
            low, high = float(parts["low"] or "-inf"), float(parts["high"] or "inf")
            if low < high and (np.isfinite(low) or np.isfinite(high)):
                return parts["whose"], low, high
    raise InputError(
        f"quality.ranges has {text!r}: pass a lower and an upper end, as '-30 to 50', '0 to' or 'STATION: -30 to 50'."
    )


def of_quantity(rules: Rules, quantity: Sequence[str], names: Sequence[str]) -> tuple[Rules, list[str]]:
    """Rules with the ranges of a quantity with some names, or of its stations, and those of any; and the other ranges."""
    own, others = [], []
    for text in rules.ranges:
        whose = _range_of(text)[0]
        if whose is None or whose in names:
            own.append(text)
        elif whose.casefold() in {name.casefold() for name in quantity}:
            own.append(text.rpartition(":")[2].strip())
        else:
            others.append(text)
    return replace(rules, ranges=tuple(own)), others


def beyond(rules: Rules, names: Sequence[str], y: np.ndarray) -> np.ndarray:
    """True for readings (N, T) that are not inside the ranges."""
    result = np.zeros(y.shape, dtype=bool)
    for text in rules.ranges:
        station, low, high = _range_of(text)
        if station not in (None, *names):
            raise InputError(f"quality.ranges has {text!r}, but no station has that name: pass 'STATION: LOW to HIGH'.")
        rows = slice(None) if station is None else [list(names).index(station)]
        result[rows] |= (y[rows] < low) | (y[rows] > high)
    return result


def muted(rules: Rules, names: Sequence[str], times: np.ndarray, kind: str) -> np.ndarray:
    """(N, T) True where readings are not flagged for a kind of fault."""
    result = np.full((len(names), len(times)), kind not in rules.checks)
    for entry in dismissals(rules, names, times):
        if entry.kind in (None, kind):
            result[entry.station] |= entry.during
    if kind not in PLAIN:
        result[references(rules, names)] = True
    return result


def judged(
    rules: Rules, findings: list[Finding], names: Sequence[str], times: np.ndarray
) -> tuple[list[Finding], list[Finding]]:
    """Findings that stand, and those that are dismissed."""
    entries = dismissals(rules, names, times)
    clear = [finding for finding in findings if finding.kind in rules.checks and not finding.score < rules.threshold]
    known = references(rules, names)
    no_faults = [
        finding for finding in clear
        if any(entry.covers(finding) for entry in entries) or (finding.station in known and finding.kind not in PLAIN)
    ]  # fmt: skip
    return [finding for finding in clear if finding not in no_faults], no_faults
