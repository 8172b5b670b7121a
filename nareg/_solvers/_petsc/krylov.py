"""PETSc's conjugate gradients, preconditioned by Jacobi, by its own algebraic multigrid (GAMG), or by hypre.

Multigrid works on ``M u = s rhs`` with ``u = x / s``. The residual of M is ``s`` times that of K, and it is K's that decides
when to stop, plain and scaled by the inverse diagonal. Signals are solved one after another with the same preconditioner.
Numbers that decide are the same on all ranks, so that all take the same branch.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from nareg._solvers._petsc.matrices import DistributedSystem
from nareg._solvers._petsc.ranks import load
from nareg._solvers.iterate import Callback, Iterates
from nareg.errors import InputError, SolverError
from nareg.results import Status

#: Options of the multigrid preconditioners begin so; users may set them in the variable PETSC_OPTIONS.
PREFIX = "nareg_multigrid_"
#: Two smoothing steps by Chebyshev and Jacobi: symmetric, and the same whatever the number of ranks.
SETTINGS: dict[str, dict[str, Any]] = {
    "gamg": {
        "pc_gamg_agg_nsmooths": 1,
        "mg_levels_ksp_type": "chebyshev",
        "mg_levels_ksp_max_it": 2,
        "mg_levels_pc_type": "jacobi",
    },
    "hypre": {"pc_hypre_type": "boomeramg"},
}


class Krylov:
    """One system and one preconditioner, which is made once and serves all signals and all calls.

    Parameters
    ----------
    system : DistributedSystem
    kind : {"jacobi", "gamg", "hypre"}
    """

    def __init__(self, system: DistributedSystem, kind: str) -> None:
        self.system, self.kind = system, kind
        library = load()
        PETSc = library.PETSc
        self._scale = None if kind == "jacobi" else system.scale
        operator = system.K if kind == "jacobi" else system.inner()
        self._ksp = PETSc.KSP().create(library.comm)
        self._ksp.setOperators(operator)
        self._ksp.setType("cg")
        self._ksp.setNormType(PETSc.KSP.NormType.UNPRECONDITIONED)
        preconditioner = self._ksp.getPC()
        if kind == "jacobi":
            preconditioner.setType("jacobi")
        else:
            _multigrid(preconditioner, kind)
        try:
            self._ksp.setUp()
        except PETSc.Error as error:  # the same on all ranks
            raise SolverError(
                f"PETSc cannot set up its {kind} preconditioner ({_first_line(error)}): take method='cg'."
            ) from None
        self._b, self._x = operator.createVecs()[::-1]

    def update(self, system: DistributedSystem) -> None:
        """Another system of the same pattern; Jacobi follows its diagonal, multigrid keeps its levels."""
        self.system = system
        if self.kind == "jacobi":
            self._ksp.setOperators(system.K)
            return
        self._scale = system.scale
        _, made = self._ksp.getOperators()
        self._ksp.setOperators(system.inner(), made)
        self._ksp.getPC().setReusePreconditioner(True)

    def solve(
        self,
        rhs: np.ndarray,
        *,
        tol: float,
        max_iterations: int,
        callback: Callback | None = None,
        x0: np.ndarray | None = None,
    ) -> Iterates:
        """Solve ``K x = rhs`` for the local rows (n, T) of all signals."""
        result = Iterates(np.zeros_like(rhs), 0, [0.0])
        s = 1.0 if self._scale is None else self._scale.array
        for t in range(rhs.shape[1]):
            stop = _Stop(self.system, rhs[:, t], tol, callback, self._scale)
            if stop.zero:
                continue
            self._ksp.setConvergenceTest(stop)
            self._ksp.setTolerances(max_it=max_iterations)
            self._ksp.setInitialGuessNonzero(x0 is not None)
            self._b.array[:] = s * rhs[:, t]
            if x0 is not None:
                self._x.array[:] = x0[:, t] / s
            self._ksp.solve(self._b, self._x)
            if stop.raised is not None:
                raise stop.raised
            result.x[:, t] = s * self._x.array
            if len(stop.history) > result.iterations:
                result.iterations, result.residuals = len(stop.history) - 1, stop.history
            status = self._status()
            result.status = result.status if status is Status.CONVERGED else status
        return result

    def _status(self) -> Status:
        reasons = load().PETSc.KSP.ConvergedReason
        reason = self._ksp.getConvergedReason()
        if reason > 0:
            return Status.CONVERGED
        if reason == reasons.DIVERGED_MAX_IT:
            return Status.MAX_ITERATIONS
        return Status.INDEFINITE if reason == reasons.DIVERGED_INDEFINITE_MAT else Status.STALLED

    @property
    def note(self) -> str:
        """What the levels are."""
        if self.kind == "jacobi":
            return ""
        PC = self._ksp.getPC()
        return f"{PC.getMGLevels()} levels" if self.kind == "gamg" else ""


class _Stop:
    """PETSc's convergence test: both residuals of K below the tolerance; records the plain one, and calls the callback.

    The scaled residual is computed when the plain one is small enough, as it costs a pass over the vectors.
    """

    def __init__(self, system: DistributedSystem, rhs: np.ndarray, tol: float, callback: Callback | None, scale: Any) -> None:
        self._inverse, self._tol, self._callback, self._scale = system.inverse_diagonal, tol, callback, scale
        self._residual = system.diagonal.copy()
        self._residual.array[:] = rhs
        self._norms = [self._residual.norm(), self._scaled_norm()]
        self.zero = self._norms[0] == 0
        self.history: list[float] = []
        self.raised: BaseException | None = None

    def __call__(self, ksp: Any, iteration: int, norm: float) -> Any:
        reasons = load().PETSc.KSP.ConvergedReason
        if self._scale is not None:
            self._true_residual(ksp)
            norm = self._residual.norm()
        relative = norm / self._norms[0]
        self.history.append(relative)
        if not np.isfinite(relative):
            return reasons.DIVERGED_NANORINF
        self._report(iteration, relative)
        if self.raised is not None:
            return reasons.DIVERGED_BREAKDOWN
        if relative <= self._tol:
            if self._scale is None:
                self._true_residual(ksp)
            if self._scaled_norm() <= self._tol * self._norms[1]:
                return reasons.CONVERGED_RTOL
        return reasons.CONVERGED_ITERATING if iteration < ksp.max_it else reasons.DIVERGED_MAX_IT

    def _true_residual(self, ksp: Any) -> None:
        """K's residual from that of the operator PETSc iterates on."""
        ksp.buildResidual(self._residual)
        if self._scale is not None:
            self._residual.pointwiseDivide(self._residual, self._scale)

    def _scaled_norm(self) -> float:
        """Of the residual over the diagonal; the residual is lost."""
        self._residual.pointwiseMult(self._residual, self._inverse)
        return float(self._residual.norm())

    def _report(self, iteration: int, relative: float) -> None:
        if self._callback is not None:
            try:
                self._callback(iteration, relative)
            except BaseException as error:  # must not pass through PETSc's C code: raised again after it
                self.raised = error


def _multigrid(preconditioner: Any, kind: str) -> None:
    if kind == "hypre" and not load().PETSc.Sys.hasExternalPackage("hypre"):
        raise InputError("this PETSc was built without hypre: take multigrid='gamg', which every PETSc has.")
    with _options(SETTINGS[kind]):
        preconditioner.setOptionsPrefix(PREFIX)
        try:
            preconditioner.setType(kind)
            preconditioner.setFromOptions()
        except load().PETSc.Error as error:
            raise InputError(
                f"PETSc refuses the options -{PREFIX}... in PETSC_OPTIONS ({_first_line(error)}): correct or unset them."
            ) from None


@contextmanager
def _options(settings: dict[str, Any]) -> Iterator[None]:
    """Our settings in PETSc's options, where the user set none."""
    options = load().PETSc.Options(PREFIX)
    ours = [name for name in settings if not options.hasName(name)]
    for name in ours:
        options[name] = settings[name]
    try:
        yield
    finally:
        for name in ours:
            del options[name]


def _first_line(error: Any) -> str:
    lines = [line for line in str(error).splitlines() if "]" in line]
    return (lines[-1].partition("] ")[2] if lines else str(error)).strip()
