"""How exact and blind designs are chosen, on networks of any size: a path of penalties, judged on held-out data.

Minimizing N weights over few signals or readings fits their accidents. The weights are ``w = s exp(u)`` around the
best single weight s, and

    risk(s exp(u)) + mu (||u||^2 + beta u^T L' u),    L' the graph's Laplacian over its mean degree,

is minimized for a decreasing sequence of mu, each from the last: first the few degrees of freedom that all signals
agree on, then more. Where weights vary smoothly over the network, neighbors share their evidence; where the risk
insists, they part. Each fold of the data in turn is held out while a path runs on the rest; the mu with the smallest
risk on what was held out is kept, and the fit repeated on all data. A design that does not lower the held-out risk of
the single weight by more than its standard error is not returned (status NO_IMPROVEMENT).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace

import numpy as np
import scipy.sparse as sp

from nareg._solvers.held_out import standard_error, worthwhile
from nareg.design._node.log_weights import SMALLEST, Coordinates
from nareg.design._risk.checked import STANDARD_ERRORS
from nareg.design._risk.descent import DescentResult, Groups, Stationary, ValueAndGradient, descend_between
from nareg.progress import Progress, ProgressCallback
from nareg.results import DesignDetails, Status

#: Penalties tried, times the single weight's risk per node.
PENALTIES = (3.0, 1.0, 0.3, 0.1, 0.03, 0.01, 0.003, 0.001, 0.0003, 0.0001)
#: How much more a difference between neighbors costs than a departure from the single weight.
SMOOTHNESS = 30.0
#: The search ends when the held-out risk has not fallen for so many penalties.
PATIENCE = 2
#: From this penalty on the objective has several minima: the last fit starts from the single weight, too.
LOOSE = 0.001
#: Norm of the gradient in u, times sqrt(N), over the risk, at which a descent has converged.
STATIONARY = 1e-3


@dataclass(frozen=True)
class Fold:
    """The risk on the data that one path is fitted to, and the summands of the risk on the data held out from it."""

    train: ValueAndGradient
    held_out: Callable[[np.ndarray], np.ndarray]
    #: So many summands, of which the first stand for signals and the rest for noise.
    n_summands: int
    n_signals: int
    #: What the risk adds to the summands, whatever the weights.
    constant: float = 0.0


@dataclass(frozen=True)
class Warm:
    """An earlier design's outcome, carried over to a network that changed a little."""

    weights: np.ndarray
    scalar: float
    penalty: float


@dataclass(frozen=True)
class PathEnd:
    """The weights, how it ended in a status and in words, and the gradient there."""

    w: np.ndarray
    status: Status
    message: str
    gradient_norm: float | None = None


@dataclass(frozen=True)
class _Best:
    """The penalty that held-out data prefer, and the mean of the paths there."""

    mu: float
    u: np.ndarray
    worthwhile: bool = False
    interrupted: bool = False


@dataclass
class PenaltyPath:
    """Descents in u around the single weights ``start``; ``u = log(w / start)`` unless a rate limits the weights."""

    L: sp.csr_array
    coordinates: Coordinates
    start: np.ndarray
    #: Risk of the start, which makes penalties the same in every unit.
    start_risk: float
    groups: Groups
    progress: ProgressCallback | None
    #: Descent steps of all paths so far, and where the last one ended: what an interrupt between descents keeps.
    steps: int = 0
    reached: np.ndarray | None = None
    selection: DesignDetails = field(default_factory=DesignDetails)

    def __post_init__(self) -> None:
        self.roughness = _roughness(self.L)
        self.unit = abs(self.start_risk) / self.start.size

    def weights(self, u: np.ndarray) -> np.ndarray:
        """The nodes' weights for u."""
        return self.start * np.exp(self.coordinates.spread(u))

    def run(self, risk: ValueAndGradient, mu: float, u: np.ndarray, max_iterations: int) -> DescentResult:
        """Descend from u for at most so many steps."""
        before = self.steps

        def counted(now: Progress) -> None:
            self.steps = before + now.step
            if self.progress is not None:
                self.progress(replace(now, step=self.steps))

        def penalized(spread: np.ndarray) -> tuple[float, np.ndarray]:
            w = self.start * np.exp(spread)
            value, gradient = risk(w)
            pull = mu * self.unit * (spread + SMOOTHNESS * (self.roughness @ spread))
            return value + float(spread @ pull), gradient * w + 2.0 * pull

        length = float(np.sqrt(self.start.size))
        result = descend_between(
            self.coordinates.of_unknowns(penalized), u, self.coordinates.bounds,
            unit=length, stationary=Stationary(length, STATIONARY), max_iterations=max_iterations, progress=counted,
        )  # fmt: skip
        self.reached = self.weights(result.w)
        return result

    def follow(self, risk: ValueAndGradient, folds: list[Fold] | None, warm: Warm | None = None) -> PathEnd:
        """The weights on all data, with the penalty that held-out data prefer.

        Without folds (None) there is no penalty; with an empty list there are too few data to judge by, and the single
        weight is kept.
        """
        try:
            return self._follow(risk, folds, warm)
        except KeyboardInterrupt:  # between descents, which handle their own
            return PathEnd(self.start if self.reached is None else self.reached, Status.INTERRUPTED, "interrupted")

    def _follow(self, risk: ValueAndGradient, folds: list[Fold] | None, warm: Warm | None) -> PathEnd:
        single = PathEnd(self.start, Status.NO_IMPROVEMENT, "the best single weight is kept")
        if folds == []:
            return single
        mu, u, max_iterations = 0.0, self.coordinates.first, self.coordinates.steps.free
        penalties: tuple[float, ...] = PENALTIES
        if warm is not None:
            mu, penalties = warm.penalty, (warm.penalty,)
            ratio = np.divide(warm.weights, self.start, out=np.ones_like(self.start), where=self.start > 0)
            u = np.clip(self.groups.reduce_start(np.log(np.maximum(ratio, SMALLEST))), *self.coordinates.bounds)
        if folds is not None:
            best = self._search(folds, penalties, u)
            if best.interrupted:
                return PathEnd(self.weights(best.u), Status.INTERRUPTED, "interrupted")
            if not best.worthwhile:
                return single
            mu, u, max_iterations = best.mu, best.u, self.coordinates.steps.final
        ends = [self.run(risk, mu, u, max_iterations)]
        if folds is not None and mu <= LOOSE and ends[0].message != "interrupted":
            ends.append(self.run(risk, mu, self.coordinates.first, max_iterations))
        last = min(ends, key=lambda end: end.value)
        if any(end.message == "interrupted" for end in ends):
            status = Status.INTERRUPTED
        else:
            status = Status.CONVERGED if last.gradient_norm <= STATIONARY else Status.MAX_ITERATIONS
        return PathEnd(self.weights(last.w), status, last.message, last.gradient_norm)

    def _search(self, folds: list[Fold], penalties: tuple[float, ...], u: np.ndarray) -> _Best:
        """Follow the penalties downwards, from u in every fold, until the held-out risk rises."""
        points = [u] * len(folds)
        first = lowest = self._held_out(folds, [self.start] * len(folds))
        best, worse, tried = _Best(np.inf, u), 0, dict[str, float]()
        constant = sum(fold.constant for fold in folds) / len(folds)
        for mu in penalties:
            for k, fold in enumerate(folds):
                result = self.run(fold.train, mu, points[k], self.coordinates.steps.search)
                points[k] = result.w
                if result.message == "interrupted":
                    return replace(best, u=result.w, interrupted=True)
            values = self._held_out(folds, [self.weights(point) for point in points])
            tried[f"{mu:g}"] = float(values.sum()) + constant
            if values.sum() < lowest.sum():
                lowest, best, worse = values, _Best(mu, np.mean(points, axis=0)), 0
            else:
                worse += 1
            if worse >= PATIENCE:
                break
        difference = first - lowest
        # over signals; the noise's own error is smaller by an order of magnitude
        scattered = np.concatenate([np.arange(fold.n_summands) < fold.n_signals for fold in folds])
        self.selection = {
            "penalty": best.mu,
            "held_out_risk": float(lowest.sum()) + constant,
            "held_out_scalar_risk": float(first.sum()) + constant,
            "held_out_gain": float(difference.sum()),
            "held_out_error": standard_error(difference[scattered]),
            "held_out_path": tried,
        }
        return replace(best, worthwhile=worthwhile(difference, standard_errors=STANDARD_ERRORS, scattered=scattered))

    def _held_out(self, folds: list[Fold], weights: list[np.ndarray]) -> np.ndarray:
        """Summands of the mean over folds of the held-out risk, each with the weights of its own path."""
        values = [fold.held_out(w) for fold, w in zip(folds, weights, strict=True)]
        return np.concatenate(values) / len(folds)

    def details(self) -> DesignDetails:
        """What the search said, and what it started from."""
        return {
            **self.selection,
            "best_scalar_risk": self.start_risk,
            "best_scalar": float(np.abs(self.start).max()),
            "iterations": self.steps,
            "degrees_of_freedom": self.groups.count,
        }


def _roughness(L: sp.csr_array) -> sp.csr_array:
    """Laplacian over its mean degree; for another operator that of the sizes of its off-diagonal entries."""
    off = abs(L - sp.diags_array(L.diagonal()))
    degree = np.asarray(off.sum(axis=1)).ravel()
    return sp.csr_array((sp.diags_array(degree) - off) / (degree.mean() or 1.0))
