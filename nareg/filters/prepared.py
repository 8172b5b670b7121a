"""A filter that is applied many times: what its solver needs is made once."""

from __future__ import annotations

import time
import warnings
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from nareg._core import checks
from nareg._core.arrays import Array, as_numpy, eagerly, empty_like, is_tensor
from nareg._solvers.backends import BackendLike, Petsc, Torch, checking, open_backend, open_torch
from nareg._solvers.direct import ACCURATE
from nareg._solvers.engines import METHODS, Backend, Engines, Method, solve, without_underflow
from nareg._solvers.iterate import Callback, Iterates, Stop
from nareg._solvers.system import FilterSystem, build, data_term, penalty, refuse_singular
from nareg.errors import InputError
from nareg.filters import _amplification, _matrix_amplification
from nareg.filters._matrix_amplification import EXACT_NODES, LARGEST_AMPLIFICATION
from nareg.io import takes_tables
from nareg.progress import Progress, ProgressCallback
from nareg.results import Solution, Status
from nareg.typing import ArrayLike, GraphLike, WeightsLike

if TYPE_CHECKING:
    from nareg._solvers._torch import TorchEngines

#: Fewer masks are solved one by one.
FEWEST = 16
#: Numbers in the matrices that are inverted together.
TOGETHER = 2**21
#: A pivot below this share of its diagonal entry may be rounding.
LEAST_PIVOT = 1e-8


class Denoiser:
    """A filter for one graph and its weights, made by :func:`prepare`.

    The factor or the multigrid levels of the system are made at the first call that needs them, and serve all later ones. A
    pickled one makes its factor again.

    Attributes
    ----------
    method : str
        The solver, as :func:`denoise` takes it.
    n_nodes : int
        Number of nodes N.
    """

    def __init__(
        self, engines: Backend, method: str, tol: float, max_iterations: int | None, backend: BackendLike = "auto"
    ) -> None:
        self._engines, self._backend = engines, backend
        self.method = method
        self._tol, self._max_iterations = tol, max_iterations

    @property
    def n_nodes(self) -> int:
        """Number of nodes N."""
        return self._engines.system.n_nodes

    @property
    def names(self) -> tuple[str, ...] | None:
        """Names of the graph's nodes, with which columns of tables are matched."""
        return self._engines.system.penalty.names

    @eagerly
    @takes_tables("y", like="y")
    def denoise(self, y: ArrayLike, *, progress: ProgressCallback | None = None) -> Solution:
        """Denoise readings, as :func:`denoise` does.

        Parameters
        ----------
        y : (N,) or (N, T) array, tensor or table
        progress : callable, optional

        Returns
        -------
        Solution
        """
        on_torch, callback = self._tensors(y), as_callback(progress)
        if on_torch is not None:
            return on_torch.denoise(y, self._stop(callback))
        with checking(self._backend):
            readings = checks.signals("y", y, self.n_nodes)
        return solve(self._engines, readings, self.method, self._tol, self._max_iterations, callback)

    @eagerly
    @takes_tables("y", "observed", observed="observed", like="y")
    def interpolate(
        self, y: ArrayLike, observed: ArrayLike | None = None, *, progress: ProgressCallback | None = None, stacklevel: int = 2
    ) -> Solution:
        """Denoise what was observed and fill in the rest, as :func:`interpolate` does.

        Above 5,000 nodes the factor or levels for readings at all nodes, where they are there, precondition the systems of
        gaps: a missing reading changes one diagonal entry.

        Parameters
        ----------
        y : (N,) or (N, T) array, tensor or table
        observed : bool array or tensor, (N,) or the shape of y, optional
            Default: where y is finite.
        progress : callable, optional
        stacklevel : int
            Of the warning, as in :func:`warnings.warn`.

        Returns
        -------
        Solution
        """
        on_torch, callback = self._tensors(y), as_callback(progress)
        with checking(self._backend) as compared:
            array = as_numpy(y)
            given = checks.floats("y", array, ndim=(1, 2), finite=False)
            if observed is None:
                checks.lengths("y", given, self.n_nodes)
                observed = np.isfinite(given)
            shape = given.shape
            seen = checks.mask("observed", as_numpy(observed), self.n_nodes, shape[1] if len(shape) == 2 else None)
            readings: Any = checks.partially_observed("y", array, seen, self.n_nodes)
            compared["observed"] = seen
        if on_torch is not None:
            readings = on_torch.readings_where(seen, y)
        replaced, signals = _amplification.Replaced(), 1 if readings.ndim == 1 else readings.shape[1]

        def solved(pattern: np.ndarray, part: Array) -> Solution:
            columns = 1 if part.ndim == 1 else part.shape[1]
            near = _Near(self._engines)
            system = replaced.safe(self._observed(pattern), pattern, columns, near.quick_solve)
            if on_torch is not None:
                solution = on_torch.observed(system, pattern).filtered(part, self._stop(callback))
            else:
                solution = solve(near.of(system), part, self.method, self._tol, self._max_iterations, callback)
            if solution.status is Status.INDEFINITE and system.w is None and not pattern.all():
                _matrix_amplification.refuse_indefinite(system, np.flatnonzero(~pattern))
            return solution

        if seen.ndim == 1:
            parts = [solved(seen, readings)]
            x = parts[0].x
        else:
            patterns, group = np.unique(seen, axis=1, return_inverse=True)
            order = np.argsort(group.ravel(), kind="stable")
            columns = np.split(order, np.cumsum(np.bincount(group.ravel()))[:-1])
            x, parts, done = empty_like(readings), [], np.zeros(len(columns), dtype=bool)
            if self.method in ("auto", "direct") and isinstance(self._engines, Engines) and on_torch is None:
                done, parts = _solve_masks(self._engines.system, patterns, columns, readings, self._tol, x)
            for p in np.flatnonzero(~done):
                parts.append(solved(patterns[:, p], readings[:, columns[p]]))
                x[:, columns[p]] = parts[-1].x
        whole = self._engines.system
        warning = replaced.warning(whole.penalty, whole.w is None, signals)
        if warning is not None:
            warnings.warn(warning, stacklevel=stacklevel + 2)  # the decorators are frames, too
        return _joined(parts, x, 1 if seen.ndim == 1 else len(columns), replaced.note(signals))

    def _tensors(self, y: Any) -> TorchEngines | None:
        """What takes these readings if the answer is a tensor, else None."""
        if isinstance(self._backend, Torch):
            on_torch = cast("TorchEngines", self._engines)
            return on_torch if on_torch.takes(y) else None
        if not is_tensor(y):
            return None
        _refuse_tensor("y", self._backend)
        return self._opened

    @cached_property
    def _opened(self) -> TorchEngines:
        return open_torch(Torch(), cast("Engines", self._engines))

    def _stop(self, callback: Callback | None) -> Stop:
        return Stop(self.method, self._tol, self._max_iterations, callback)

    def _observed(self, pattern: np.ndarray) -> FilterSystem:
        """The system whose data term is zero where nothing was read."""
        c = self._engines.system.c * pattern
        if not c.any():
            raise InputError("data_weight is zero on every observed node: at least one observed node needs a data term.")
        system = replace(self._engines.system, c=c)
        refuse_singular(system)
        return system


class _Near:
    """Solvers of the systems of one mask; those of a matrix S are kept, so that its bound and its filter share a factor."""

    def __init__(self, engines: Backend) -> None:
        self._engines = engines
        self._last: Backend | None = None

    def of(self, system: FilterSystem) -> Backend:
        """The solvers of a system."""
        if system.w is not None:
            return self._engines.near(system)
        if self._last is None or self._last.system is not system:
            self._last = self._engines.near(system)
        return self._last

    def quick_solve(self, system: FilterSystem, rhs: np.ndarray, tol: float) -> Iterates:
        return self.of(system).run("auto", rhs, tol=tol, max_iterations=None, callback=None)[0]


@takes_tables()
def prepare(
    graph: GraphLike,
    weights: WeightsLike,
    *,
    data_weight: ArrayLike | None = None,
    method: Method = "auto",
    tol: float = 1e-8,
    max_iterations: int | None = None,
    backend: BackendLike = "auto",
) -> Denoiser:
    """Prepare a filter for many calls, as on a stream of snapshots.

    Parameters
    ----------
    graph, weights, data_weight, method, tol, max_iterations, backend
        As in :func:`denoise`. ``method="auto"`` expects further calls: where conjugate gradients are slow it makes a factor or
        multigrid levels that thirty calls would pay for, and keeps them.

    Returns
    -------
    Denoiser

    Raises
    ------
    InputError

    Examples
    --------
    >>> import numpy as np, nareg
    >>> g = nareg.graphs.grid((2, 2))
    >>> denoiser = nareg.filters.prepare(g, 1.0)
    >>> for snapshot in ([1.0, 0.0, 0.0, 1.0], [2.0, 0.0, 0.0, 2.0]):
    ...     print(denoiser.denoise(snapshot).x.round(3))
    [0.6 0.4 0.4 0.6]
    [1.2 0.8 0.8 1.2]
    """
    return build_denoiser(graph, weights, data_weight, method, tol, max_iterations, backend, many=True)


def build_denoiser(
    graph: GraphLike, weights: WeightsLike, data_weight: ArrayLike | None, method: Method, tol: float,
    max_iterations: int | None, backend: BackendLike, *, many: bool,
) -> Denoiser:  # fmt: skip
    """:func:`prepare` for one call or many."""
    tensors = {name: value for name, value in (("weights", weights), ("data_weight", data_weight)) if is_tensor(value)}
    if backend == "torch" or (backend == "auto" and tensors):
        backend = Torch()
    options = Petsc()
    if isinstance(backend, Petsc):
        options, backend = backend, "petsc"
    with checking(backend):
        base = penalty(graph)
        checks.choice("method", method, METHODS)
        if options.partition != "none":
            raise InputError(f"partition is {options.partition!r}, but the graph is in memory: it is for graphs in folders.")
        tol = checks.number("tol", tol, low=0, strict=True)
        if max_iterations is not None:
            max_iterations = checks.integer("max_iterations", max_iterations, low=1)
        weights, data_weight = as_numpy(weights), as_numpy(data_weight)
        system = build(base, weights, data_term(data_weight, weights, base.n_nodes))
    if isinstance(backend, Torch):
        return Denoiser(open_torch(backend, Engines(system, many=many), **tensors), method, tol, max_iterations, backend)
    engines = open_backend(backend, system, many=many)
    for name in tensors:
        _refuse_tensor(name, backend)
    if method == "multigrid" and options.multigrid == "hypre":
        return Denoiser(engines, "hypre", tol, max_iterations, backend)
    return Denoiser(engines, method, tol, max_iterations, backend)


def _refuse_tensor(name: str, backend: BackendLike) -> None:
    if backend != "auto":
        raise InputError(
            f"{name} is a torch tensor but backend is {backend!r}: pass backend='torch' or 'auto', or {name}.numpy()."
        )


def as_callback(progress: ProgressCallback | None) -> Callback | None:
    """What a solver calls with its iteration and residual."""
    if progress is None:
        return None
    return lambda iteration, residual: progress(Progress("denoising", iteration, values={"residual": residual}))


def _joined(parts: list[Solution], x: Array, masks: int, note: str) -> Solution:
    """One Solution for several masks: the first failure, the largest residual, messages and seconds added up."""
    slowest = max(parts, key=lambda part: part.iterations)
    failed = [part.status for part in parts if part.status is not Status.CONVERGED]
    return Solution(
        x=x,
        status=failed[0] if failed else Status.CONVERGED,
        method=parts[0].method + (f" ({masks} masks)" if masks > 1 else "") + note,
        iterations=slowest.iterations,
        residuals=slowest.residuals,
        residual=max(part.residual for part in parts),
        rounds=slowest.rounds,
        messages=None if slowest.messages is None else sum(part.messages or 0 for part in parts),
        timings={"total": sum(part.timings["total"] for part in parts)},
    )


def _solve_masks(
    system: FilterSystem, masks: np.ndarray, columns: list[np.ndarray], y: np.ndarray, tol: float, x: np.ndarray
) -> tuple[np.ndarray, list[Solution]]:
    """Solve for ``masks`` (N, P), of which each has some ``columns`` of y, into ``x``; which were solved, and how well.

    By dense inverses of a small network, many at once. A mask is left to the solvers of one mask, which refuse, refine or warn,
    unless its matrix is clearly positive definite, no estimate can exceed the readings by much, and rounding is far below the
    tolerance.
    """
    started, n = time.perf_counter(), system.n_nodes
    solved = np.zeros(masks.shape[1], dtype=bool)
    if system.w is not None or n > EXACT_NODES or solved.size < FEWEST:
        return solved, []
    S, readings, unit = system.S.toarray(), *without_underflow(y.astype(np.float64, copy=False))
    C, worst, limit = system.c * masks.T, 0.0, min(tol, ACCURATE)
    for part in np.array_split(np.arange(solved.size), -(-solved.size * n * n // TOGETHER)):
        K = np.repeat(S[None], part.size, axis=0)
        diagonal = K[:, np.arange(n), np.arange(n)] + C[part]
        K[:, np.arange(n), np.arange(n)] = diagonal
        try:
            pivots = np.linalg.cholesky(K)[:, np.arange(n), np.arange(n)] ** 2
        except np.linalg.LinAlgError:
            continue
        inverses = np.linalg.inv(K)
        sums = np.where(masks.T[part], 0.0, np.matmul(np.abs(inverses), C[part][:, :, None])[:, :, 0])
        safe = C[part].any(axis=1) & (sums <= LARGEST_AMPLIFICATION).all(axis=1) & (pivots > LEAST_PIVOT * diagonal).all(axis=1)
        for k in np.flatnonzero(safe):
            where = columns[part[k]]
            rhs = C[part[k], :, None] * readings[:, where]
            z = inverses[k] @ rhs
            z += inverses[k] @ (rhs - K[k] @ z)
            error = _error(K[k], inverses[k], diagonal[k], z, rhs)
            if error <= limit:
                x[:, where] = z if unit is None else z * unit[where]
                solved[part[k]], worst = True, max(worst, error)
    seconds = {"total": time.perf_counter() - started}
    done = Solution(x, Status.CONVERGED, "direct [dense inverses]", 0, np.array([worst]), worst, timings=seconds)
    return solved, [done] if solved.any() else []


def _error(K: np.ndarray, inverse: np.ndarray, diagonal: np.ndarray, x: np.ndarray, rhs: np.ndarray) -> float:
    """The largest relative residual, of K and over its diagonal, and error of an entry that rounding K can cause."""
    left = rhs - K @ x
    shares = [
        np.linalg.norm(a, axis=0) / np.maximum(np.linalg.norm(b, axis=0), 1e-300)
        for a, b in ((left, rhs), (left / diagonal[:, None], rhs / diagonal[:, None]))
    ]
    largest = np.max(np.abs(x) / np.maximum(np.abs(x).max(axis=0), 1e-300), axis=1)
    rounding = np.finfo(float).eps * (np.abs(inverse) @ (np.abs(K) @ largest)).max()
    return float(max(shares[0].max(), shares[1].max(), rounding))
