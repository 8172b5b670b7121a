"""What the rows of readings hold: quantities with their range and resolution, and the usual step of the times."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from nareg._core.arrays import MONTH, calendar_months
from nareg.io._directions import kind_of
from nareg.io._frames import Table
from nareg.io._grid import NEAR, STEPS
from nareg.io._labels import labels_of
from nareg.io._layout import Layout
from nareg.io._missing import remove_sentinels
from nareg.io._numbers import LimitCells
from nareg.io._recipe import Recipe
from nareg.io._shapes import station_in
from nareg.io._tables import Stations
from nareg.io._times import understand
from nareg.io._vocabulary import BRACKETS, KIND, loose, plain, unit_in

if TYPE_CHECKING:
    import pandas as pd

#: Differences between readings that show the resolution, a sample of so many.
SAMPLE = 20_000
#: The most frequent time from one reading to the next is the usual one from this share on.
MODE = 0.1
#: And of a station alone, whose jitter may repeat.
OWN_MODE = 0.5
#: Names that no column has.
TIMES, SITES = "\0time", "\0station"
#: Steps of a station that are within this share of the usual one are regular.
JITTER = 1e-6
#: Jitter is how far this share of a station's times are at most from its own steps.
JITTERY = 0.95


def _kinds(table: Table, layout: Layout) -> int | None:
    """The column that names the kind of each reading, where a long table has one column of readings."""
    if layout.kind is not None:
        return layout.kind[0]
    if layout.station is None or len(layout.values) != 1:
        return None
    return next((i for i in layout.extra if plain(table.header[i]) in KIND), None)


@dataclass(frozen=True)
class QuantityRows:
    """Readings (R, C) of all rows, and the time and the station of each; a wide table has a column per station.

    ``names_of`` are the names of the quantities, one for a wide table, and ``cells`` how many cells each has. ``order`` is
    that of dates such as 3/4/2024.
    """

    values: np.ndarray
    names_of: tuple[str, ...]
    stamps: np.ndarray | None
    site: np.ndarray | None
    names: tuple[str, ...]
    zone: str | None
    cells: tuple[int, ...]
    order: str | None = None

    @classmethod
    def of(cls, table: Table, layout: Layout, recipe: Recipe, name: str, placed: Stations | None) -> QuantityRows:
        import pandas as pd

        notes = table.notes
        kinds = _kinds(table, layout)
        wanted = [*layout.time, *(i for i in (layout.station, kinds, layout.zone) if i is not None)]
        loaded, values = table.load(wanted, layout.values, odd=LimitCells(() if layout.flags else recipe.bad))
        texts = dict(zip(wanted, loaded, strict=True))
        recipe.remove_codes(values)
        labels, column = labels_of(table, layout, texts, len(values), notes, recipe)
        times = understand(labels, column, table.line, notes, recipe) if column else None
        stamps, zone, order = (None, None, None) if times is None else (times.stamps, times.zone, times.order)
        if layout.station is None and not layout.single:
            series = values.T.copy()
            remove_sentinels(series, np.arange(len(series))[:, None], notes)
            names = tuple(_as_placed([table.header[i] for i in layout.values], placed))
            return cls(series.T, (name,), stamps, None, names, zone, (series.size,), order)
        if layout.station is None:
            own = np.full(len(values), station_in(table, None if placed is None else placed.names), dtype=object)
        else:
            own = texts[layout.station]
        names_of = tuple(table.header[i] for i in layout.values)
        cells = (len(values),) * len(names_of)
        if kinds is not None:
            kind, words = pd.factorize(texts[kinds])
            cells = tuple(np.bincount(kind).tolist())
            values = np.where(kind[:, None] == np.arange(len(words)), values, np.nan)
            names_of = tuple(map(str, words))
            if layout.kind is not None:
                chosen = kind == names_of.index(layout.kind[1])
                values, own, stamps = values[chosen], own[chosen], None if stamps is None else stamps[chosen]
                cells = (len(values),)
                values, names_of = values[:, [names_of.index(layout.kind[1])]], (layout.kind[1],)
        site, names = pd.factorize(own)
        spelling, names = pd.factorize(np.array(_as_placed(names, placed), dtype=object))
        site = spelling[site]
        for j in range(values.shape[1]):
            one = values[:, j].copy()
            remove_sentinels(one, site, notes)
            values[:, j] = one
        return cls(values, names_of, stamps, site, tuple(map(str, names)), zone, cells, order)

    @classmethod
    def joined(cls, parts: Sequence[QuantityRows]) -> QuantityRows:
        """Rows of several tables, with the quantities of all."""
        import pandas as pd

        frames = []
        for part in parts:
            frame = pd.DataFrame(part.values, columns=part.names_of if part.site is not None else part.names)
            frame = frame.assign(
                **{TIMES: part.stamps, SITES: None if part.site is None else np.array(part.names, dtype=object)[part.site]}
            )
            frames.append(frame if part.site is not None else frame.melt([TIMES], part.names, SITES, part.names_of[0]))
        every = pd.concat(frames, ignore_index=True)
        site, names = pd.factorize(every.pop(SITES))
        stamps = every.pop(TIMES).to_numpy()
        zones, orders = ({getattr(part, name) for part in parts} for name in ("zone", "order"))
        cells: Counter[str] = Counter()
        for part in parts:
            cells.update(dict(zip(part.names_of, part.cells, strict=True)))
        return cls(
            every.to_numpy(dtype=float), tuple(every.columns), None if stamps.dtype == object else stamps, site, tuple(names),
            zones.pop() if len(zones) == 1 else None, tuple(cells[name] for name in every.columns),
            orders.pop() if len(orders) == 1 else None,
        )  # fmt: skip

    def step(self) -> tuple[float | None, float | None]:
        """The usual time from one reading of a station to its next, and the share of those that are it."""
        if self.stamps is None or len(self.stamps) < 3:
            return None, None
        site = np.zeros(len(self.stamps), dtype=int) if self.site is None else self.site
        rows = [np.diff(np.unique(part)) for part in self._by_site(site, np.arange(len(site)), int(site.max()) + 1)]
        of_rows = self._most_frequent(rows)
        # stations, or quantities in rows of their own, with times of their own
        if (self.site is None and (of_rows[1] or 0.0) < OWN_MODE) or (self.site is not None and self._apart):
            return self._most_frequent([np.diff(own) for own in self._own_times().values()])
        return of_rows

    @property
    def _apart(self) -> bool:
        """Whether each row has one of several quantities."""
        return self.values.shape[1] > 1 and bool((np.isfinite(self.values).sum(axis=1) <= 1).all())

    def _most_frequent(self, each: Sequence[np.ndarray]) -> tuple[float | None, float | None]:
        gaps = np.concatenate([np.empty(0), *each])
        if not gaps.size:
            return None, None
        usual = _usual(gaps, dated=self._dated)
        return usual, float(np.mean(np.abs(gaps - usual) <= JITTER * usual))

    @property
    def _dated(self) -> bool:
        return self.stamps is not None and self.stamps.dtype.kind == "M"

    def _own_times(self) -> dict[str, np.ndarray]:
        """The times at which each station reads what it reads most, increasing; seconds, or the unit of plain numbers."""
        if self.stamps is None:
            return {}
        known = np.isfinite(self.values)
        site, row = np.nonzero(known.T)
        if self.site is not None:
            counts = np.array([np.bincount(self.site, column, len(self.names)) for column in known.T])
            row = np.flatnonzero(known[np.arange(len(known)), counts.argmax(axis=0)[self.site]])
            site = self.site[row]
        each = self._by_site(site, row, len(self.names))
        return {name: np.unique(own) for name, own in zip(self.names, each, strict=True)}

    def _by_site(self, site: np.ndarray, row: np.ndarray, number: int) -> list[np.ndarray]:
        """The times of rows, in seconds or the unit of plain numbers, of each of so many stations."""
        assert self.stamps is not None
        seconds = self.stamps.astype("datetime64[ns]").astype(np.int64) / 1e9 if self._dated else self.stamps.astype(float)
        stamps, back = np.unique(self.stamps, return_inverse=True)
        months = calendar_months(stamps) if self._dated else None
        if months is not None:
            seconds = MONTH * months[back].astype(float)
        order = np.argsort(site, kind="stable")
        return np.split(seconds[row[order]], np.searchsorted(site[order], np.arange(1, number)))

    def _by_station(self, values: np.ndarray) -> np.ndarray:
        """Readings (R, 1) as a row per station, each in the order of time, which shows how they go on."""
        assert self.site is not None
        order = np.lexsort((self.site,) if self.stamps is None else (self.stamps, self.site))
        site, counts = self.site[order], np.bincount(self.site, minlength=len(self.names))
        rows = np.full((len(counts), int(counts.max(initial=0))), np.nan)
        rows[site, np.arange(len(site)) - (np.cumsum(counts) - counts)[site]] = values[order, 0]
        return rows

    def cadences(self) -> pd.DataFrame:
        """A row per station with three readings or more at known times: its step, jitter and offset, in seconds.

        The step is the usual time from a reading to the next. The offset is the mean distance of the times from whole steps,
        and the jitter how far 95 % of them are at most from that.
        """
        import pandas as pd

        rows: dict[str, tuple[float, float, float]] = {}
        for name, own in self._own_times().items():
            if own.size < 3:
                continue
            step = _usual(np.diff(own), dated=self._dated, share=OWN_MODE)
            turns = np.exp(2j * np.pi * (own % step) / step)
            offset = float(np.angle(turns.mean()) % (2 * np.pi)) * step / (2 * np.pi)
            away = np.abs((own - offset + step / 2) % step - step / 2)
            rows[name] = (step, float(np.quantile(away, JITTERY)), 0.0 if step - offset < JITTER * step else offset)
        return pd.DataFrame.from_dict(rows, orient="index", columns=["step", "jitter", "offset"])

    def quantities(self, unit: str | None, units: dict[str, str], source: str, recipe: Recipe) -> pd.DataFrame:
        """A row per quantity; ``unit`` is that of the only one, and the name of the ``source`` may say what it is."""
        import pandas as pd

        parts = [(self.names_of[0], unit, self.values)] if self.site is None else [
            (title, unit if len(self.names_of) == 1 else units.get(title), self.values[:, [j]])
            for j, title in enumerate(self.names_of)
        ]  # fmt: skip
        rows = {}
        for (title, stated, values), cells in zip(parts, self.cells, strict=True):
            known = np.isfinite(values)
            own = values[known]
            sites = known.any(axis=0).sum() if self.site is None else len(np.unique(self.site[known[:, 0]]))
            unit_of = stated or unit_in(title)
            kind, shown = recipe.kind_of([title, source]), "recipe"
            if kind is None:
                by_station = values.T if self.site is None else self._by_station(values)
                kind, shown = kind_of(by_station, unit_of or None, (title, source))
            rows[title] = {
                "unit": unit_of,
                "kind": kind,
                "shown_by": shown,
                "stations": int(sites),
                "readings": int(known.sum()),
                "missing": 1 - own.size / max(cells, 1),
                "low": own.min() if own.size else np.nan,
                "median": np.median(own) if own.size else np.nan,
                "high": own.max() if own.size else np.nan,
                "resolution": resolution(own),
            }
        return pd.DataFrame.from_dict(rows, orient="index")


def _usual(gaps: np.ndarray, *, dated: bool, share: float = MODE) -> float:
    """The most frequent of times between readings; where they jitter, a step that networks have, near the median."""
    spans, number = np.unique(gaps, return_counts=True)
    most = float(spans[np.argmax(number)])
    if number.max() >= share * len(gaps) or not (spans % most).any():  # multiples of it are gaps
        return most
    median = float(np.median(gaps))
    near = min(STEPS, key=lambda one: abs(np.log(median / one)))
    return float(near) if dated and abs(median / near - 1) <= NEAR else median


def _as_placed(names: Sequence[str], placed: Stations | None) -> list[str]:
    """Names as the table of stations spells them."""
    known = {} if placed is None else {loose(name): name for name in placed.names} | {name: name for name in placed.names}
    result = [known.get(name, known.get(loose(name), name)) for name in names]
    # a unit in brackets is no part of a name, where it is not what tells two of them apart
    bare = [name if name in known.values() else known.get(loose(BRACKETS.sub("", name)), name) for name in result]
    times = Counter(bare)
    return [own if times[own] == 1 else name for name, own in zip(result, bare, strict=True)]


def resolution(values: np.ndarray) -> float:
    """The largest of 10, 5, 1, .5, .1, ... that all values are multiples of; NaN where none is."""
    sample = values[:: max(1, len(values) // SAMPLE)]
    if not sample.size:
        return float("nan")
    for step in (10.0, 5.0, 1.0, 0.5, 0.1, 0.05, 0.01, 0.005, 0.001):
        parts = sample / step
        if np.all(np.abs(parts - np.rint(parts)) < 1e-6 * np.maximum(1, np.abs(parts))):
            return step
    return float("nan")
