"""Weights that keep the user's constraints: a sequence of convex programs at rank one.

With ``Omega = w w^T`` replaced by its linearization at the weights so far,

    Omega_ij = v_i w_j + w_i v_j - v_i v_j        (and  H = H(v) - H(v) (S - S(v)) H(v)  where the program has a filter),

the program with all constraints is convex in the new weights w. Its solution is the next v, within a region that shrinks where
the true weights are no better. What the linearization misses has a price, so that every step has a solution.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from nareg.design._convex.solving import Optimum, run
from nareg.design._risk.descent import feasible
from nareg.errors import InputError, SolverError
from nareg.progress import Progress, ProgressCallback
from nareg.results import Status

if TYPE_CHECKING:
    from nareg.design.programs._program import Program

#: A constraint is kept if it is missed by no more than this, and steps aim at less.
KEPT, AIM = 1e-6, 1e-8
ROUNDS = 40
#: Squared weights of at most this share of the largest are what a solver leaves of zero, where ``lower`` allows zero.
TRACE = 1e-6
#: Price of what the linearization misses, over the cost, and its growth per round.
PRICE, GROWTH = 10.0, 2.0


@dataclass(frozen=True)
class Rounded:
    """Weights, by how much they miss a constraint at worst, and how they were reached."""

    w: np.ndarray
    share: float
    violation: float
    rounds: int
    factor: float
    seconds: float

    def status(self, solved: Status) -> Status:
        """Inaccurate where a constraint is missed."""
        return Status.INACCURATE if self.violation > KEPT else solved


def round_within(
    program: Program,
    optimum: Optimum,
    solver: str,
    options: dict[str, Any],
    scale: str,
    progress: ProgressCallback | None,
) -> Rounded:
    """Weights near the optimum's rank one that keep the constraints, and have a small objective there."""
    started = time.perf_counter()
    directions, share = program.directions(optimum)
    steps = _Steps(program, solver, options)
    reached = [steps.descend(feasible(w, program.lower, program.upper), progress) for w in directions]
    best, _, rounds = min(reached, key=lambda end: (max(end[1][0], AIM), end[1][1]))
    best = _without_traces(program, best)
    factor = _factor(program, best, scale)
    w = factor * best
    return Rounded(w, share, steps.judge(w)[0], rounds, factor, time.perf_counter() - started)


def violation(program: Program, w: np.ndarray) -> float:
    """By how much weights miss an added constraint at worst, in its own units; also the program's values are then theirs."""
    program.assign(w)
    parts = [np.max(np.abs(constraint.violation()), initial=0.0) for constraint in program.added]
    return float(max(parts, default=0.0))


class _Steps:
    """The convex programs of the steps, with the region around the weights so far."""

    def __init__(self, program: Program, solver: str, options: dict[str, Any]) -> None:
        self.program, self.solver, self.options = program, solver, options
        self.half = np.sqrt(program.task.c)
        self.objective = program.objective()

    def judge(self, w: np.ndarray) -> tuple[float, float]:
        """Violation and objective of weights: less is better, the first before the second."""
        return violation(self.program, w), self.objective(w / self.half)[0]

    def descend(self, w: np.ndarray, progress: ProgressCallback | None) -> tuple[np.ndarray, tuple[float, float], int]:
        """Steps until the weights stand still; they, how they are judged, and the number of steps."""
        now = self.judge(w)
        region, price = 1.0, PRICE
        rounds = 0
        for rounds in range(1, ROUNDS + 1):
            new = self._step(w, region, price)
            if new is None:
                break
            then = self.judge(new)
            if progress is not None:
                progress(Progress("weights within the constraints", rounds, ROUNDS, values={"objective": then[1]}))
            still = max(now[0], then[0]) <= AIM and abs(then[1] - now[1]) <= 1e-6 * abs(now[1])
            if _better(then, now):
                w, now, region = new, then, min(2 * region, 1.0)
            else:
                region /= 4
            if still or region < 1e-6:
                break
            price *= GROWTH
        return w, now, rounds

    def _step(self, v: np.ndarray, region: float, price: float) -> np.ndarray | None:
        """The next weights, or None where the solver finds none."""
        import cvxpy as cp

        program, omega = self.program, self.program.matrix
        i, j = omega.rows, omega.columns
        program.assign(v)
        cost = max(float(program.cost.value), 1e-9)
        w = cp.Variable(v.size)
        size = np.abs(v[i] * v[j]) + 1e-3 * float(np.mean(v**2)) + 1e-300
        linear = cp.multiply(v[i], w[j]) + cp.multiply(v[j], w[i]) - v[i] * v[j]
        missed = cp.norm1(cp.multiply(1 / size, omega.entries - linear))
        if program.white_H is not None:
            H = program.white_H.value
            S = np.asarray(program.white_S.value)
            missed = missed + cp.sum(cp.abs(program.white_H - H + H @ (program.white_S - S) @ H))
        width = region * (np.abs(v) + 1e-2 * np.abs(v).max())
        constraints = [*program.base_constraints, *program.added_constraints, w <= v + width, w >= v - width]
        try:
            run(cp.Problem(cp.Minimize(program.cost + price * cost * missed), constraints), self.solver, self.options)
        except (InputError, SolverError):
            return None
        return None if w.value is None else feasible(w.value, program.lower, program.upper)


def _better(new: tuple[float, float], old: tuple[float, float]) -> bool:
    """Fewer violations first, then a smaller objective."""
    return (max(new[0], AIM), new[1]) < (max(old[0], AIM), old[1])


def _without_traces(program: Program, w: np.ndarray) -> np.ndarray:
    """Zero in the place of what a solver leaves of it, if the constraints are kept: those sensors then send nothing."""
    traces = (w**2 <= TRACE * np.max(w**2)) & (program.lower == 0)
    trial = np.where(traces, 0.0, w)
    return trial if violation(program, trial) <= max(violation(program, w), AIM) else w


def _factor(program: Program, w: np.ndarray, scale: str) -> float:
    """The factor that has the smallest expected error among those that keep the constraints and the bounds."""
    task = program.task
    if scale == "bound" or task.Sigma is None or not w.any() or not program.scale_free:
        return 1.0
    error, least = task.mse_along(w), max(violation(program, w), AIM)
    square = w**2

    def allowed(s: float) -> bool:
        inside = (s**2 * square >= program.lower * (1 - 1e-12)).all() and (s**2 * square <= program.upper * (1 + 1e-12)).all()
        return bool(inside) and violation(program, s * w) <= least

    best, width = 1.0, np.log(1e3)
    for _ in range(4):  # a coarse search, and finer ones around its best: what is allowed may end at an edge
        trials = [s for s in best * np.exp(np.linspace(-width, width, 61)) if allowed(float(s))]
        best, width = float(min([best, *trials], key=error)), width / 20
    return best
