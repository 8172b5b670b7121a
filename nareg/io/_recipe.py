"""What the columns of a network's tables mean, where the tables do not say it themselves."""

from __future__ import annotations

import json
import os
import re
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from nareg._storage.files import atomic_write
from nareg.errors import InputError
from nareg.io._clock_change import known_zone
from nareg.io._directions import KINDS
from nareg.io._grid import in_seconds
from nareg.io._notes import NoReadings, listed
from nareg.io._vocabulary import BRACKETS, loose

#: Above every recipe that is written.
TITLE = "# What the columns of a network's tables mean, for nareg clean --recipe. Delete a line to have it guessed.\n"
#: A kind, alone or after the quantity that it is of.
KIND_OF = re.compile(rf"(?:(?P<whose>.*\S)\s*[:=]\s*)?(?P<kind>auto|{'|'.join(KINDS)})\s*")


#: Orders of dates such as 3/4/2024.
DATES = ("day-first", "month-first")


class TableHeader(Protocol):
    """A table of which the names of the columns are known."""

    source: str
    header: list[str]


@dataclass(frozen=True)
class Recipe:
    r"""Columns by their names, and what else a table does not say. Nothing that is named here is guessed.

    Attributes
    ----------
    station : tuple of str
        Column of the station names: of the table of stations, and of a long table of readings where it differs there.
    time : tuple of str
        Columns that make up the times: one, date and time of day, or year, month, day, hour and so on.
    value : str, optional
        Column of the readings where a table has several; or a kind of readings, such as ``"no2"``, that a column
        ``parameter`` names.
    latitude, longitude, altitude : str, optional
        Columns of the positions. Coordinates in the plane are ``x`` and ``y`` of the table.
    covariates : tuple of str
        Further columns of the table of stations, such as distances from the coast, that means and cycles may follow.
    series : tuple of str
        Files of what all stations share over time, such as a reanalysis: a time and a column per series. Or with a value per
        station and time.
    kind : tuple of str, or mapping
        What the quantity is, ``"number"``, ``"nonnegative"``, ``"bounded"`` (0 to 100) or ``"direction"``. Or of one of
        several, such as ``"wind direction: direction"``. Readings of one step are averaged so. Default: directions are
        recognized.
    missing : tuple of str
        Cells that mean that there is no reading, beside the usual ones, such as ``"-99"`` or ``"M"``.
    zone : str, optional
        Time zone of times without an offset, such as ``"Europe/Brussels"`` or ``"+01:00"``. They become UTC.
    dates : str, optional
        Whether 3/4/2024 is a day of April, ``"day-first"``, or of March, ``"month-first"``. Default: what the dates show, or
        the more regular steps.
    step : str, optional
        Time from one reading to the next, such as ``"10min"``: readings are taken at the nearest. ``"none"`` keeps every time.
        Default: a common step is taken where stations read at nearly the same times, but never at the same.
    start : str, optional
        Time of the first row of a table without times, such as ``"2012-03-01"``; ``step`` is the time to the next. The table
        needs no header: its columns are then numbered from 1.
    header : str, optional
        Names of the columns of files without a header, such as ``"time,A,B"``. A file keeps a header of its own.
    decimal : str, optional
        Decimal mark, ``","`` or ``"."``: the other one separates thousands. Default: whatever all numbers can be.
    flag : str, optional
        Column that marks the quality of the readings, where its name does not say so.
    bad : tuple of str
        Marks of bad readings there, such as ``"4"`` or ``"E"``; or behind the numbers, such as ``"*"`` of ``12.3*``. Default:
        QARTOD codes, and words such as ``"bad"``, are known.
    use_flags : bool, optional
        True leaves out all readings with a mark that is not known as good, False none. Default: those whose mark is known
        as bad.
    query : str, optional
        What to read of an SQLite or DuckDB file, such as ``"select time, station, value from t"``. Default: its only table.
    crs : str, optional
        Reference system of ``x`` and ``y``, such as ``"EPSG:28992"``. They become latitude and longitude (needs pyproj).
    quality : mapping, optional
        The table ``[quality]``: rules of the checks, as in :class:`nareg.quality.Rules`.

    Examples
    --------
    >>> import pathlib, tempfile, nareg
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "readings.csv"
    >>> _ = path.write_text("Meetpunt,Datum,Uur,Temperatuur,Vocht\nA,2024-01-31,10:00,3.5,80\nB,2024-01-31,10:00,M,81\n")
    >>> recipe = Recipe(station=("Meetpunt",), time=("Datum", "Uur"), value="Temperatuur", missing=("M",))
    >>> nareg.io.read_readings(path, recipe=recipe).values
    array([[3.5],
           [nan]])
    """

    station: tuple[str, ...] = ()
    time: tuple[str, ...] = ()
    value: str | None = None
    latitude: str | None = None
    longitude: str | None = None
    altitude: str | None = None
    covariates: tuple[str, ...] = ()
    series: tuple[str, ...] = ()
    kind: tuple[str, ...] = ()
    missing: tuple[str, ...] = ()
    zone: str | None = None
    dates: str | None = None
    step: str | None = None
    start: str | None = None
    header: str | None = None
    decimal: str | None = None
    flag: str | None = None
    bad: tuple[str, ...] = ()
    use_flags: bool | None = None
    query: str | None = None
    crs: str | None = None
    quality: Mapping[str, Any] | None = field(default=None, hash=False)

    def __post_init__(self) -> None:
        for entry in fields(self):
            value = getattr(self, entry.name)
            if entry.name == "use_flags":
                if value not in (None, True, False):
                    raise InputError(f"use_flags is {value!r}: pass true or false.")
            elif entry.name == "quality":
                if value is not None and not isinstance(value, Mapping):
                    raise InputError(f"quality is {value!r}: write a table [quality] with its entries.")
            elif entry.name in ("station", "time", "covariates", "series", "kind", "missing", "bad"):
                if entry.name == "kind" and isinstance(value, Mapping):
                    value = [f"{name}: {kind}" for name, kind in value.items()]
                names = (value,) if isinstance(value, str) else tuple(value)
                if not all(isinstance(name, str) for name in names):
                    raise InputError(f"{entry.name} is {value!r}: pass names in quotes.")
                object.__setattr__(self, entry.name, names)
            elif value is not None and not isinstance(value, str):
                raise InputError(f"{entry.name} is {value!r}: pass the name of a column, or another text in quotes.")
        for text in self.kind:
            if KIND_OF.fullmatch(text) is None:
                raise InputError(f"kind is {text!r}: pass {', '.join(KINDS)}, or a quantity's, such as 'rain: nonnegative'.")
        if self.decimal not in (None, ".", ","):
            raise InputError(f"decimal is {self.decimal!r}: pass ',' or '.'.")
        if self.dates not in (None, *DATES):
            raise InputError(f"dates is {self.dates!r}: pass {' or '.join(map(repr, DATES))}.")
        if self.zone is not None:
            known_zone(self.zone)
        if self.step not in (None, "auto", "none"):
            in_seconds(self.step)
        if self.bad and self.use_flags is False:
            raise InputError(f"bad is {list(self.bad)}, but use_flags is False: omit one of them.")
        if self.start is not None and self.step in (None, "auto", "none"):
            raise InputError(f"start is {self.start!r}, but no step is given: pass the time between rows, too, such as '5min'.")

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Recipe:
        """Read a recipe that :meth:`save` or ``nareg inspect`` wrote, or that was written by hand (TOML).

        Parameters
        ----------
        path : path
            The file.

        Returns
        -------
        Recipe

        Raises
        ------
        InputError
            If the file is no recipe; the message names the entry.
        """
        try:
            entries = tomllib.loads(Path(path).read_text(encoding="utf-8"))
        except OSError as error:
            raise InputError(f"{path} cannot be read: {error.strerror or error}.") from None
        except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
            raise InputError(f"{path} is no recipe (TOML): {error}.") from None
        known = [entry.name for entry in fields(cls)]
        for name in entries:
            if name not in known:
                raise InputError(f"{path}: {name!r} is no entry of a recipe: it may have {', '.join(known)}.")
        try:
            return cls(**entries)
        except (InputError, TypeError) as error:
            raise InputError(f"{path}: {str(error).rstrip('.')}.") from None

    def save(self, path: str | os.PathLike[str], comments: Mapping[str, str] | None = None) -> None:
        """Write the recipe, whole or not at all.

        Parameters
        ----------
        path : path
            Ends in ``.toml``.
        comments : mapping of str to str, optional
            A remark for each entry, such as why it was guessed.
        """
        remarks = comments or {}
        lines = [
            f"{entry.name} = {json.dumps(value, ensure_ascii=False)}"
            + (f"  # {remarks[entry.name]}" if entry.name in remarks else "")
            for entry in fields(self)
            if entry.name != "quality" and (value := getattr(self, entry.name)) not in (None, ())
        ]
        if self.quality:
            lines += [
                "",
                "[quality]",
                *(f"{name} = {json.dumps(value, ensure_ascii=False)}" for name, value in self.quality.items()),
            ]
        with atomic_write(path) as handle:
            handle.write((TITLE + "\n".join(lines) + "\n").encode())

    def columns(self, role: str, table: TableHeader) -> tuple[int, ...]:
        """The columns of a table that have a role, in the recipe's order; none where it names none."""
        named = getattr(self, role)
        names: Sequence[str] = (named,) if isinstance(named, str) else named or ()
        if role == "value":  # PM2.5 may stand as PM2.5 (µg/m³)
            bare = [BRACKETS.sub("", column) for column in table.header]
            names = [
                table.header[bare.index(name)] if name not in table.header and bare.count(name) == 1 else name for name in names
            ]
        for name in names:
            if name not in table.header:
                raise (NoReadings if role == "value" else InputError)(
                    f"{table.source}: {role} is {name!r}, but there is no such column: it has {listed(table.header, 12)}."
                )
            if role == "value" and list(table.header).count(name) > 1:
                raise InputError(
                    f"{table.source}: value is {name!r}, but this column appears twice: give each a name of its own."
                )
        return tuple(table.header.index(name) for name in names)

    def column(self, role: str, table: TableHeader) -> int | None:
        """The column of a table that has a role; None where the recipe names none."""
        return next(iter(self.columns(role, table)), None)

    def station_column(self, table: TableHeader) -> int | None:
        """The column of station names: the first of those named that the table has; None where none is named."""
        there = [name for name in self.station if name in table.header]
        if self.station and not there:
            replace(self, station=self.station[:1]).columns("station", table)
        return table.header.index(there[0]) if there else None

    def kind_of(self, names: Iterable[str | None]) -> str | None:
        """What a quantity with some names is: as said of it, or of any; None where nothing is said, or ``"auto"``."""
        own = {form for name in names if name for form in (loose(name), loose(BRACKETS.sub("", name)))}
        said = {match["whose"]: match["kind"] for match in map(KIND_OF.fullmatch, self.kind) if match}
        mine = [kind for whose, kind in said.items() if whose is not None and loose(whose) in own]
        kind = mine[-1] if mine else said.get(None)
        return None if kind == "auto" else kind

    def other_kinds(self, names: Sequence[str]) -> list[str]:
        """Entries of ``kind`` about quantities that have none of some names."""
        whose = {text: match["whose"] for text in self.kind if (match := KIND_OF.fullmatch(text)) and match["whose"]}
        return [text for text, own in whose.items() if not replace(self, kind=(f"{own}: {KINDS[0]}",)).kind_of(names)]

    @property
    def words(self) -> frozenset[str]:
        """Cells that mean missing, in lower case."""
        return frozenset(word.strip().lower() for word in self.missing)

    def remove_codes(self, values: np.ndarray) -> int:
        """Set to NaN, in place, the numbers that mean missing; how many."""
        codes = [float(word) for word in self.missing if re.fullmatch(r"\s*[+-]?\d+(\.\d*)?(e[+-]?\d+)?\s*", word.lower())]
        coded = np.isin(values, codes)
        values[coded] = np.nan
        return int(coded.sum())
