"""First-order min-max: an exchange of worst second moments.

The inner maximum is taken over second moments, ``max tr(B X B^T)`` over the relaxed set of
:mod:`nareg.design._convex.worst_case`, whose value is the certified bound; every worst moment ``X = F F^T`` becomes a scenario,
and the weights descend on the smooth maximum over the scenarios. A moment holds many worst signals at once, so that a few
rounds do what single vertices would need hundreds for.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from nareg._solvers.threads import few_threads
from nareg.design._convex.criteria import SHARPNESS, Criterion
from nareg.design._convex.signal_sets import SignalSet
from nareg.design._convex.upper_bound import Relaxed, relax, spread_moment
from nareg.design._risk.descent import descend, feasible
from nareg.design._risk.groups import Groups
from nareg.progress import ProgressCallback
from nareg.results import Status

#: The exchange ends when the worst signal exceeds the worst scenario by less than this fraction.
CLOSED = 0.01
#: Most rounds of the exchange.
ROUNDS = 60
#: Up to here every start gets an exchange of its own; above only the best.
ALL_STARTS = 60


@dataclass(frozen=True)
class ExchangeResult:
    """The end of an exchange: the best weights seen, their bound, and whether the worst signal adds nothing."""

    w: np.ndarray
    bound: float
    rounds: int
    closed: bool
    interrupted: bool

    def status(self, solved: Status = Status.CONVERGED) -> Status:
        """Status of the design, given how the convex step before it ended."""
        if self.interrupted:
            return Status.INTERRUPTED
        return solved if self.closed else Status.MAX_ITERATIONS

    def description(self) -> str:
        """A sentence on how it ended."""
        if self.rounds == 0:
            return "no rounds needed"
        return f"{self.rounds} rounds, " + (f"within {CLOSED:.0%} of the worst scenario" if self.closed else "not closed")


def exchange(
    criterion: Criterion, U: SignalSet, start: np.ndarray, lower: np.ndarray, upper: np.ndarray, groups: Groups, *,
    progress: ProgressCallback | None = None,
) -> ExchangeResult:  # fmt: skip
    """Minimize the certified worst case over w: descend on the scenarios, add the worst moment, repeat."""
    bounds = groups.bounds(lower, upper)
    w = groups.expand(feasible(groups.reduce_start(start), *bounds))
    bound, relaxed = relaxed_bound(criterion, U, w)
    best = (bound, w)
    moments = [spread_moment(U), *relaxed.moments]
    B, X = criterion.operator(w), moments[0]
    # zero within rounding: where one signal is all there is, Prony's error can vanish
    zero = 1e-20 * float(abs(B).max() * np.linalg.norm(X)) ** 2 * w.size
    rounds, closed, interrupted = 0, best[0] <= zero, False
    while not closed and not interrupted and rounds < ROUNDS:
        rounds += 1
        smooth = groups.tied(criterion.smooth_maximum(moments))
        v = groups.reduce_start(best[1])
        descent = descend(smooth, v, *bounds, max_iterations=200, tolerance=1e-6, progress=progress)
        w = groups.expand(descent.w)
        bound, relaxed = relaxed_bound(criterion, U, w, start=relaxed)
        best = min(best, (bound, w), key=lambda pair: pair[0])
        # the smooth maximum is an upper bound on the scenarios: take its excess off before comparing
        model = descent.value * len(moments) ** (-1 / SHARPNESS)
        closed = best[0] <= max((1 + CLOSED) * model, zero)
        interrupted = descent.message == "interrupted"
        moments.extend(relaxed.moments)
    return ExchangeResult(best[1], best[0], rounds, closed, interrupted)


def relaxed_bound(criterion: Criterion, U: SignalSet, w: np.ndarray, *, start: Relaxed | None = None) -> tuple[float, Relaxed]:
    """The worst case over the relaxed set, which the certificate then proves within a thousandth or so."""
    with few_threads(w.size):
        relaxed = relax(criterion.operator(w), U, start=start)
    return relaxed.value + criterion.variance(w), relaxed


def exchanges(
    criterion: Criterion, U: SignalSet, starts: dict[str, np.ndarray], lower: np.ndarray, upper: np.ndarray, groups: Groups,
    progress: ProgressCallback | None,
) -> dict[str, ExchangeResult]:  # fmt: skip
    """An exchange from every start, or on larger networks from the best one."""
    if lower.size > ALL_STARTS:
        best = min(starts, key=lambda name: relaxed_bound(criterion, U, starts[name])[0])
        starts = {best: starts[best]}
    reached: dict[str, ExchangeResult] = {}
    for name, start in starts.items():
        reached[name] = exchange(criterion, U, start, lower, upper, groups, progress=progress)
        if reached[name].interrupted:
            break
    return reached
