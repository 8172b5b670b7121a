"""One weight for all nodes of a network of any size: the rules whose criteria are sums over columns and a trace.

The true risk, Stein's estimate and generalized cross-validation are averages over signals or readings, plus a trace
that random probes give (:mod:`nareg.design._risk.sampled`); Morozov's discrepancy has no trace. The weight is looked for
on a few columns first, then on all of them nearby.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from scipy.optimize import brentq

from nareg._core import checks
from nareg._solvers.system import Penalty
from nareg._solvers.threads import one_blas_thread
from nareg.design._node.selection import ARRAYS
from nareg.design._risk.checked import CheckedProblem, DesignEnd, data_weights, positive_data_weight
from nareg.design._risk.descent import minimize_between
from nareg.design._risk.sampled import SINGLE_RANGE, SampleColumns, SampledRisk, blind_columns, oracle_columns, probes
from nareg.errors import InputError
from nareg.results import DesignDetails, Status, WeightDesign

RULES = ("oracle", "sure", "gcv", "discrepancy")
#: Half the width in log w of the search on all columns around the best on a few.
NEARBY = 0.2
#: Accuracy of log w there.
ACCURACY = 1e-3

#: Relative residual of the solves for cross-validation, and the smallest ``1 - tr(H) / N`` that they resolve.
GCV_TOL, LEAST_SMOOTHING = 1e-8, 1e-4


class _Gcv(SampledRisk):
    """Generalized cross-validation in place of the risk, ``(||C^1/2 (y - H y)||^2 / N) / (1 - tr(H) / N)^2``.

    Its columns are those of Stein's estimate for unit noise variance, whose probes give ``2 tr(H)``. Both parts vanish
    with the weight: nodes are counted by the same probes as the trace, and solves are tight.
    """

    def __init__(self, base: Penalty, c: np.ndarray) -> None:
        super().__init__(base, c)
        self.systems.tol = GCV_TOL

    def value(self, w: np.ndarray, columns: SampleColumns) -> float:
        assert columns.sure is not None
        self.systems.update(w[self.order])
        values, _, error = self._forward(columns)
        nodes = float(np.sum(columns.sure**2 / self.c[:, None]))
        smoothed = 1.0 - 0.5 * float(values[columns.n_signals :].sum()) / nodes
        if smoothed < LEAST_SMOOTHING:
            return np.inf
        return float(self.c @ np.einsum("it,it->i", error, error)) / self.c.size / smoothed**2


class _Residual(SampledRisk):
    """``E ||C^1/2 (y - H y)||^2``, which grows with the weight."""

    def value(self, w: np.ndarray, columns: SampleColumns) -> float:
        self.systems.update(w[self.order])
        error = self._forward(columns)[2]
        return float(self.c @ np.einsum("it,it->i", error, error))


@one_blas_thread
def node_invariant_large(
    base: Penalty,
    rule: str,
    data: np.ndarray,
    variance: np.ndarray | None,
    data_weight: Any,
    n_probes: int,
    rng: np.random.Generator,
) -> WeightDesign:
    """The rule's weight from (N, T) signals ("oracle") or readings (the others), without dense matrices."""
    n = base.n_nodes
    c = positive_data_weight(data_weights(data_weight, variance, n), "a single weight")
    task = CheckedProblem(base, variance, c, None if data_weight is None else c)
    if not base.L.nnz:
        raise InputError("graph has no edges: there is nothing to smooth over; connect it first.")
    less = "pass fewer signals or measurements, fewer probes (n_probes), or a part of the network"
    checks.memory(f"rule {rule!r}", 8 * n * (data.shape[1] + 2 * n_probes) * ARRAYS, alternative=less)
    low, high = task.squared_bounds(None, None, default_lower=None)
    # one limit, so that the weight is the same everywhere
    high = np.full(n, high.min())
    Z = np.zeros((n, 0)) if rule == "discrepancy" else probes(base.L, n_probes, rng)
    risk, columns = _criterion(base, rule, data, variance, c, Z)
    if rule == "discrepancy":
        w, objective = _discrepancy(risk, columns, float(c @ variance), float(np.sqrt(high[0])))
    else:
        w, objective = _smallest(risk, columns, low, high)
    first, last = risk.balanced_weight * np.array(SINGLE_RANGE)
    at_bound = not first * np.exp(NEARBY) < w < min(float(last), float(np.sqrt(high[0]))) * np.exp(-NEARBY)
    details: DesignDetails = {"strength": w * w, "n_probes": Z.shape[1], "at_search_bound": at_bound}
    end = DesignEnd(Status.CONVERGED, "solves with sample columns and one-dimensional search", "done", details=details)
    return task.pack(f"node-invariant ({rule})", np.full(n, w), objective, (low, high), end, settings={"rule": rule})


def _criterion(
    base: Penalty, rule: str, data: np.ndarray, variance: np.ndarray | None, c: np.ndarray, Z: np.ndarray
) -> tuple[SampledRisk, SampleColumns]:
    """What the rule makes small, and the columns it is averaged over, in its own node order."""
    if rule == "discrepancy":
        noisy = data / np.sqrt(data.shape[1])
        residual = _Residual(base, c)
        return residual, residual.arranged(SampleColumns(noisy, noisy, data.shape[1]))
    if rule == "gcv":
        gcv = _Gcv(base, c)
        return gcv, gcv.arranged(blind_columns(data, np.ones(c.size), c, Z))
    assert variance is not None
    risk = SampledRisk(base, c)
    make = {"oracle": lambda: oracle_columns(data, variance, Z), "sure": lambda: blind_columns(data, variance, c, Z)}
    return risk, risk.arranged(make[rule]())


def _along(risk: SampledRisk, columns: SampleColumns) -> Callable[[float], float]:
    """The criterion as a function of log w."""
    return lambda log_w: risk.value(np.full(risk.c.size, np.exp(log_w)), columns)


def _smallest(risk: SampledRisk, columns: SampleColumns, low: np.ndarray, high: np.ndarray) -> tuple[float, float]:
    """The weight with the smallest criterion, and that."""
    value = _along(risk, columns)
    at = float(np.log(risk.best_single(columns, low, high)[0]))
    largest = 0.5 * float(np.log(high[0]))
    for _ in range(5):  # the few columns may have been off by more than the width
        left, right = at - NEARBY, min(at + NEARBY, largest)
        at, smallest = minimize_between(value, left, right, accuracy=ACCURACY)
        if min(at - left, right - at) > 5 * ACCURACY or at > largest - NEARBY:
            break
    return float(np.exp(at)), smallest


def _discrepancy(risk: SampledRisk, columns: SampleColumns, target: float, largest: float) -> tuple[float, float]:
    """Largest weight whose residual does not exceed the expected noise power (Morozov)."""
    value = _along(risk, columns)
    middle = risk.balanced_weight
    low, high = float(np.log(middle * SINGLE_RANGE[0])), float(np.log(min(middle * SINGLE_RANGE[1], largest)))
    # from below in steps of two: large weights are the costly ones
    at = float(np.clip(np.log(middle), low, high))
    while at > low and value(at) > target:
        at = max(at - np.log(2.0), low)
    while at < high and value(at) <= target:
        at = min(at + np.log(2.0), high)
    if (at == high and value(at) <= target) or (at == low and value(at) >= target):
        return float(np.exp(at)), value(at)
    log_w = float(brentq(lambda t: value(t) - target, max(at - np.log(2.0), low), at, xtol=1e-6))
    return float(np.exp(log_w)), value(log_w)
