"""Smoothing with heavy-tailed steps, and without gross outliers: passes until variances and outliers stay the same."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from nareg.spacetime._dense.dynamics import Dynamics
from nareg.spacetime._dense.smoother import Pass, run
from nareg.spacetime._learn.outliers import ABSURD, deletion_scores, limit_of, robust_spread, spikes

#: Passes with Student t steps, whose variances change little after the third; and where they were known for nearly the same
#: readings.
PASSES, AGAIN = 4, 2
#: Rounds that look for gross outliers.
ROUNDS = 3


def heavy_tailed_pass(
    y: np.ndarray, dynamics: Dynamics, r: np.ndarray, df: float | None, *, scale: np.ndarray | None = None,
    smooth: bool = True, W: np.ndarray | None = None, tick: Callable[[float], None] | None = None,
    errors: np.ndarray | None = None,
) -> Pass:  # fmt: skip
    """One pass, or with ``df`` a few, over readings (T, N), from the steps' variances ``scale`` on; ``tick`` counts rows."""
    passes = 1 if not (df and smooth) else PASSES if scale is None else AGAIN
    each = None if tick is None else lambda: tick(1.0)
    for _ in range(passes - 1):
        scale = run(y, dynamics, r, scale=scale, df=df, tick=each).scale
    return run(y, dynamics, r, scale=scale, smooth=smooth, W=W, tick=each, errors=errors)


def robust_pass(
    y: np.ndarray, dynamics: Dynamics, r: np.ndarray, df: float | None, *, W: np.ndarray | None = None,
    tick: Callable[[float], None] | None = None, errors: np.ndarray | None = None,
) -> tuple[Pass, np.ndarray]:  # fmt: skip
    """Smooth without the readings that the others contradict; and every reading's deletion score."""
    # heavy-tailed steps would follow an absurd value, with variances that no factorization survives
    usual = np.sqrt(dynamics.P0.diagonal()[: dynamics.n] + r)
    bad = np.abs(y) > ABSURD * usual
    scale = None
    for _ in range(ROUNDS):
        done = heavy_tailed_pass(np.where(bad, np.nan, y), dynamics, r, df, scale=scale, W=W, tick=tick, errors=errors)
        scale = done.scale if df else None
        scores = deletion_scores(y, done.x, done.var, np.where(bad, np.inf, r))
        # a deleted reading is judged with the noise that it would have
        deleted = (y - done.x) / np.sqrt(done.var + r)
        scores = np.where(bad, deleted, scores)
        relative = scores / np.maximum(robust_spread(scores), 1.0)
        gross = spikes(relative, limit_of(relative))
        if (gross == bad).all():
            break
        bad = gross
    return done, scores
