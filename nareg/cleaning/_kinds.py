"""What a quantity is: a number, or a direction, which wraps from 360 degrees to 0."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal, TypeAlias

import numpy as np

from nareg import io
from nareg._core import checks
from nareg.cleaning._network import ReadingsLike, StationNetwork, read_known
from nareg.cleaning._words import of_temperature
from nareg.errors import InputError
from nareg.io import Readings
from nareg.quality import KINDS as FAULTS
from nareg.quality import USUAL, Rules


@dataclass(frozen=True, eq=False)
class Wind:
    """Directions of the wind, with its speed: they are cleaned as vectors of that length, as a calm has no direction.

    Parameters
    ----------
    speed : as the readings of :func:`nareg.clean`
        Speeds of the same stations. Where one is missing, the station's median speed stands for it.

    Examples
    --------
    >>> import numpy as np, pandas as pd, nareg
    >>> rng = np.random.default_rng(0)
    >>> times = pd.date_range("2024-03-05", periods=60, freq="h", name="time")
    >>> speeds = pd.DataFrame(rng.uniform(0, 5, (60, 4)), times, list("ABCD"))
    >>> directions = (20 + 60 / (1 + speeds) * rng.standard_normal((60, 4))) % 360
    >>> cleaned = nareg.clean(directions, kind=nareg.cleaning.Wind(speeds))
    >>> bool(np.cos(np.deg2rad(cleaned.x - 20)).to_numpy().mean() > 0.95)
    True
    """

    speed: ReadingsLike

    def lengths(self, network: StationNetwork) -> tuple[np.ndarray, np.ndarray, float]:
        """(N, T) speeds over their median, at the times of a network's readings; (N,) usual speeds, and the median."""
        readings = network.readings
        speeds = speeds_at(read_known(self.speed, readings.names, False, None), readings)
        known = np.isfinite(speeds) & np.isfinite(readings.values)
        if not known.any():
            raise InputError("kind has no speed where a direction is: pass speeds of the same stations and times.")
        median = float(np.median(speeds[known]))
        if not median > 0:
            raise InputError("kind has speeds of which most are 0: leave it out, or pass kind='direction'.")
        own = np.array([np.median(row[here]) if here.any() else median for row, here in zip(speeds, known, strict=True)])
        return np.where(np.isfinite(speeds), speeds, own[:, None]) / median, own, median


def speeds_at(table: Readings, readings: Readings) -> np.ndarray:
    """(N, T) speeds of a table at the times of readings of the same stations; NaN where there is none."""
    here, wanted = list(table.times), list(readings.times)
    if table.timestamps is not None and readings.timestamps is not None:  # labels may be written in another way
        here, wanted = table.timestamps.tolist(), readings.timestamps.tolist()
    at = {time: t for t, time in enumerate(here)}
    columns = np.array([at.get(time, -1) for time in wanted])
    speeds: np.ndarray = np.where(columns >= 0, table.values[:, columns], np.nan)
    known = np.isfinite(speeds) & np.isfinite(readings.values)
    if (speeds[known] < 0).any():
        raise InputError(f"kind has a speed of {speeds[known].min():g}: pass speeds of at least 0.")
    return speeds


#: What readings are; "auto" recognizes it.
OneKind: TypeAlias = Literal["auto", "number", "nonnegative", "bounded", "direction"] | Wind
#: And by the name of a quantity.
Kind: TypeAlias = OneKind | Mapping[str, OneKind]
KINDS = ("auto", *io.KINDS)
#: Bounds of kinds, where no other are given.
BOUNDS: dict[str, tuple[float | None, float | None]] = {"nonnegative": (0.0, None), "bounded": (0.0, 100.0)}
#: Standard deviation of a direction that may be any.
UNKNOWN = 360 / np.sqrt(12)


def kind_entries(kind: Kind) -> tuple[str, ...]:
    """What is said of kinds, as the entry of a recipe."""
    each = kind if isinstance(kind, Mapping) else {"": kind}
    if not isinstance(kind, Mapping) and not isinstance(kind, Wind):
        checks.choice("kind", kind, KINDS)
    words = {name: "direction" if isinstance(one, Wind) else one for name, one in each.items()}
    return tuple(f"{name}: {word}" if name else str(word) for name, word in words.items())


def kind_in(kind: Kind, quantity: Sequence[str]) -> OneKind:
    """The kind of a quantity with some names."""
    if not isinstance(kind, Mapping):
        return kind
    own = [one for name, one in kind.items() if not io.Recipe(kind=kind_entries({name: one})).other_kinds(quantity)]
    return own[-1] if own else "auto"


def unused_kinds(entries: Sequence[str], quantities: Sequence[str]) -> list[str]:
    """Notes about entries of kinds that are of none of the quantities."""
    others = io.Recipe(kind=tuple(entries)).other_kinds(quantities)
    names = " or ".join(dict.fromkeys(repr(name) for name in quantities if name)) or "without a name"
    return [f"kind has {text!r}, but the quantity is {names}: it is not used." for text in others]


def bounds_of(kind: Kind, given: tuple[float | None, float | None]) -> tuple[float | None, float | None]:
    """Bounds that are given; else those of the kind."""
    usual = BOUNDS.get(kind) if isinstance(kind, str) else None
    if usual is None or not isinstance(given, (tuple, list)) or len(given) != 2:
        return given  # refused where they are used
    return (usual[0] if given[0] is None else given[0], usual[1] if given[1] is None else given[1])


def directions(network: StationNetwork, kind: Kind, unit: str | None) -> bool:
    """Whether to clean a network's readings as directions: as asked for, or as recognized."""
    named = "direction" if isinstance(kind, Wind) else checks.choice("kind", kind, KINDS)
    values = network.readings.values
    if named == "direction":
        refuse_no_degrees(values)
        return True
    stated = network.readings.unit if unit is None else unit
    return named == "auto" and io.is_direction(values, stated, network.quantity)


def refuse_no_degrees(values: np.ndarray) -> None:
    """Refuse readings that are no directions."""
    if np.isfinite(values).any() and not io.on_circle(values):
        low, high = np.nanmin(values), np.nanmax(values)
        raise InputError(
            f"kind is direction, but readings lie from {low:g} to {high:g}: convert them to degrees from 0 to 360."
        )


def counter_note(network: StationNetwork, kind: OneKind, unit: str | None) -> str | None:
    """A note about readings that only rise; those of meters are refused, unless a user says what they are."""
    about = io.about_counters(network.readings.values, unit) if kind == "auto" else None
    if about is None or directions(network, kind, unit):
        return None
    sentence, refused = about
    if refused:
        raise InputError(sentence)
    return sentence


def refuse_tens(network: StationNetwork, kind: OneKind, unit: str | None) -> None:
    """Refuse directions in tens of degrees, unless a user says that they are numbers."""
    said = "direction" if isinstance(kind, Wind) else None if kind == "auto" else kind
    about = io.about_tens(network.readings.values, unit, network.quantity, said)
    if about is not None:
        raise InputError(about)


def components(degrees: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """East and north of the unit vector that points to each direction."""
    angle = np.deg2rad(degrees % 360)  # one number for one direction
    return np.sin(angle), np.cos(angle)


def to_degrees(east: np.ndarray, north: np.ndarray, *, signed: bool) -> np.ndarray:
    """Direction of a vector, from 0 to 360, or from -180 to 180."""
    angle = np.rad2deg(np.arctan2(east, north))
    return angle if signed else angle % 360


def turn(to: np.ndarray, from_: np.ndarray | float) -> np.ndarray:
    """The shorter turn from one direction to the other, from -180 to 180."""
    return (to - from_ + 180) % 360 - 180


def turn_std(east: np.ndarray, north: np.ndarray, std: tuple[np.ndarray, np.ndarray]) -> np.ndarray:
    """Standard deviation of a direction, in degrees, from those of a vector's components.

    That across the vector, over its length; a direction of which nothing is known has that of a uniform one.
    """
    length = np.maximum(np.hypot(east, north), 1e-12)
    across = np.hypot(north * std[0], east * std[1]) / length
    return np.minimum(np.rad2deg(across / length), UNKNOWN)


def of_component(rules: Rules) -> Rules:
    """The rules for the east or north part of directions, which no range holds for and no regression corrects."""
    checks = tuple(kind for kind in rules.checks if kind != "gain")
    return replace(rules, checks=checks, correct=False, ranges=())


def looked_for(rules: Rules, unit: str | None) -> Rules:
    """The rules; among the default checks is that of sensors in the sun where the unit is one of temperatures."""
    return replace(rules, checks=FAULTS) if rules.checks == USUAL and of_temperature(unit) else rules
