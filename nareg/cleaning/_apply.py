"""Clean further readings with a model that was learned before."""

from __future__ import annotations

import csv
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from nareg import io
from nareg._core.arrays import briefly_shown, calendar_months
from nareg.cleaning._kinds import (
    UNKNOWN,
    components,
    looked_for,
    of_component,
    refuse_no_degrees,
    speeds_at,
    to_degrees,
    turn_std,
)
from nareg.cleaning._learn import corrections, stamps
from nareg.cleaning._limits import limits, own_estimates, with_own
from nareg.cleaning._network import ReadingsLike, read_known
from nareg.cleaning._report import OWN_TIMES, TABLES, TIDY, laid_out, single_rows
from nareg.cleaning._results import at_own_times, in_scheme, rounded, written_in
from nareg.cleaning._series import read_series
from nareg.cleaning._steps import decides, frame, screen, sensor_errors
from nareg.cleaning._words import plural
from nareg.cleaning._written import cell, label_of, labeled_as, shaped, with_new, write_lines, written_lines
from nareg.errors import InputError
from nareg.io import EARLIER, KNOWN_TIME, Readings, Recipe
from nareg.progress import Progress, ProgressCallback
from nareg.quality import Flag, Rules, Suspect, beyond, check, farther, muted, of_quantity, references
from nareg.quality import beside as reference_pairs
from nareg.spacetime import DirectionModels, SpaceTimeModel, SparseSpaceTimeModel, TimeGrid

if TYPE_CHECKING:
    import pandas as pd

#: Times before the new ones that are checked and smoothed with them, where the model forgets what was earlier.
BEFORE = 1_000
#: It does where twice as many times before the new ones move no estimate by more than this share of its standard deviation.
PROBED, MOVED = 125, 1e-6


@briefly_shown
@dataclass(frozen=True, eq=False)
class Applied:
    """Readings that a model cleaned: frames with a row per new time and a column per station of the model.

    Attributes
    ----------
    x, std : DataFrame
        Estimate and standard deviation.
    flags : DataFrame
        QARTOD codes: 1 good, 2 not evaluated, 3 suspect, 4 bad, 9 missing.
    suspects, dismissed : tuples of Suspect
        Faults that last into the new times, and those that the recipe dismisses.
    notes : tuple of str
        What was guessed or left out.
    """

    x: pd.DataFrame
    std: pd.DataFrame
    flags: pd.DataFrame
    suspects: tuple[Suspect, ...]
    notes: tuple[str, ...]
    readings: Readings = field(repr=False)
    dismissed: tuple[Suspect, ...] = ()
    rules: Rules = field(default_factory=Rules, repr=False)
    zone: str | None = field(default=None, repr=False)  # of times without an offset
    known: np.ndarray | None = field(default=None, repr=False)  # the model's own times, whose rows stay
    last: tuple[np.ndarray, np.ndarray] | None = field(default=None, repr=False)  # (N,) estimate and std at the last of these
    circular: bool = field(default=False, repr=False)

    @property
    def written(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Estimates, standard deviations and flags (T, N) as tables have them."""
        return *rounded(self.x, self.std), in_scheme(self.flags, self.suspects, self.rules.flags).to_numpy()

    @property
    def own_times(self) -> pd.DataFrame:
        """A row per reading, with the estimate at its own time, as ``own_times`` of :class:`Cleaned`."""
        import pandas as pd

        table, tables = self.readings, (self.x, self.std)
        steps, flags = table.timestamps, self.written[2]
        if self.last is not None and self.known is not None and steps is not None:
            index = pd.Index(self.known[-1:])
            first = [pd.DataFrame(values[None], index, self.x.columns) for values in self.last]
            tables = tuple(pd.concat([one, part.set_axis(steps)]) for one, part in zip(first, tables, strict=True))
            steps = np.concatenate([self.known[-1:].astype(steps.dtype), steps])
        before = table if table.before is None else table.before
        return at_own_times(before, steps, *tables, flags, "direction" if self.circular else "number")

    def append(self, folder: Path) -> list[Path]:
        """Add the rows to ``clean.csv``, ``std.csv`` and ``flags.csv`` of a folder, each file whole or not at all.

        Rows of the same times are written anew, and times as those of the files are. Files that are not there are made, but for
        ``own_times.csv``, to which rows are added where it is.

        Raises
        ------
        InputError
            If a file there has other columns, flags of another scheme, or times of which no others can be written.
        """
        paths = [folder / f"{name}.csv" for name in TABLES]
        readings = shaped(self.readings, paths[0])
        header, _ = laid_out(readings, self.x.to_numpy())
        keys, rows_of = (len(TIDY), len(readings.names)) if readings.tidy else (1, 1)
        before = [written_lines(path, header, keys) for path in paths]
        labels = list(map(label_of, before[0]))
        readings = labeled_as(readings, labels, paths[0], self.zone)
        first = rows_of * self._known_in(labels[::rows_of], paths[0])
        codes = {text for row in csv.reader(before[-1]) for text in row[keys:]}
        if not written_in(set(map(cell, codes)), self.rules.flags):
            raise InputError(
                f"{paths[-1]} has other flags than {self.rules.flags!r}: pass those of its first run, as --flags or in the "
                "recipe, or name another folder with --out."
            )
        for path, lines, new in zip(paths, before, self.written, strict=True):
            later = with_new(lines[first:], list(io.as_lines(laid_out(readings, new)[1])))
            write_lines(path, header, [*lines[:first], *later])
        own = folder / OWN_TIMES
        if own.exists() and self.readings.timestamps is not None:
            write_lines(own, *self._of_own_times(own))
        return paths

    def _of_own_times(self, path: Path) -> tuple[list[str], list[str]]:
        """Header and rows of the table of readings at their own times, with the new ones."""
        table = self.own_times
        header = list(table.columns)
        lines = written_lines(path, header, len(TIDY))
        before = self.readings if self.readings.before is None else self.readings.before
        written = labeled_as(before, map(label_of, lines), path, self.zone)
        labels = dict(zip(before.times, written.times, strict=True))
        new = single_rows(table.assign(time=table["time"].map(labels)), self.std)
        return header, with_new(lines, list(io.as_lines(new)))

    def _known_in(self, labels: list[str], path: Path) -> int:
        """How many times of a table are the model's; none where it is not the table of the model.

        In autumn one of these may have the label of a new one.
        """
        if self.known is None or self.known.dtype.kind != "M" or not 0 < len(self.known) <= len(labels):
            return 0
        last = self.known[-1:].astype("datetime64[ns]")
        stamps = io.instants(labels[: len(self.known)])
        if stamps is not None and stamps.dtype.kind == "M" and stamps[-1] == last[0]:
            return len(self.known)
        one = replace(self.readings, times=(str(last[0]).removesuffix(".000000000"),), timestamps=last)
        return len(self.known) if labeled_as(one, labels, path, self.zone).times[0] == labels[len(self.known) - 1] else 0


def apply(
    model: SpaceTimeModel | SparseSpaceTimeModel | DirectionModels, readings: ReadingsLike, *,
    bounds: tuple[float | None, float | None] = (None, None), strict: bool = False, recipe: Recipe | None = None,
    speed: ReadingsLike | None = None, progress: ProgressCallback | None = None,
) -> Applied:  # fmt: skip
    """Clean readings that came after those of a model, without learning anything anew.

    Parameters
    ----------
    model : SpaceTimeModel or SparseSpaceTimeModel
        ``cleaned.model``, or what :func:`nareg.spacetime.load` reads from ``model.npz`` of ``nareg clean``. Of directions
        ``cleaned.directed``.
    readings : as in :func:`nareg.clean`
        Times up to the model's last one are left out, with a note.
    bounds : (float or None, float or None)
        As in :func:`nareg.clean`. Default: the model's.
    strict : bool
        Raise an error where the format of a table is ambiguous.
    recipe : nareg.io.Recipe, optional
        Names columns whose meaning cannot be seen; the rules of its ``quality`` hold for the new readings.
    speed : as readings, optional
        Speeds of the wind, where the model is of directions that were cleaned with theirs. Default: the column of the readings
        that ``nareg clean --speed`` named.
    progress : callable, optional
        Called with a :class:`~nareg.progress.Progress` per step.

    Returns
    -------
    Applied

    Raises
    ------
    InputError
        If the table cannot be read, or has no new time.

    Notes
    -----
    The new readings are checked and smoothed after the last 1,000 times of the model. The smoother over all times gives the
    same, unless it takes another of these readings as an outlier. Where what was earlier still matters, all are smoothed.

    Examples
    --------
    >>> import numpy as np, pandas as pd, nareg
    >>> network = nareg.datasets.simulated(6, 150, faults=(), rng=np.random.default_rng(0))
    >>> table = pd.DataFrame(network.readings.T, pd.DatetimeIndex(network.times, name="time"), network.names)
    >>> places = pd.DataFrame(network.coordinates, index=network.names, columns=["latitude", "longitude"])
    >>> cleaned = nareg.clean(table[:126], places)
    >>> nareg.cleaning.apply(cleaned.model, table[126:]).x.shape
    (24, 6)
    """
    report = progress or (lambda _: None)
    # a few new readings may not show what the model knows
    kind = "direction" if isinstance(model, DirectionModels) else "number"
    recipe = replace(recipe or Recipe(), kind=(kind,))
    if isinstance(model, DirectionModels):
        return _apply_directions(model, readings, bounds, recipe, speed, strict=strict, progress=report)
    if speed is not None:
        raise InputError("speed is given, but the model is not of directions: omit it.")
    names = model.graph.names
    if names is None:
        raise InputError("model has stations without names: readings cannot be laid beside them.")
    report(Progress("reading", fraction=0.0))
    table = read_known(readings, names, strict, recipe, model.grid)
    table, notes = _new(table, model, recipe.dates)
    _refuse_unlike(table.values, model.readings)
    assert table.timestamps is not None
    shared, guessed = read_series(recipe.series, table, recipe)
    if shared:
        model, notes = model.with_covariates(shared, table.timestamps), [*notes, *guessed]
    y = np.concatenate([np.where(model.excluded, np.nan, model.readings), table.values], axis=1)
    times = np.concatenate([model.times, table.timestamps.astype(model.times.dtype)])
    new = slice(model.readings.shape[1], None)
    part = slice(max(new.start - BEFORE, 0), None)
    rules = looked_for(Rules.of(recipe.quality), table.unit)
    rules, _ = of_quantity(rules, (table.quantity or "",), names)
    spared = partial(muted, rules, names, times[part])
    bad = screen(y[:, part], spared) | (beyond(rules, names, y[:, part]) & np.logical_not(spared("range")))
    suspects: tuple[Suspect, ...] = ()
    dismissed: tuple[Suspect, ...] = ()
    beside: tuple[Suspect, ...] = ()  # corrected by a reference
    flags = np.full(y.shape, Flag.UNKNOWN, dtype=np.int8)
    flags[:, part][bad] = Flag.BAD
    quality, begin = None, new.start - part.start
    if isinstance(model, SpaceTimeModel):
        report(Progress("checking readings", fraction=0.2))
        quality = check(
            model, y[:, part], times=times[part], rules=rules, quantity=[w for w in (table.unit, table.quantity) if w]
        )
        if rules.threshold > 0:
            bad &= quality.flags == Flag.BAD
        flags[:, part] = np.where(bad, Flag.BAD, quality.flags)
        suspects, dismissed = (
            tuple(replace(s, columns=s.columns[s.columns >= begin] - begin) for s in group if s.stop >= times[new][0])
            for group in (quality.suspects, quality.dismissed)
        )
        beside = tuple(s for s in quality.suspects if rules.correct and s.kind == "gain" and s.corrected is not None)
        right = y[:, part].copy()
        for i, j in reference_pairs(model.graph, references(rules, names), right):
            right[i, begin:] = right[j, begin:]
        right[:, :begin] = np.nan
        wrong = [
            s for s in beside
            if farther(y[s.station, part][s.columns], np.asarray(s.corrected), right[s.station, s.columns])
        ]  # fmt: skip
        notes += [f"{s.name}: new readings are not corrected, for they are nearer to the reference as they are." for s in wrong]
        y[[s.station for s in wrong], : new.start] = np.nan  # the sensor is another one
        beside = tuple(s for s in beside if s.station not in {other.station for other in wrong})
        y[[s.station for s in beside], : part.start] = np.nan  # what is corrected begins with the part
        y[:, part] = corrections(beside, y[:, part])[0]
        fresh = np.isfinite(y[:, new]).sum(axis=1)
        notes += [
            f"{s.name}: {(s.columns >= begin).sum()} of {plural(int(fresh[s.station]), 'new reading')} "
            "corrected by the reference beside it." for s in beside if fresh[s.station]
        ]  # fmt: skip
        if rules.correct and any(s.corrected is not None for s in suspects if s.kind != "gain"):
            notes.append(
                "New readings are not corrected, for a correction is not extrapolated: clean all anew to correct them."
            )
        suspects = tuple(replace(s, corrected=None, corrected_std=None) for s in suspects)
    elif rules.correct:
        notes.append("New readings are not corrected: stations of a network of this size are not checked here.")
    flags[np.isnan(y)] = Flag.MISSING
    good = np.where(flags == Flag.BAD, np.nan, y)
    drift = np.zeros(table.values.shape)
    if quality is not None:
        errors, said = sensor_errors(quality, beside, y[:, part])
        drift = errors[:, begin:]
        notes += [said] if said and drift.any() else []
    report(Progress("smoothing", fraction=0.7))
    first = part.start if _forgets(model, good, times, new.start) else 0
    ends, _ = limits(good, bounds, model.bounds)
    robust = not decides(quality, rules)
    smoothed = replace(model, bounds=ends).smooth(good[:, first:], times=times[first:], robust=robust)
    later, spread = slice(new.start - first, None), smoothed.std * smoothed.factors()
    x, std = with_own(good[:, new], smoothed.x[:, later], spread[:, later], ends, own_estimates(good, ends)[:, new])
    report(Progress("done", fraction=1.0))
    results = (x, np.hypot(std, drift), flags[:, new])
    frames = [frame(table, values) for values in results]
    return Applied(
        frames[0],
        frames[1],
        frames[2],
        suspects,
        (*table.notes, *notes),
        table,
        dismissed,
        rules,
        recipe.zone,
        model.times[: new.start],
        None if new.start == first else (smoothed.x[:, later.start - 1], spread[:, later.start - 1]),
    )


def _apply_directions(
    models: DirectionModels, readings: ReadingsLike, bounds: tuple[float | None, float | None], recipe: Recipe,
    speed: ReadingsLike | None, *, strict: bool, progress: ProgressCallback,
) -> Applied:  # fmt: skip
    """Clean directions as unit vectors, each part by its model."""
    if bounds != (None, None):
        raise InputError(f"bounds are {bounds}, but the model is of directions, which have none: omit them.")
    names = models.east.graph.names or ()
    table = _in_order(read_known(readings, names, strict, recipe, models.east.grid), models.east.grid, recipe.dates)
    refuse_no_degrees(table.values)
    rules, _ = of_quantity(Rules.of(recipe.quality), (table.quantity or "",), names)
    times = stamps(table)
    wrong = beyond(rules, names, table.values) & np.logical_not(muted(rules, names, times, "range"))
    own = replace(recipe, step="none", quality=asdict(of_component(rules)))
    lengths, said = _lengths(models, table, readings, speed, recipe, strict=strict)
    east, north = (
        apply(
            model,
            replace(table, values=np.where(wrong, np.nan, lengths * values), unit=None, notes=()),
            strict=strict,
            recipe=own,
            progress=progress,
        )
        for model, values in zip((models.east, models.north), components(table.values), strict=True)
    )
    assert table.timestamps is not None
    assert east.readings.timestamps is not None
    new = np.searchsorted(table.timestamps, east.readings.timestamps)
    x_east, x_north, std_east, std_north = (frame.to_numpy().T for frame in (east.x, north.x, east.std, north.std))
    std = np.minimum(turn_std(x_east, x_north, (std_east, std_north)) * models.stretch, UNKNOWN)
    flags = np.maximum(east.flags.to_numpy(), north.flags.to_numpy()).T
    flags[wrong[:, new]] = Flag.BAD
    read = replace(east.readings, values=table.values[:, new], unit=table.unit)
    frames = [frame(read, values) for values in (to_degrees(x_east, x_north, signed=models.signed), std, flags)]
    notes = dict.fromkeys((*table.notes, *said, *east.notes, *north.notes))
    last = None
    if east.last is not None and north.last is not None:
        (x_east, std_east), (x_north, std_north) = east.last, north.last
        spread = turn_std(x_east, x_north, (std_east, std_north)) * models.stretch
        last = to_degrees(x_east, x_north, signed=models.signed), np.minimum(spread, UNKNOWN)
    return Applied(
        frames[0], frames[1], frames[2], (), tuple(notes), read, (), rules, recipe.zone, models.east.times, last, True
    )  # fmt: skip


def _lengths(
    models: DirectionModels, table: Readings, readings: ReadingsLike, speed: ReadingsLike | None, recipe: Recipe, *,
    strict: bool,
) -> tuple[np.ndarray, list[str]]:  # fmt: skip
    """(N, T) lengths of the vectors of directions, by their speeds where the model's had any; and what is to be said."""
    if models.speeds is None:
        if speed is not None:
            raise InputError("speed is given, but the model's directions were cleaned without: omit it.")
        return np.ones(table.values.shape), []
    if speed is None and (models.speed_column is None or isinstance(readings, Readings)):
        raise InputError("the model's directions were cleaned with a speed: pass speed=, or its column as --speed.")
    column = models.speed_column if speed is None else None
    named = replace(recipe, value=column, kind=())
    speeds = read_known(readings if speed is None else speed, table.names, strict, named, models.east.grid)
    known = speeds_at(_in_order(speeds, models.east.grid, recipe.dates), table)
    assert table.timestamps is not None
    new = table.timestamps > models.east.times[-1]
    without = int((np.isnan(known) & table.observed)[:, new].sum())
    said = [f"{plural(without, 'new direction')} without a speed: that of the station's median is taken."] if without else []
    return np.where(np.isfinite(known), known, models.speeds[:, None]) / models.median_speed, said


def _refuse_unlike(new: np.ndarray, old: np.ndarray) -> None:
    """Refuse readings most of which are further from all earlier ones than these are from each other."""
    if not (np.isfinite(new).any() and np.isfinite(old).any()):
        return
    low, high = np.nanmin(old), np.nanmax(old)
    far = (new < 2 * low - high) | (new > 2 * high - low)
    if high > low and 2 * far.sum() > np.isfinite(new).sum():
        raise InputError(
            f"readings are mostly far from the model's: {np.nanmin(new):g} to {np.nanmax(new):g}, and it learned {low:g} to "
            f"{high:g}: check the unit, or clean all anew."
        )


def _forgets(model: SpaceTimeModel | SparseSpaceTimeModel, y: np.ndarray, times: np.ndarray, new: int) -> bool:
    """Whether estimates from column ``new`` on hardly depend on readings (N, T) some time before."""
    if new <= BEFORE:
        return False
    less, more = (
        model.smooth(y[:, new - before :], times=times[new - before :], robust=False) for before in (PROBED, 2 * PROBED)
    )
    moved = np.abs(less.x[:, PROBED:] - more.x[:, 2 * PROBED :])
    return bool((moved <= MOVED * more.std[:, 2 * PROBED :]).all())


def _in_order(table: Readings, grid: TimeGrid, said: str | None) -> Readings:
    """Readings whose dates follow the last time of a model's ``grid``, where day and month may be either and none is ``said``.

    A few numbers such as 202407 may not show that they are months, nor do days that are months apart; the grid does.
    The order that was not taken is where it goes on within two days; where it follows later, neither is sure and both refused.
    """
    last = grid.values[-1]
    if table.timestamps is not None and table.timestamps.dtype.kind != last.dtype.kind:
        months = io.months_of(table.times)
        return table if months is None else _rearranged(table, months)
    if said is not None or table.timestamps is None or last.dtype.kind != "M":
        return _on_clock_of(table, last)
    first, near = table.timestamps[0], np.timedelta64(2, "D")
    orders = io.either_order(table.times) or []
    monthly = [grid.months > 0 and calendar_months(np.append(last, np.sort(one[one > last]))) is not None for one in orders]
    for which, dates, right in zip(("day", "month"), orders, monthly, strict=False):
        other = dates.min()
        follows = abs(other - first) > near and last < other and not last < first <= other
        if (right and sum(monthly) == 1) or (follows and sum(monthly) != 1):
            if right or (other - last <= near and any(np.array_equal(one, table.timestamps) for one in orders)):
                why = f"dates such as {table.times[0]!r} are read {which} first, so that they follow the model's last time."
                notes = (*(note for note in table.notes if "dates such as" not in note), why)
                return replace(_rearranged(table, dates), notes=notes)
            raise InputError(
                f"readings have dates such as {table.times[0]!r}, which are read as {str(first)[:10]}; as {str(other)[:10]} "
                f"they would follow the model's last time, {str(last)[:10]}: pass --dates day-first or "
                "month-first (dates= of a recipe)."
            )
    return _on_clock_of(table, last)


def _on_clock_of(table: Readings, last: np.datetime64) -> Readings:
    """Readings in summer time, as a model's ``last`` time is, where standard time would take new ones for those it has."""
    own = io.instants(table.times) if table.zone is None and table.timestamps is not None and last.dtype.kind == "M" else None
    if own is None or table.timestamps is None or own.dtype.kind != "M":
        return table
    hour = np.timedelta64(1, "h")
    hidden = (own > last) & (table.timestamps <= last) & (own - table.timestamps == hour)
    return replace(table, timestamps=table.timestamps + hour) if hidden.any() else table


def _rearranged(table: Readings, stamps: np.ndarray) -> Readings:
    """Readings in the order of other ``stamps`` of the same labels."""
    rows = np.argsort(stamps, kind="stable")
    return replace(table, times=tuple(table.times[t] for t in rows), timestamps=stamps[rows], values=table.values[:, rows])


def _new(table: Readings, model: SpaceTimeModel | SparseSpaceTimeModel, order: str | None) -> tuple[Readings, list[str]]:
    """The columns of times after the model's last one, and what is to be said of the others."""
    last = model.times[-1]
    table = _in_order(table, model.grid, order)
    if table.timestamps is None or table.timestamps.dtype.kind != last.dtype.kind:
        raise InputError("readings have times of another kind than the model's: dates, or numbers, in both.")
    later = np.flatnonzero(table.timestamps > last)
    end = str(last).removesuffix(".000000000")
    if not later.size:
        raise InputError(
            f"readings end at {table.times[-1]}, and the model's at {end}: pass later readings, or clean all with nareg.clean."
        )
    notes = []
    known = np.isin(table.timestamps, model.times)
    counts = table.counts
    for group, which, fate in (
        (known, f"up to {end}, which the model has, left out", KNOWN_TIME),
        (~known, f"before {end}, which the model does not have, left out: clean all anew to add them", EARLIER),
    ):
        earlier = group & (table.timestamps <= last)
        if earlier.any():
            notes.append(f"{plural(int(earlier.sum()), 'time')} {which}.")
        counts = counts and counts.less(int(table.observed[:, earlier].sum()), fate)
    if counts and not counts.all_used:
        notes.append(counts.sentence())
    silent = [name for name, row in zip(table.names, table.values[:, later], strict=True) if np.isnan(row).all()]
    if silent:
        notes.append(f"Without a new reading: {', '.join(silent[:5])}{', ...' if len(silent) > 5 else ''}.")
    chosen = replace(
        table, times=tuple(table.times[t] for t in later), timestamps=table.timestamps[later], values=table.values[:, later],
        counts=counts,
    )  # fmt: skip
    return chosen, notes
