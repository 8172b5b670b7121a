"""Filters for signals that are known from a small sample only: the worst second moment in a ball, noise in an interval.

The worst second moment in a ball around the sample's, for an error that is linear in it: ``max <X, R>`` for PSD X.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any, ClassVar, Self

import numpy as np
from scipy.optimize import brentq

from nareg._core import checks
from nareg._solvers.system import Penalty, penalty
from nareg.design._convex.filter_fit import fit_weights_to
from nareg.design._convex.solving import Optimum
from nareg.design._risk.checked import DesignEnd, local_status
from nareg.design._risk.descent import ValueAndGradient, descend
from nareg.design._risk.problem import DesignProblem, half, problem
from nareg.design.programs._program import Program
from nareg.design.programs.relaxation import FilterProgram
from nareg.errors import InputError
from nareg.io import takes_tables
from nareg.progress import ProgressCallback
from nareg.results import DesignDetails, WeightDesign
from nareg.typing import ArrayLike, GraphLike

BALLS = ("frobenius", "wasserstein")


def worst_moment(X: np.ndarray, R: np.ndarray, radius: float, ball: str) -> tuple[np.ndarray, float]:
    """The worst moment, and the dual value, which no moment in the ball exceeds.

    Frobenius, ``||R' - R||_F <= radius``: the ball's point in the direction of X, with value ``<X, R> + radius ||X||_F``.
    Wasserstein, for Gaussian signals of mean zero: with gamma above every eigenvalue of X

        max <X, R'> = min_gamma  gamma (radius^2 - tr R) + gamma^2 tr(R (gamma I - X)^-1)
                    = min_gamma  gamma radius^2 + tr(R X) + tr(R X (gamma I - X)^-1 X)

    (Nguyen, Shafieezadeh-Abadeh, Kuhn, Mohajerin Esfahani 2023), attained by ``M R M``, ``M = gamma (gamma I - X)^-1``.
    """
    if radius == 0:
        return R, float(np.sum(X * R))
    if ball == "frobenius":
        size = float(np.linalg.norm(X))
        return R + radius * X / max(size, 1e-300), float(np.sum(X * R)) + radius * size
    x, Q = np.linalg.eigh(X)
    x = x.clip(0)
    if x[-1] == 0:
        return R, 0.0
    r = np.einsum("ik,ij,jk->k", Q, R, Q).clip(0)

    def slope(excess: float) -> float:
        """Derivative of the dual in gamma over ``gamma = x_max (1 + excess)``: it rises."""
        return radius**2 - float(np.sum(r * (x / (x[-1] * (1 + excess) - x)) ** 2))

    low, high = 1e-12, 1.0
    while slope(high) < 0:
        high *= 4
    excess = brentq(slope, low, high, xtol=1e-15, rtol=1e-12) if slope(low) < 0 else low
    gamma = float(x[-1]) * (1 + excess)
    M = (Q * (gamma / (gamma - x))) @ Q.T
    return M @ R @ M, gamma * radius**2 + float(np.sum(r * gamma * x / (gamma - x)))


#: The program has inequalities of two rows per node where the noise differs between nodes.
MATRIX_NODES = 60


@takes_tables("signals", "measurements")
def robust(
    graph: GraphLike,
    *,
    signals: ArrayLike | None = None,
    measurements: ArrayLike | None = None,
    noise: ArrayLike,
    noise_high: ArrayLike | None = None,
    radius: float,
    ball: str = "frobenius",
    lower: ArrayLike | None = None,
    upper: ArrayLike | None = None,
) -> Program:
    """Build the program of the smallest worst error over second moments near the sample's, and noise in an interval.

    ``min_H max_R tr((H - I)^2 R) + tr(H^2 Sigma)`` over all R with ``||R - R_hat||_F <= radius``, or all whose Gaussian
    signals are within ``radius`` of the sample's in Wasserstein's distance. The maximum is replaced by its dual, which is
    exact. :meth:`Program.solve` fits weights to H (30), and descends on the worst error itself.

    Parameters
    ----------
    graph : Graph or (N, N) operator
    signals : (N,) or (N, T) array, optional
        Clean training signals: ``R_hat = X X^T / T``.
    measurements : (N, T) array, optional
        Noisy ones: ``R_hat = Y Y^T / T - noise``, without its negative part; exactly one of the two.
    noise : number or (N,) array
        Noise variance(s); the least possible where ``noise_high`` is given.
    noise_high : number or (N,) array, optional
        The largest possible noise variance(s).
    radius : float
        Of the ball: in units of the second moment (Frobenius), or of the signal times sqrt(N) (Wasserstein).
    ball : {"frobenius", "wasserstein"}
    lower, upper : number or (N,) array, optional
        Bounds on the squared weights; none below by default.

    Returns
    -------
    Program
        The design's ``objective`` is the worst error of its weights, ``certificate.details`` has it between
        ``"worst_case_lower"``, the error at one moment of the ball, and ``"worst_case_upper"``, proven by the dual.
        ``"worst_mse"`` is that of the best symmetric filter, which no weights beat.

    Examples
    --------
    >>> import numpy as np, nareg
    >>> g = nareg.graphs.grid((3, 3))
    >>> x = np.random.default_rng(0).standard_normal((9, 5)).cumsum(axis=0)
    >>> design = nareg.design.programs.robust(g, signals=x, noise=0.5, radius=2.0).solve()
    >>> details = design.certificate.details
    >>> bool(details["worst_mse"] <= details["worst_case_lower"] <= details["worst_case_upper"] * (1 + 1e-9))
    True
    """
    checks.choice("ball", ball, BALLS)
    make = partial(_sample_problem, penalty(graph))
    data = {
        "signals": signals, "measurements": measurements, "noise": noise, "noise_high": noise_high, "radius": radius,
    }  # fmt: skip
    return RobustProgram(make, data, 0.0 if lower is None else lower, upper, ball)


def _sample_problem(
    base: Penalty, *, signals: Any, measurements: Any, noise: Any, noise_high: Any, radius: Any
) -> DesignProblem:
    if (signals is None) == (measurements is None):
        raise InputError("robust needs exactly one of signals (clean) and measurements (noisy).")
    checks.number("radius", radius, low=0.0)
    largest = noise if noise_high is None else noise_high
    task = problem(
        base, signals=measurements if signals is None else signals, noise=largest, needs="robust", noise_required=True
    )
    assert task.Sigma is not None
    if task.Sigma.ndim > 1:
        raise InputError("noise is a covariance: pass a variance per station.")
    return task


class RobustProgram(FilterProgram):
    """``min_H max_k max_(R near R_k) tr((H - I)^2 R) + tr(H^2 Sigma_k)``."""

    title = "True error at the worst second moment near the sample's"
    method = "robust"
    formula = (
        "minimize    max over R, Sigma of tr((H - I)^2 R) + tr(H^2 Sigma)\n"
        "            R in a ball around the sample's, Sigma at an end of its interval"
    )
    detail = "worst_mse"
    settings: ClassVar[dict[str, dict[str, Any]]] = {}

    def __init__(self, make: Any, data: dict[str, Any], lower: Any, upper: Any, ball: str) -> None:
        self.ball = ball
        super().__init__(make, data, lower, upper, "cliques")

    @property
    def scenarios(self) -> list[DesignProblem]:
        """The ends of the noise interval; of clean signals the upper end alone, for the error grows with the noise."""
        return self._scenarios(self.task)

    def _scenarios(self, task: DesignProblem) -> list[DesignProblem]:
        assert task.Sigma is not None
        high = task.Sigma
        if self.data["measurements"] is None:
            return [task]
        low = checks.noise("noise", self.data["noise"], task.n_nodes)
        ends = [high] if np.array_equal(low, high) else [low, high]
        return [replace(task, R=_positive(task.R - np.diag(end)), Sigma=end) for end in ends]

    def _checked(self) -> DesignProblem:
        task = super()._checked()
        scenarios = self._scenarios(task)
        noises = [np.diagonal(s.Sigma_matrix) for s in scenarios]
        shape = len(scenarios), all(np.ptp(noise) <= 1e-12 * noise.max() for noise in noises)
        if shape != getattr(self, "_shape", shape):
            raise InputError("noise: equal or not, known or an interval, it is part of the program: build another.")
        self._shape = shape
        self.equal_noise = shape[1]
        return task

    def _dense_rows(self, n: int) -> list[int]:
        return []  # none with equal noise, and else no more nodes than MATRIX_NODES

    def _assemble(self) -> tuple[Any, list[Any], list[Any]]:
        import cvxpy as cp

        scenarios, n = self.scenarios, self.task.n_nodes
        self.unit = float(np.trace(self.task.R))
        if not self.equal_noise:
            _refuse_matrices(n)
        self.parameters["radius"] = cp.Parameter(nonneg=True, name="radius")
        self.parameters["radius_square"] = cp.Parameter(nonneg=True, name="radius_square")
        worst = cp.Variable(name="t")
        own = self._spectral(len(scenarios), worst) if self.equal_noise else self._matrices(len(scenarios), worst)
        return worst, own, []

    def _spectral(self, count: int, worst: Any) -> list[Any]:
        """With equal noise the optimal H has the eigenvectors of R_hat, so that its eigenvalues are the unknowns.

        R_hat, the ball and the noise do not change when an eigenvector changes sign, and the worst error is convex: the mean
        of H over all signs is no worse, and is diagonal in this basis.
        """
        import cvxpy as cp

        n = self.task.n_nodes
        self.h = cp.Variable(n, name="h")
        square = cp.Variable(n, nonneg=True)
        own: list[Any] = [cp.square(1 - self.h) <= square]
        for k in range(count):
            r = self.parameters[f"moment {k}"] = cp.Parameter(n, nonneg=True, name=f"moment {k}")
            noise = self.parameters[f"noise {k}"] = cp.Parameter(nonneg=True, name=f"noise {k}")
            variance = cp.sum_squares(noise * self.h)
            if self.ball == "frobenius":
                bias = r @ square + self.parameters["radius"] * cp.norm(square, 2)
            else:
                gamma = cp.Variable(nonneg=True)
                root = self.parameters[f"root {k}"] = cp.Parameter(n, nonneg=True, name=f"root {k}")
                ratios = [cp.quad_over_lin(root[i] * square[i], gamma - square[i]) for i in range(n)]
                bias = gamma * self.parameters["radius_square"] + r @ square + cp.sum(cp.hstack(ratios))
            own.append(bias + variance <= worst)
        return own

    def _matrices(self, count: int, worst: Any) -> list[Any]:
        """The program in N x N matrices, with ``X >= (H - I)^2`` by Schur's complement."""
        import cvxpy as cp

        n, identity = self.task.n_nodes, np.eye(self.task.n_nodes)
        self.white_H = cp.Variable((n, n), PSD=True, name="H")
        self.white_S = self.matrix.times(self.white_L)
        self.H = self.variables["H"] = self.white_H
        X = cp.Variable((n, n), PSD=True, name="X")
        block = cp.bmat([[X, self.white_H - identity], [self.white_H - identity, identity]])
        own: list[Any] = [(block + block.T) / 2 >> 0]
        for k in range(count):
            R = self.parameters[f"moment {k}"] = cp.Parameter((n, n), symmetric=True, name=f"moment {k}")
            root = self.parameters[f"root {k}"] = cp.Parameter((n, n), name=f"root {k}")
            noise = self.parameters[f"noise {k}"] = cp.Parameter((n, n), diag=True, name=f"noise {k}")
            variance = cp.sum_squares(self.white_H @ noise)
            if self.ball == "frobenius":
                bias = cp.trace(R @ X) + self.parameters["radius"] * cp.norm(X, "fro")
            else:
                gamma, Z = cp.Variable(nonneg=True), cp.Variable((n, n), PSD=True)
                inner = cp.bmat([[gamma * identity - X, X @ root], [root.T @ X, Z]])
                own.append((inner + inner.T) / 2 >> 0)
                bias = gamma * self.parameters["radius_square"] + cp.trace(R @ X) + cp.trace(Z)
            own.append(bias + variance <= worst)
        return own

    def _data_parameters(self) -> None:
        radius, unit = float(self.data["radius"]), self.unit
        scaled = radius / (unit if self.ball == "frobenius" else np.sqrt(unit))
        self.parameters["radius"].value, self.parameters["radius_square"].value = scaled, scaled**2
        for k, scenario in enumerate(self.scenarios):
            if self.equal_noise:
                if k == 0:  # of the least noise, whose basis is one of the other moment as well
                    self.basis = np.linalg.eigh(scenario.R)[1]
                values = np.einsum("ik,ij,jk->k", self.basis, scenario.R / unit, self.basis)
                self.parameters[f"moment {k}"].value = values.clip(0)
                if self.ball == "wasserstein":
                    self.parameters[f"root {k}"].value = np.sqrt(values.clip(0))
                self.parameters[f"noise {k}"].value = float(np.sqrt(scenario.Sigma_matrix[0, 0] / unit))
            else:
                F = half(scenario.R / unit)
                self.parameters[f"moment {k}"].value = scenario.R / unit
                self.parameters[f"root {k}"].value = np.pad(F, ((0, 0), (0, len(F) - F.shape[1])))
                self.parameters[f"noise {k}"].value = np.sqrt(scenario.Sigma_matrix / unit)

    def _filter(self) -> np.ndarray | None:
        if self.equal_noise:
            return (self.basis * self.h.value) @ self.basis.T
        return super()._filter()

    def add(self, *constraints: Any) -> Self:
        """Add constraints over the filter, where the noise differs between stations; see :meth:`Program.add`."""
        if self.equal_noise:
            raise InputError("constraints: with equal noise the unknowns are eigenvalues of H: use filter_step.")
        return super().add(*constraints)

    def worst(self, w: np.ndarray) -> tuple[float, float, DesignProblem]:
        """The worst error of weights: at a moment of the ball, its dual bound, and the problem at that moment."""
        H = self.task.filter_matrix(w)[1]
        E = H - np.eye(len(H))
        X = E @ E.T
        ends = []
        for scenario in self.scenarios:
            moment, bias = worst_moment(X, scenario.R, float(self.data["radius"]), self.ball)
            variance = scenario.variance(H)
            ends.append((float(np.sum(X * moment)) + variance, bias + variance, replace(scenario, R=moment)))
        return max(ends, key=lambda end: end[1])

    def objective(self) -> ValueAndGradient:
        """The worst error of weights; its gradient is that at the worst moment (Danskin)."""
        return lambda w: self.worst(w)[2].mse_and_gradient(w)

    def _finish(self, optimum: Optimum, scale: str, progress: ProgressCallback | None) -> WeightDesign:
        assert optimum.H is not None
        ending = optimum.ending
        objective = self.objective()
        starts = {"fit to H": fit_weights_to(self.task, optimum.H, (self.lower, self.upper), progress).weights}
        starts["one weight"] = self._one_weight()
        reached = {name: descend(objective, w, self.lower, self.upper, progress=progress) for name, w in starts.items()}
        best = min(reached.values(), key=lambda d: d.value)
        below, above, _ = self.worst(best.w)
        details: DesignDetails = {
            "worst_mse": optimum.value, "worst_case_lower": below, "worst_case_upper": above,
            "sdp_status": ending.solver_status, "starts": {name: d.value for name, d in reached.items()},
        }  # fmt: skip
        end = DesignEnd(local_status(best, ending.status), ending.solver, best.message, best.gradient_norm, details)
        return self.task.pack(
            self.method, best.w, above, (self.lower, self.upper), end,
            timings={"build": self.build_seconds, "sdp": ending.seconds},
            settings={"radius": float(self.data["radius"]), "ball": self.ball},
        )  # fmt: skip

    def _one_weight(self) -> np.ndarray:
        """The best of single weights for the worst error, on a grid."""
        largest = float(self.task.spectrum[0][-1]) or 1.0
        ones = np.ones(self.task.n_nodes)
        low, high = np.sqrt(self.lower), np.sqrt(self.upper)
        candidates = [np.clip(np.sqrt(s / largest) * ones, low, high) for s in np.geomspace(1e-3, 1e3, 31)]
        return min(candidates, key=lambda w: self.worst(w)[1])


def _positive(R: np.ndarray) -> np.ndarray:
    """The nearest PSD matrix."""
    values, vectors = np.linalg.eigh(R)
    return (vectors * values.clip(0)) @ vectors.T


def _refuse_matrices(n: int) -> None:
    if n > MATRIX_NODES:
        raise InputError(
            f"noise differs between stations: the program then has matrices of {2 * n} rows; pass one variance, or a part of "
            "the network (graph.subgraph)."
        )
