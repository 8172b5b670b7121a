"""From the SDP matrix Omega to weights: a rank-one step, feasibility, local refinement.

The relaxations drop ``rank(Omega) = 1``. When the optimum is not rank one, its leading eigenvector times the
root of the eigenvalue violates ``w_i^2 >= lower`` (on Molene: 0.51 against 1), so the weights are moved to the
nearest feasible ones and then descend on the method's own objective at rank one.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace

import numpy as np
import scipy.sparse as sp

from nareg._solvers.system import scale_symmetric
from nareg.design._risk.descent import DescentResult, ValueAndGradient, descend, feasible
from nareg.design._risk.problem import DesignEnd, SignalProblem
from nareg.design._risk.sparse_problem import principal_direction
from nareg.progress import ProgressCallback
from nareg.results import DesignDetails, WeightDesign

#: What finds the factor, and the weights.
LOW_RANK = "low-rank factor, Newton; L-BFGS-B (scipy)"
#: Omega is N x N: formed up to here.
OMEGA_NODES = 3000


def rank_one(omega: np.ndarray) -> tuple[np.ndarray, float]:
    """Leading eigenvector times the root of its eigenvalue, and the share of the trace that it carries."""
    values, vectors = np.linalg.eigh(omega)
    w = np.sqrt(max(values[-1], 0.0)) * vectors[:, -1]
    w *= np.sign(w[np.argmax(np.abs(w))]) or 1.0
    return w, float(values[-1] / max(values.clip(0).sum(), 1e-300))


def round_and_refine(
    omega: np.ndarray, objective: ValueAndGradient, lower: np.ndarray, upper: np.ndarray, *,
    also: dict[str, np.ndarray] | None = None, progress: ProgressCallback | None = None,
) -> tuple[DescentResult, DesignDetails]:  # fmt: skip
    """Weights from Omega refined by descent, or from another start (``also``) if that ends lower.

    Returns the descent, and the objective of the rounded weights and of every start's end.
    """
    w, share = rank_one(omega)
    starts = {"rounded": feasible(w, lower, upper), **(also or {})}
    reached = {name: descend(objective, start, lower, upper, progress=progress) for name, start in starts.items()}
    details: DesignDetails = {
        "rank_one_share": share,
        "rounded_objective": float(objective(starts["rounded"])[0]),
        "starts": {name: d.value for name, d in reached.items()},
    }
    return min(reached.values(), key=lambda d: d.value), details


def bound_starts(A: np.ndarray, low: np.ndarray, high: np.ndarray) -> dict[str, np.ndarray]:
    """Feasible weights to descend from, beside the rounded ones: Omega need not be near rank one.

    The bound itself, with the signs of the principal signal u as well, and ``s / u`` with small entries of u raised.
    """
    u = principal_direction(A)
    sign = np.where(u < 0, -1.0, 1.0)
    smallest = np.sqrt(low)
    starts = {"bound": feasible(smallest, low, high)}
    if (sign < 0).any():
        starts["bound, signs of the principal signal"] = feasible(sign * smallest, low, high)
    size = np.maximum(np.abs(u), 1e-3 * np.abs(u).max())
    if size.max() > 0:
        starts["inverse principal signal"] = feasible(sign * np.sqrt(np.max(low * size**2)) / size, low, high)
    return starts


def scaled_by_mse(
    task: SignalProblem, w: np.ndarray, low: np.ndarray, high: np.ndarray, scale: str
) -> tuple[np.ndarray, float]:
    """``s w`` with the feasible s that minimizes the MSE, and s; unchanged without noise or with "bound"."""
    w = feasible(w, low, high)
    if scale == "bound" or task.Sigma is None or not w.any():
        return w, 1.0
    square = np.maximum(w**2, 1e-300)
    least = float(np.sqrt(np.max(low / square)))
    largest = float(np.sqrt(np.min(high / square)))
    least = max(least, 1e-12)
    factor = task.best_factor(w, least, largest) if largest > least else least
    return feasible(factor * w, low, high), factor


@dataclass(frozen=True)
class ProgramEnd:
    """Weights that a program's low-rank factor V led to, both in units of ``half``, before they are scaled."""

    w: np.ndarray
    V: np.ndarray
    end: DesignEnd
    timings: dict[str, float] = field(default_factory=dict)

    def scaled_design(
        self, method: str, task: SignalProblem, criterion: Callable[[np.ndarray], float], half: np.ndarray,
        bounds: tuple[np.ndarray, np.ndarray], settings: dict[str, str],
    ) -> WeightDesign:  # fmt: skip
        """The design at ``w * half``, which may be scaled by the MSE within ``bounds`` on ``w_i^2``."""
        w, factor = scaled_by_mse(task, self.w * half, *bounds, settings["scale"])
        details: DesignDetails = {
            **self.end.details, "scale_factor": factor, "objective_before_scaling": criterion(self.w),
        }  # fmt: skip
        omega, end = dense_omega(half[:, None] * self.V), replace(self.end, details=details)
        return task.pack(method, w, criterion(w / half), bounds, end, omega=omega, timings=self.timings, settings=settings)


def dense_omega(V: np.ndarray) -> np.ndarray | None:
    """``V V^T`` where an N x N matrix is no burden."""
    return V @ V.T if len(V) <= OMEGA_NODES else None


def zero_level(L: sp.csr_array, A: np.ndarray, w: np.ndarray) -> float:
    """Value of ``tr(S R S)`` that is zero within rounding."""
    size = float(np.abs(scale_symmetric(L, w).data).max(initial=0.0))
    return 1e-20 * size**2 * float(np.einsum("ir,ir->", A, A)) * w.size
