"""The pictures of the report: map, series with bands, errors by method, calibration."""

from __future__ import annotations

import matplotlib as mpl
import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.dates import AutoDateLocator, ConciseDateFormatter
from matplotlib.figure import Figure
from matplotlib.ticker import FixedFormatter, FixedLocator, LogLocator, MultipleLocator, NullFormatter, StrMethodFormatter

from nareg import plotting
from nareg.cleaning._results import CleanedTables
from nareg.quality import Flag

#: Stations whose series are shown: suspects first, then typical ones.
SUSPECTS, TYPICAL = 4, 2
#: Times in a picture, and of these before a longer fault begins.
LONGEST, BEFORE = 500, 100
BLUE, ORANGE = plotting.OKABE_ITO[:2]


def draw(cleaned: CleanedTables) -> dict[str, Figure]:
    """Every picture that the results allow, by name."""
    pictures: dict[str, Figure] = {}
    with mpl.rc_context(plotting.STYLE):
        if cleaned.network.graph.coordinates is not None and cleaned.network.graph.coordinates.shape[1] == 2:
            pictures["map"] = station_map(cleaned)
        pictures["series"] = series(cleaned)
        if len(cleaned.errors):
            pictures["errors"] = errors(cleaned)
        if len(cleaned.coverage):
            pictures["calibration"] = calibration(cleaned)
    return pictures


def _in_unit(text: str, cleaned: CleanedTables) -> str:
    return f"{text} ({cleaned.unit})" if cleaned.unit else text


def station_map(cleaned: CleanedTables) -> Figure:
    """Stations colored by their noise, or by the spread of their readings; suspects marked and named."""
    graph = cleaned.network.graph
    values, label = _map_values(cleaned)
    figure = Figure(figsize=(8, 5.2), layout="constrained")
    axes = figure.add_subplot()
    assert graph.coordinates is not None
    plotting.network(graph, np.where(np.isfinite(values), values, np.nanmedian(values)), ax=axes, label=label, cmap="cividis")
    names = cleaned.network.readings.names
    suspects = [i for i, name in enumerate(names) if name in set(cleaned.suspects)]
    if suspects:
        places = graph.coordinates[suspects]
        x, y = (places[:, ::-1] if graph.metric == "haversine" else places).T
        axes.scatter(x, y, s=110, facecolors="none", edgecolors=ORANGE, linewidths=1.8, zorder=3, label="suspect")
        for k in _apart(x, y, axes):
            at = (x[k], y[k])
            name = names[suspects[k]]
            text = axes.annotate(name, at, xytext=(7, 5), textcoords="offset points", fontsize=8, color=ORANGE, zorder=4)
            text.set_in_layout(False)  # on a narrow map it would leave no room for the stations
        axes.legend(loc="lower center", bbox_to_anchor=(0.5, 1.0), frameon=False, fontsize=9)
    if not axes.get_xlabel():
        axes.set_xlabel("x")
        axes.set_ylabel("y")
    return figure


def _apart(x: np.ndarray, y: np.ndarray, axes: Axes) -> list[int]:
    """Points whose names do not cover each other; the table below the map has them all."""
    wide, high = 0.3 * float(np.ptp(axes.get_xlim())), 0.05 * float(np.ptp(axes.get_ylim()))
    named: list[int] = []
    for k in range(x.size):
        if all(abs(x[k] - x[j]) > wide or abs(y[k] - y[j]) > high for j in named):
            named.append(k)
    return named


def _map_values(cleaned: CleanedTables) -> tuple[np.ndarray, str]:
    if cleaned.model is not None and np.isfinite(cleaned.reading_error):
        return np.sqrt(cleaned.model.noise), _in_unit("standard deviation of the noise", cleaned)
    spread = pd.DataFrame(cleaned.network.readings.values).std(axis=1, ddof=0).to_numpy()
    return spread, _in_unit("standard deviation of the readings", cleaned)


def shown(cleaned: CleanedTables) -> list[tuple[int, str]]:
    """Stations whose series are drawn, with a word about each."""
    names = cleaned.network.readings.names
    rows = {name: i for i, name in enumerate(names)}
    chosen: dict[int, str] = {}
    if cleaned.quality is not None:
        for suspect in cleaned.quality.suspects:
            kinds = chosen.get(rows[suspect.name], "")
            if (kinds or len(chosen) < SUSPECTS) and suspect.kind not in kinds.split(", "):
                chosen[rows[suspect.name]] = f"{kinds}, {suspect.kind}" if kinds else suspect.kind
    y = cleaned.network.readings.values
    spread = np.where(np.isfinite(y).any(axis=1), cleaned.std.to_numpy().T.mean(axis=1), np.nan)
    spread[[rows[name] for name in cleaned.suspects]] = np.nan
    left = np.flatnonzero(np.isfinite(spread))
    order = left[np.argsort(np.abs(spread[left] - np.median(spread[left])), kind="stable")] if left.size else left
    chosen |= dict.fromkeys(map(int, order[:TYPICAL]), "typical")
    return list(chosen.items()) or [(0, "")]


def _window(cleaned: CleanedTables, station: int) -> slice:
    """The part of the record that is drawn: what makes a station suspect, or the latest readings of others."""
    flags = cleaned.flags.to_numpy()[:, station]
    size = flags.size
    if size <= LONGEST:
        return slice(0, size)
    fault = _fault(cleaned, station)
    if fault is None:
        seen = np.flatnonzero(flags != Flag.MISSING)
        stop = max(int(seen[-1]) + 1 if seen.size else size, LONGEST)
        return slice(stop - LONGEST, stop)
    first, last = fault
    if last - first < LONGEST:  # in the middle, with what is before and after
        start = (first + last + 1 - LONGEST) // 2
    else:  # where most of its readings are flagged; its beginning, if there are as many
        wrong = np.isin(flags, (Flag.SUSPECT, Flag.BAD))[first : last + 1]
        counts = np.convolve(wrong, np.ones(LONGEST), mode="valid")
        start = first + int(np.argmax(counts > 0.9 * counts.max())) - BEFORE
    start = min(max(start, 0), size - LONGEST)
    return slice(start, start + LONGEST)


def _fault(cleaned: CleanedTables, station: int) -> tuple[int, int] | None:
    """First and last row of what makes a station suspect, the worst where there are several."""
    if cleaned.quality is None:
        return None
    for suspect in cleaned.quality.suspects:
        if suspect.station == station:
            times = cleaned.quality.times
            rows = np.flatnonzero((times >= suspect.start) & (times <= suspect.stop))
            return (int(rows[0]), int(rows[-1])) if rows.size else None
    return None


def series(cleaned: CleanedTables) -> Figure:
    """Readings, estimate and 90 % band of a few stations."""
    stations = shown(cleaned)
    table = cleaned.network.readings
    when = table.timestamps if table.timestamps is not None else np.arange(len(table.times))
    low, high = cleaned.band(0.9)
    x, flags = cleaned.x.to_numpy().T, cleaned.flags.to_numpy().T
    figure = Figure(figsize=(9, 2.3 * len(stations) + 0.5), layout="constrained")
    grid = figure.subplots(len(stations), 1, squeeze=False)[:, 0]
    for axes, (i, word) in zip(grid, stations, strict=True):
        part = _window(cleaned, i)
        t, y, f = when[part], table.values[i, part], flags[i, part]
        axes.fill_between(t, low[i, part], high[i, part], color=BLUE, alpha=0.25, linewidth=0, label="90 % band")
        good = ~np.isin(f, (Flag.SUSPECT, Flag.BAD))
        axes.plot(t[good], y[good], ".", color="0.55", markersize=3.5, label="readings")
        axes.plot(t[f == Flag.SUSPECT], y[f == Flag.SUSPECT], "D", color=plotting.OKABE_ITO[4], markersize=4, label="suspect")
        axes.plot(t[f == Flag.BAD], y[f == Flag.BAD], "x", color=ORANGE, markersize=5, label="bad")
        line = x[i, part]
        if cleaned.kind == "direction":  # no line across the picture where it passes north
            line = np.where(np.abs(np.diff(line, prepend=line[:1])) > 180, np.nan, line)
            axes.yaxis.set_major_locator(MultipleLocator(90))
        axes.plot(t, line, color=BLUE, linewidth=1.4, label="cleaned")
        some = f" ({LONGEST} of {len(when):,} times)" if len(when) > LONGEST else ""
        axes.set_title((f"{table.names[i]}: {word}" if word else table.names[i]) + some, loc="left", fontsize=10)
        axes.set_ylabel(cleaned.unit or "reading")
        if cleaned.kind == "direction":  # the whole circle: what is just beyond north is near
            start = -180 if np.nanmin(table.values) < 0 else 0
            axes.set_ylim(start - 10, start + 370)
        else:
            _limits(axes, x[i, part], low[i, part], high[i, part], y)
        axes.margins(x=0.01)
        _time_axis(axes, t)
    handles, labels = grid[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside upper center", ncols=5, frameon=False, fontsize=9)
    if table.timestamps is None:
        grid[-1].set_xlabel("row")
    elif table.timestamps.dtype.kind != "M":
        grid[-1].set_xlabel("time")
    elif table.zone:
        grid[-1].set_xlabel(f"time ({table.zone})")
    return figure


def _limits(axes: Axes, x: np.ndarray, low: np.ndarray, high: np.ndarray, y: np.ndarray) -> None:
    """Up to three times the range of estimate and band: one absurd reading must not flatten the rest."""
    ends = np.concatenate([x, low, high])
    ends = ends[np.isfinite(ends)]
    bottom, top = (float(ends.min()), float(ends.max())) if ends.size else (0.0, 1.0)
    reach = max(top - bottom, 1e-12)
    values = y[np.isfinite(y)]
    near = values[(values > bottom - reach) & (values < top + reach)]
    if near.size:
        bottom, top = min(bottom, float(near.min())), max(top, float(near.max()))
    beyond = int(values.size - near.size)
    margin = 0.06 * max(top - bottom, 1e-12)
    axes.set_ylim(bottom - margin, top + margin)
    if beyond:
        text = f"{beyond:,} {'reading' if beyond == 1 else 'readings'} outside of the picture"
        axes.set_title(text, loc="right", fontsize=8, color=ORANGE)


def _time_axis(axes: Axes, when: np.ndarray) -> None:
    """Short dates below, and at the end what they share; where they do not, the first and the last."""
    if when.dtype.kind == "M":
        locator = AutoDateLocator()
        formatter = ConciseDateFormatter(locator)
        first, last = str(when[0]), str(when[-1])
        for level, length in zip(range(1, 6), (4, 7, 10, 10, 10), strict=True):  # year, month and day, which ticks share
            if first[:length] != last[:length]:
                formatter.offset_formats[level] = f"{first[:length]} to {last[:length]}"
        axes.xaxis.set_major_locator(locator)
        ticks = list(axes.get_xticks())  # once: a layout asks again and again
        labels = FixedFormatter(formatter.format_ticks(ticks))
        labels.set_offset_string(formatter.get_offset())
        axes.xaxis.set_major_locator(FixedLocator(ticks))
        axes.xaxis.set_major_formatter(labels)


def errors(cleaned: CleanedTables) -> Figure:
    """Root mean square error of every method at hidden single readings and in hidden gaps."""
    frame = cleaned.errors.iloc[::-1]
    place = np.arange(len(frame))
    figure = Figure(figsize=(8, 0.42 * len(frame) + 1.4), layout="constrained")
    axes = figure.add_subplot()
    best = float(np.nanmin(frame[["rmse_single", "rmse_gaps"]].to_numpy()))
    worst = float(np.nanmax(frame[["rmse_single", "rmse_gaps"]].to_numpy()))
    for key, marker, color, label in (("rmse_single", "o", BLUE, "single readings"), ("rmse_gaps", "s", ORANGE, "in gaps")):
        if frame[key].notna().any():
            axes.plot(frame[key], place, marker, color=color, markersize=7, label=label, linestyle="none")
    for y, (_, row) in zip(place, frame.iterrows(), strict=True):
        axes.plot([row["rmse_single"], row["rmse_gaps"]], [y, y], color="0.75", linewidth=1.5, zorder=1)
    if np.isfinite(cleaned.reading_error):
        axes.axvline(cleaned.reading_error, color="0.35", linestyle=(0, (1, 1)), linewidth=1.8, label="noise of the readings")
        best, worst = min(best, cleaned.reading_error), max(worst, cleaned.reading_error)
    axes.set_yticks(place, list(frame.index))
    for tick, name in zip(axes.get_yticklabels(), frame.index, strict=True):
        tick.set_fontweight("bold" if name == cleaned.method else "normal")
    if worst > 8 * best > 0:
        axes.set_xscale("log")
        axes.xaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
        axes.xaxis.set_major_formatter(StrMethodFormatter("{x:g}"))
        axes.xaxis.set_minor_formatter(NullFormatter())
    else:
        axes.set_xlim(0, 1.08 * worst or 1.0)  # constant readings have no error
    axes.set_ylim(-0.6, len(frame) - 0.4)
    axes.set_xlabel(_in_unit("root mean square error at hidden readings, their noise included", cleaned))
    axes.grid(visible=False, axis="y")
    axes.legend(fontsize=9, frameon=False, loc="lower center", bbox_to_anchor=(0.4, 1.0), ncols=3)
    return figure


def calibration(cleaned: CleanedTables) -> Figure:
    """Share of the hidden readings inside the bands, against the nominal share."""
    frame = cleaned.coverage
    count = int(cleaned.hidden.sum())
    figure = Figure(figsize=(4.8, 4.6), layout="constrained")
    axes = figure.add_subplot()
    level = np.linspace(0, 1, 101)
    error = 1.96 * np.sqrt(level * (1 - level) / max(count, 1))
    axes.fill_between(100 * level, 100 * (level - error), 100 * (level + error), color="0.85", label="chance alone (95 %)")
    axes.plot([0, 100], [0, 100], color="0.5", linewidth=1, label="exact")
    axes.plot(100 * frame["nominal"], 100 * frame["observed"], "o-", color=BLUE, label="hidden readings")
    axes.set_xlim(40, 101)
    axes.set_ylim(min(40.0, 100 * float(frame["observed"].min()) - 5), 101)
    axes.set_xlabel("nominal level of the band (%)")
    axes.set_ylabel("hidden readings inside (%)")
    axes.legend(fontsize=9, frameon=False, loc="upper left")
    return figure
