"""Damped Newton steps on the mean squared error of node weights, with dense matrices: where L-BFGS crawls.

Where the best weights differ by orders of magnitude the risk has long, flat and curved valleys. L-BFGS follows them for
thousands of iterations; the Hessian is a dozen N x N products, what four or five gradients cost. With ``P = K^-1``,
``B = C (R + Sigma) C``, ``D = sym(C R)`` and ``G = P (B P + P B - 2 D) P`` the MSE (11) as a function of S has

    f'[T]     = -<G, T>
    f''[T, U] = 2 <T P B P U, P^2> + 2 <T P U, G>       for symmetric T and U,

and ``S = diag(w) L diag(w)`` moves along ``T = E A + A^T E``, ``E = diag(e)``, ``A = L diag(w)``, with the second derivative
``2 E L E``.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from scipy.linalg import LinAlgError, cho_factor, cho_solve

from nareg._linear.threads import few_threads
from nareg.design._risk.descent import DescentResult, ValueAndGradient, interval, relative_gradient, report
from nareg.design._risk.groups import Groups
from nareg.design._risk.problem import DesignProblem
from nareg.errors import NaregError
from nareg.progress import ProgressCallback

#: Relative projected gradient at which the steps end; rounding may end them before.
TOLERANCE = 1e-7
MAX_STEPS = 200
#: A step is taken if the value falls by this part of what the quadratic model promised.
ACCEPTED = 1e-4
#: Rounding error of the value, as a share of it. A step that promises less is judged by the gradient, which must fall.
ROUNDING = 8 * np.finfo(float).eps
#: Damping relative to the sizes of the curvatures: first, and largest (steps are then of rounding size).
FIRST_DAMPING, LARGEST_DAMPING = 1e-3, 1e12


def mse_hessian(task: DesignProblem, w: np.ndarray) -> np.ndarray:
    """Hessian of the MSE (11) in the weights, (N, N)."""
    L, c = task.L, task.c
    P = task.filter_matrix(w)[0]
    B = c[:, None] * (task.R + task.Sigma_matrix) * c
    cross = c[:, None] * task.R
    X, Q = P @ B @ P, P @ P
    half = P @ (X - (cross + cross.T) / 2 @ P)
    G = half + half.T
    A = L * w
    total = -2.0 * G * L
    for first, second in ((X, Q), (P, G)):
        AX, AY = A @ first, A @ second
        mixed = AX * AY.T
        total += 2.0 * (mixed + mixed.T + (AX @ A.T) * second + first * (AY @ A.T))
    return (total + total.T) / 2


def polish(
    task: DesignProblem, function: ValueAndGradient, end: DescentResult, low: np.ndarray, high: np.ndarray, groups: Groups,
    progress: ProgressCallback | None,
) -> DescentResult:  # fmt: skip
    """Levenberg-damped projected Newton steps from the end of a descent; bounds on ``w_i^2``. Ctrl-C keeps the best."""
    left, right = interval(end.w, low, high)
    v, message, steps = end.w, "", 0
    value, gradient = function(v)
    damping = FIRST_DAMPING
    norm = relative_gradient(v, value, gradient, left, right)
    try:
        with few_threads(task.n_nodes):
            while not message:
                if steps == MAX_STEPS:
                    message = "the iteration limit was reached"
                elif norm <= TOLERANCE:
                    message = "the projected gradient is small"
                else:
                    free = ~(((v <= left) & (gradient > 0)) | ((v >= right) & (gradient < 0)))
                    hessian = _tied(mse_hessian(task, groups.expand(v)), groups)[np.ix_(free, free)]
                    taken, damping = _step(function, v, value, gradient, free, hessian, (left, right), damping)
                    if taken is None:
                        message = "the objective no longer falls"
                        continue
                    steps += 1
                    v, value, gradient = taken
                    norm = relative_gradient(v, value, gradient, left, right)
                    report(progress, end.iterations + steps, value, norm)
    except KeyboardInterrupt:
        message = "interrupted"
    return replace(end, w=v, value=value, gradient_norm=norm, iterations=end.iterations + steps, message=message)


def _step(
    function: ValueAndGradient, v: np.ndarray, value: float, gradient: np.ndarray, free: np.ndarray, hessian: np.ndarray,
    bounds: tuple[np.ndarray, np.ndarray], damping: float,
) -> tuple[tuple[np.ndarray, float, np.ndarray] | None, float]:  # fmt: skip
    """The next point with its value and gradient, and the next damping; None where no step lowers the value."""
    size = np.abs(np.diagonal(hessian))
    size = np.maximum(size, 1e-12 * size.max(initial=1e-300))
    while damping < LARGEST_DAMPING:
        try:
            step = -cho_solve(cho_factor(hessian + np.diag(damping * size), lower=True), gradient[free])
        except LinAlgError:  # not positive definite
            damping *= 4
            continue
        trial = v.copy()
        trial[free] += step
        trial = np.clip(trial, *bounds)
        step = (trial - v)[free]
        promised = -float(gradient[free] @ step + 0.5 * step @ hessian @ step)
        try:
            reached = function(trial) if promised > 0 else None
        except NaregError:  # singular in float64: too far
            reached = None
        if reached is None:
            gain = -np.inf
        elif promised < ROUNDING * abs(value):
            falls = np.linalg.norm(reached[1][free]) < 0.5 * np.linalg.norm(gradient[free])
            gain = 1.0 if falls and reached[0] <= value + ROUNDING * abs(value) else -np.inf
        else:
            gain = (value - reached[0]) / promised
        if reached is not None and gain > ACCEPTED:
            return (trial, *reached), max(damping * (0.3 if gain > 0.75 else 1.0 if gain > 0.25 else 3.0), 1e-12)
        damping *= 4
    return None, damping


def _tied(hessian: np.ndarray, groups: Groups) -> np.ndarray:
    """The Hessian in the groups' weights: sums over their nodes."""
    if groups.index is None:
        return hessian
    rows = np.zeros((groups.count, len(hessian)))
    np.add.at(rows, groups.index, hessian)
    both = np.zeros((groups.count, groups.count))
    np.add.at(both, groups.index, rows.T)
    return both
