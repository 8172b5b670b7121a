"""Residuals of every reading from a smoothing pass that leaves out stuck, absurd and contradicted readings."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike

from nareg.quality._rules import Rules, beyond
from nareg.spacetime import (
    ROUNDS,
    Pass,
    SpaceTimeModel,
    TimeGrid,
    absurd,
    cycles,
    edges,
    heavy_tailed_pass,
    intermittent,
    large,
    leaps,
    limit_of,
    local_pass,
    on_grid,
    robust_spread,
    scores_without,
    spikes,
    stuck,
)

#: Stations with fewer readings are not judged.
FEWEST = 10
#: Scores of neighbors count up to this size when their spread is measured, which is drawn to 1 as if by so many.
CAP, PRIOR_NEIGHBORS = 5.0, 0.3
#: Scores up to this size need no holiday to explain them.
USUAL = 3.0
#: Beside a change of level, the next reading of a level that is off as a whole has this share of the edge's score. Changes are
#: usual where so many have as much of it.
INNER, OFTEN = 0.5, 5


@dataclass(frozen=True, eq=False)
class Residuals:
    """Readings and their predictions by the model. Rows are steps of the grid, in the model's unit without mean and cycles.

    Attributes
    ----------
    model : SpaceTimeModel
    grid : TimeGrid
    readings : (N, T) array
        As the user gave them.
    y, offset : (rows, N) arrays
        Readings without mean and cycles, NaN where missing; mean and cycles.
    frozen, absurd : (rows, N) bool arrays
        Readings in stuck runs; readings far outside of the station's range, or of leaps that return at once.
    leapt : (rows, N) bool array
        First readings after a leap that stays, but for a stuck sensor that catches up, and for a station that often leaps.
    bad : (rows, N) bool array
        Readings that the pass leaves out.
    done : Pass
    scores : (rows, N) array
        Deletion residuals in standard deviations. They are divided by the station's own spread where that is above 1, and by
        the neighbors' spread at that time where that is larger than usual: a front is no fault.
    spread : (N,) array
        Robust spread of the deletion residuals, at least 1.
    outside : (N, T) bool array
        Readings beyond the ranges of the rules, which are absurd as well.
    limit : float
        Score from which on a reading that stands out at once is bad; infinite for an intermittent quantity.
    """

    model: SpaceTimeModel
    grid: TimeGrid
    readings: np.ndarray
    y: np.ndarray
    offset: np.ndarray
    frozen: np.ndarray
    absurd: np.ndarray
    leapt: np.ndarray
    bad: np.ndarray
    done: Pass
    scores: np.ndarray
    spread: np.ndarray
    limit: float
    outside: np.ndarray

    @property
    def intermittent(self) -> bool:
        """Whether the quantity rests at a bound for much of the time, so that no score of a single reading means a fault."""
        return bool(np.isinf(self.limit))

    @cached_property
    def spiky(self) -> np.ndarray:
        """(rows, N) True for readings that stand out at once, and are neither stuck nor absurd."""
        return self.spikes_beyond(self.limit)

    def spikes_beyond(self, limit: float) -> np.ndarray:
        """(rows, N) the same beyond another limit."""
        scores = np.where(self.frozen | self.absurd, np.nan, self.scores)
        # a pass leaves out the whole event, but no reading is flagged for its neighbor in time
        return spikes(scores, limit) & (np.abs(scores) > limit)

    @property
    def usable(self) -> np.ndarray:
        """(rows, N) True for the readings that shape the estimate."""
        return np.isfinite(self.y) & ~self.bad

    @property
    def n_nodes(self) -> int:
        return int(self.y.shape[1])

    @cached_property
    def names(self) -> tuple[str, ...]:
        return _names(self.model)

    @cached_property
    def gaps(self) -> np.ndarray:
        """(N, T) reading minus the estimate without it, in the unit of the readings."""
        at = self.grid.rows
        with np.errstate(divide="ignore", invalid="ignore"):
            share = np.where(self.bad, 0.0, np.clip(self.done.var / self.model.noise_at(self.grid), 0.0, 1 - 1e-6))
            others = self.y - (self.y - self.done.x) / (1 - share)
        return self.readings - self.model.to_readings((others + self.offset)[at]).T

    def by_station(self, values: np.ndarray) -> np.ndarray:
        """Rows of the grid as an (N, T) array at the readings' times."""
        return values[self.grid.rows].T


def _names(model: SpaceTimeModel) -> tuple[str, ...]:
    names = model.graph.names
    return tuple(str(i) for i in range(model.n_nodes)) if names is None else tuple(names)


def compute_residuals(
    model: SpaceTimeModel, readings: ArrayLike | None = None, times: ArrayLike | None = None, rules: Rules | None = None
) -> Residuals:
    """Smooth the readings without stuck runs, absurd values and readings that all others contradict.

    Absurd are those beyond the ranges of the rules, too.
    """
    given = on_grid(model, readings, times, exclude=False)
    grid, rows = given.grid, given.rows
    still = stuck(given.values.T)
    frozen = _on_grid(still, grid)
    outside = beyond(rules or Rules(), _names(model), given.values)
    extreme = _on_grid(far_out(given.values.T, still) | outside.T, grid)
    moving = np.where(still, np.nan, given.values.T)
    usual = edges(moving)
    leapt, level = _on_grid(leaps(moving)[1] & ~usual, grid), _on_grid(usual, grid)
    bad, resting = frozen | extreme, intermittent(given.values.T)
    if readings is None:
        bad |= _on_grid(model.excluded.T, grid)
    scale = None
    local = model.df is None and large(model.dynamics)  # all rounds but the last
    for k in range(1, ROUNDS + 1):
        usable = np.where(bad, np.nan, rows)
        if local:
            x, var = local_pass(usable, model.dynamics, given.noise)
        else:
            done = heavy_tailed_pass(usable, model.dynamics, given.noise, model.df, scale=scale)
            x, var, scale = done.x, done.var, done.scale if model.df else None
        scores = scores_without(bad, rows, x, var, given.noise)
        scores = _unless_holiday(scores, rows, model, grid, bad, var)
        scores = _unless_edge(scores, level)
        spread = np.maximum(robust_spread(np.where(frozen, np.nan, scores)), 1.0)
        scores = scores / spread
        scores = scores / neighbor_spread(np.where(frozen | extreme, np.nan, scores), model.graph.adjacency)
        judged = np.where(frozen | extreme, np.nan, scores)
        limit = np.inf if resting else limit_of(judged)
        flagged = spikes(judged, limit) | frozen | extreme
        same, bad = (flagged == bad).all(), flagged
        if same and not local:
            break
        local = local and not same and k < ROUNDS - 1
    # what all others expect as well, such as a thaw, is no fault, however it leaps
    extreme &= ~_on_grid(_expected(given.values.T, still, scores[grid.rows]) & ~outside.T, grid)
    return Residuals(
        model, grid, given.values, rows, given.offset, frozen, extreme, leapt, bad, done, scores, spread, limit, outside
    )


def _unless_holiday(
    scores: np.ndarray, rows: np.ndarray, model: SpaceTimeModel, grid: TimeGrid, bad: np.ndarray, var: np.ndarray
) -> np.ndarray:
    """Scores (rows, N), where those beyond :data:`USUAL` are smaller that another day of the week explains."""
    ends = model.cycles.other_days(grid.seconds)
    if not any(end.any() for end in ends):
        return scores
    noise = model.noise_at(grid)
    std = np.sqrt(np.where(bad, var + noise, noise / (1 - np.clip(var / noise, 0.0, 1 - 1e-6))))
    half = round(cycles.DAY / 2 / grid.step)
    less, more = (np.where(_others_follow(rows, end, std, half), end / std, 0.0) for end in ends)
    explained = np.clip(np.abs(scores - np.clip(scores, less, more)), USUAL, None)
    return np.where(np.abs(scores) > USUAL, np.sign(scores) * explained, scores)


def _unless_edge(scores: np.ndarray, first: np.ndarray) -> np.ndarray:
    """Scores (rows, N) of at most :data:`USUAL` within two readings of a change of level: what is expected rises too early.

    ``first`` are first readings of new levels. The edge explains a score where the next reading away from it is not as far off,
    and where :data:`OFTEN` changes of the station surprise as much.
    """
    result = scores.copy()
    for i in map(int, np.flatnonzero(first.sum(axis=0) >= OFTEN)):
        rows = np.flatnonzero(np.isfinite(scores[:, i]))
        values, at = np.pad(scores[rows, i], 3), np.flatnonzero(first[rows, i]) + 3
        near, inward = at[:, None] + np.array([-2, -1, 0, 1]), np.array([-1, -1, 1, 1])
        height = np.abs(values[near]).max(axis=1)
        often = (height >= INNER * height[:, None]).sum(axis=1) >= OFTEN
        alone = values[near + inward] * np.sign(values[near]) < INNER * np.abs(values[near])
        edge = near[alone & often[:, None]]
        edge = edge[(edge >= 3) & (edge < rows.size + 3)]
        result[rows[edge - 3], i] = np.clip(values[edge], -USUAL, USUAL)
    return result


def _others_follow(rows: np.ndarray, change: np.ndarray, std: np.ndarray, half: int) -> np.ndarray:
    """(rows, N) True where the day's other readings follow a change, too: a holiday is no matter of one reading.

    They are the station's own up to half a day before or after, or the others' at that time; or none tells.
    """
    telling = np.isfinite(rows) & (np.abs(change) > USUAL * std)
    follow = telling & (rows * np.sign(change) > np.abs(change) / 2)
    T = len(rows)
    own, all_own = (np.cumsum(np.vstack([np.zeros_like(part[:1]), part]), axis=0, dtype=int) for part in (follow, telling))
    t = np.arange(T)
    sides = (np.maximum(t - half, 0), t), (t + 1, np.minimum(t + 1 + half, T))
    counts = [(own[stop] - own[start], all_own[stop] - all_own[start]) for start, stop in sides]
    others, all_others = (part.sum(axis=1, keepdims=True) - part for part in (follow, telling))
    by_own = np.any([2 * some > some_of for some, some_of in counts], axis=0)
    return np.where(sum(some_of for _, some_of in counts) > 0, by_own, 2 * others >= all_others)


def far_out(y: np.ndarray, still: np.ndarray) -> np.ndarray:
    """(T, N) True for absurd readings and those of leaps that return at once.

    Where a station is ``still`` (stuck) for most of its readings, its others are judged.
    """
    judged = _without_rest(y, still)
    return absurd(judged) | leaps(judged)[0]


def _without_rest(y: np.ndarray, still: np.ndarray) -> np.ndarray:
    mostly = 2 * still.sum(axis=0) > np.isfinite(y).sum(axis=0)
    return np.where(still & mostly, np.nan, y)


def _expected(y: np.ndarray, still: np.ndarray, scores: np.ndarray) -> np.ndarray:
    """(T, N) True for readings that leap and return, but not beyond what the model expects without them."""
    judged = _without_rest(y, still)
    return leaps(judged)[0] & ~absurd(judged) & (np.abs(scores) < USUAL)


def neighbor_spread(scores: np.ndarray, adjacency: sp.csr_array) -> np.ndarray:
    """(rows, N) spread of the neighbors' scores at a time and one step before and after, at least 1.

    Squares are capped, so that a neighbor's fault hides nothing, and drawn to 1 as if by :data:`PRIOR_NEIGHBORS` neighbors.
    """
    there = np.isfinite(scores)
    squares = np.where(there, np.minimum(np.abs(scores), CAP) ** 2, 0.0)
    counts = np.asarray(adjacency.sum(axis=1)).ravel()
    weights = sp.diags_array(1 / np.where(counts > 0, counts, 1.0)) @ adjacency
    near, known = ((weights @ part.T).T for part in (squares, there.astype(float)))
    near, known = (part + _before(part) + _before(part[::-1])[::-1] for part in (near, known))
    return np.sqrt(np.maximum((1 + (near + PRIOR_NEIGHBORS) / (known + PRIOR_NEIGHBORS)) / 2, 1.0))


def _before(values: np.ndarray) -> np.ndarray:
    return np.vstack([np.zeros_like(values[:1]), values[:-1]])


def _on_grid(values: np.ndarray, grid: TimeGrid) -> np.ndarray:
    rows = np.zeros((grid.length, values.shape[1]), dtype=bool)
    rows[grid.rows] = values
    return rows
