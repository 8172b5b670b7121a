"""What suspect stations mean for the estimate, and their evidence in the readings' own times."""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np

from nareg.cleaning._words import plural
from nareg.io import Readings
from nareg.quality import Flag, Quality
from nareg.quality._text import time

#: A date, with or without a time of day, as evidence has it.
DATE = re.compile(r"\d{4}-\d\d-\d\d(?: \d\d:\d\d)?")


def in_own_times(quality: Quality, readings: Readings) -> Quality:
    """The quality with evidence in the table's own times, where these have a zone: all is computed in UTC."""
    if readings.zone is None or readings.timestamps is None:
        return quality
    labels = dict(zip(map(time, readings.timestamps), readings.times, strict=True))

    def own(evidence: str) -> str:
        return DATE.sub(lambda date: labels.get(date[0], date[0]), evidence)

    return replace(quality, suspects=tuple(replace(s, evidence=own(s.evidence)) for s in quality.suspects))


#: Kinds of suspects whose readings the estimate follows.
FOLLOWED = ("drift", "clock")


def without_spikes(quality: Quality, bad: np.ndarray) -> Quality:
    """The quality without the flags of single readings, (N, T) other ones ``bad``, and without suspects for these."""
    flags = quality.flags.copy()
    flags[~bad & (flags == Flag.BAD)] = Flag.GOOD
    return replace(quality, flags=flags, suspects=tuple(s for s in quality.suspects if s.kind != "spikes"))


def doubt(quality: Quality | None, shape: tuple[int, int]) -> np.ndarray:
    """(N, T) how far a station that drifts, or has a wrong clock, is off during that time, 0 elsewhere.

    The estimate there follows its readings. Whether they or the other stations are right, readings cannot tell.
    """
    result = np.zeros(shape)
    if quality is None:
        return result
    for s in quality.suspects:
        if np.isfinite(s.size) and s.kind in FOLLOWED:
            during = (quality.times >= s.start) & (quality.times <= s.stop)
            result[s.station, during] = np.maximum(result[s.station, during], s.size)
    return result


def note(doubts: np.ndarray) -> str | None:
    """What the doubt does to the estimate, in a sentence."""
    stations = int(doubts.any(axis=1).sum())
    if not stations:
        return None
    what = "drifts or has a wrong clock" if stations == 1 else "drift or have a wrong clock"
    return (
        f"{plural(stations, 'station')} {what}: the estimate there follows the readings, and its band is as wide as they are "
        "off. To have it from the other stations instead, remove these readings and clean again."
    )
