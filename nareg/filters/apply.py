"""Apply a designed filter: ``denoise`` and ``interpolate`` choose a solver and check what it returned."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable
from typing import Literal, get_args

import numpy as np

from nareg import _checks
from nareg._operator import FilterSystem, build, data_term, filter_matrix, penalty
from nareg.errors import InputError, SolverError
from nareg.filters import _amplification, cg, chebyshev, direct, multigrid, recursion
from nareg.filters._amplification import LARGEST_AMPLIFICATION as LARGEST_AMPLIFICATION
from nareg.filters._iterate import Callback, Iterates
from nareg.results import Solution, Status
from nareg.typing import ArrayLike, GraphLike, WeightsLike

Method = Literal["auto", "direct", "cg", "multigrid", "jacobi", "chebyshev", "recursion"]
METHODS = get_args(Method)
#: Up to here a factorization takes milliseconds.
SMALL = 5_000
#: Jacobi-CG that has not converged by then is on a mesh with smooth weights: multigrid takes over.
PATIENCE = 150
MAX_ITERATIONS = {"cg": 10_000, "multigrid": 500, "jacobi": 200_000, "chebyshev": 200_000, "recursion": 200_000}


def denoise(
    graph: GraphLike,
    weights: WeightsLike,
    y: ArrayLike,
    *,
    fit: ArrayLike | None = None,
    method: Method = "auto",
    tol: float = 1e-8,
    max_iterations: int | None = None,
    callback: Callback | None = None,
) -> Solution:
    """Denoise graph signals: solve ``(C + S) x = C y`` with ``S = diag(w) L diag(w)`` and ``C = diag(fit)``.

    With ``fit=None`` this is the node-adaptive Tikhonov estimate ``(I + S)^-1 y``, equation (10).

    Parameters
    ----------
    graph : Graph or (N, N) symmetric PSD operator
        Supplies L.
    weights : (N,) array, number, WeightDesign or (N, N) sparse S
        Node weights w. A number is one weight for all nodes (the Tikhonov parameter is its square).
    y : (N,) or (N, T) array
        Readings, finite. float32 in, float32 out (computed in float64).
    fit : (N,) array, optional
        Data-term weights c >= 0; ``1 / variance`` for readings of unequal quality, 0 for an unobserved
        node. Default: a design's own, else ones.
    method : {"auto", "direct", "cg", "multigrid", "jacobi", "chebyshev", "recursion"}
        ``"auto"`` factorizes up to 5,000 nodes. Above, it runs Jacobi-preconditioned CG, and switches to multigrid where CG is
        slow on a mesh-like graph. The last three are distributed recursions; ``"recursion"`` is equation (19) and refuses
        weights for which it diverges.
    tol : float
        Relative residual ``||c y - K x|| / ||c y||`` of every signal at which iterative methods stop, and which
        ``CONVERGED`` guarantees. Where weights are so large that rounding x to float64 would exceed it, ``"direct"`` solves in
        twice the precision. The residual is then that of the solution before rounding.
    max_iterations : int, optional
        Default: 10,000 for CG, 500 for multigrid, 200,000 rounds for the distributed recursions.
    callback : callable, optional
        ``callback(iteration, largest relative residual)``.

    Returns
    -------
    Solution

    Raises
    ------
    InputError
        For input that cannot work; :class:`~nareg.errors.SingularSystemError` names a part of the graph
        without data, :class:`~nareg.errors.DivergentMethodError` a recursion that would diverge.

    References
    ----------
    Yang, Coutino, Leus, Isufi, "Node-Adaptive Regularization for Graph Signal Reconstruction", IEEE OJSP
    2021, equations (9), (10), (18), (19).

    Examples
    --------
    >>> import numpy as np, nareg
    >>> g = nareg.graphs.grid((2, 2))
    >>> solution = nareg.filters.denoise(g, 1.0, np.array([1.0, 0.0, 0.0, 1.0]))
    >>> solution.x.round(3)
    array([0.6, 0.4, 0.4, 0.6])
    >>> solution.status.name
    'CONVERGED'
    """
    base = penalty(graph)
    readings = _checks.signals("y", y, base.n_nodes)
    system = build(base, weights, data_term(fit, weights, base.n_nodes))
    return _solve(system, readings, method, tol, max_iterations, callback)


def interpolate(
    graph: GraphLike,
    weights: WeightsLike,
    y: ArrayLike,
    observed: ArrayLike,
    *,
    fit: ArrayLike | None = None,
    method: Method = "auto",
    tol: float = 1e-8,
    max_iterations: int | None = None,
    callback: Callback | None = None,
) -> Solution:
    """Denoise observed readings and fill in the others: the data-term weight is zero where ``observed`` is False.

    Parameters
    ----------
    graph, weights, fit, method, tol, max_iterations, callback
        As in :func:`denoise`; ``fit`` holds for the observed nodes.
    y : (N,) or (N, T) array
        Readings; any value, NaN included, where not observed.
    observed : bool array, (N,) or the shape of y
        True where a reading was taken. Signals that share a mask are solved together.

    Returns
    -------
    Solution

    Raises
    ------
    SingularSystemError
        If a connected part of the graph (over edges whose weights are not zero) has no observed node; the
        message names its nodes.

    Warns
    -----
    AmplificationWarning
        If the estimate at an unobserved node could exceed twice the largest reading. With ``u = w x`` that estimate is the
        mean of the neighbors' u, divided by the node's own w: a weight near zero inflates it. Such an estimate is not
        returned. In those signals unobserved nodes take the mean of their neighbors' ``|w|`` instead, which leaves the
        estimates of observed nodes unchanged. Where that is not enough, all nodes take one weight, the geometric mean.
        ``method`` says in how many signals. To avoid it, design with ``fit`` zero at nodes that will not be observed.

    Examples
    --------
    >>> import numpy as np, nareg
    >>> path = nareg.graphs.grid((3,))
    >>> y = np.array([1.0, np.nan, 3.0])
    >>> nareg.filters.interpolate(path, 0.01, y, np.isfinite(y)).x.round(3)
    array([1., 2., 3.])
    """
    base = penalty(graph)
    shape = _checks.floats("y", y, ndim=(1, 2), finite=False).shape
    seen = _checks.mask("observed", observed, base.n_nodes, shape[1] if len(shape) == 2 else None)
    readings = _checks.partially_observed("y", y, seen, base.n_nodes)
    c = data_term(fit, weights, base.n_nodes)
    replaced, signals = _amplification.Replaced(), 1 if readings.ndim == 1 else readings.shape[1]

    def system_for(pattern: np.ndarray, count: int) -> FilterSystem:
        system = build(base, weights, _observed_fit(c, pattern))
        return replaced.safe(system, pattern, count, lambda s, rhs, accuracy: _auto(s, rhs, accuracy, None, None)[0])

    if seen.ndim == 1:
        parts = [_solve(system_for(seen, signals), readings, method, tol, max_iterations, callback)]
        x = parts[0].x
    else:
        patterns, group = np.unique(seen, axis=1, return_inverse=True)
        x, parts = np.empty_like(readings), []
        for p in range(patterns.shape[1]):
            columns = group.ravel() == p
            system = system_for(patterns[:, p], int(columns.sum()))
            parts.append(_solve(system, readings[:, columns], method, tol, max_iterations, callback))
            x[:, columns] = parts[-1].x
    warning = replaced.warning(base, signals)
    if warning is not None:
        warnings.warn(warning, stacklevel=2)
    return _joined(parts, x, replaced.note(signals))


def _observed_fit(c: np.ndarray, seen: np.ndarray) -> np.ndarray:
    c = c * seen
    if not c.any():
        raise InputError("fit is zero on every observed node: at least one observed node needs a data term.")
    return c


def _joined(parts: list[Solution], x: np.ndarray, note: str) -> Solution:
    """One Solution for several masks: the first failure, the largest residual, messages and seconds added up."""
    slowest = max(parts, key=lambda part: part.iterations)
    failed = [part.status for part in parts if part.status is not Status.CONVERGED]
    return Solution(
        x=x,
        status=failed[0] if failed else Status.CONVERGED,
        method=parts[0].method + (f" ({len(parts)} masks)" if len(parts) > 1 else "") + note,
        iterations=slowest.iterations,
        residuals=slowest.residuals,
        residual=max(part.residual for part in parts),
        rounds=slowest.rounds,
        messages=None if slowest.messages is None else sum(part.messages or 0 for part in parts),
        timings={"total": sum(part.timings["total"] for part in parts)},
    )


def _solve(
    system: FilterSystem,
    y: np.ndarray,
    method: str,
    tol: float,
    max_iterations: int | None,
    callback: Callback | None,
) -> Solution:
    """Run one method on checked input and recompute the residual of what it returned."""
    method = _checks.choice("method", method, METHODS)
    tol = _checks.number("tol", tol, low=0, strict=True)
    if max_iterations is not None:
        max_iterations = _checks.integer("max_iterations", max_iterations, low=1)
    start = time.perf_counter()
    columns, unit = _without_underflow(y.reshape(system.n_nodes, -1).astype(np.float64, copy=False))
    rhs = columns if (system.c == 1).all() else system.c[:, None] * columns  # solvers do not write to it
    if system.w is None and not _definite(system):
        result, label = Iterates(np.zeros_like(rhs), 0, [1.0], Status.INDEFINITE), method
    elif method == "auto":
        result, label = _auto(system, rhs, tol, max_iterations, callback)
    elif method == "direct":
        result, label = direct.solve(system, rhs, tol), "direct"
    else:
        limit = max_iterations or MAX_ITERATIONS[method]
        result, label = _solver(method)(system, rhs, tol=tol, max_iterations=limit, callback=callback), method
    plain, scaled = result.reached or (float(r.max(initial=0.0)) for r in system.residuals(result.x, rhs))
    status = result.status
    # recurrences drift: what counts is the residual of the point itself
    if status is Status.CONVERGED and not max(plain, scaled) <= max(2 * tol, 1e-12):
        status = Status.STALLED
    if unit is not None:
        result.x = result.x * unit
    return Solution(
        x=result.x.reshape(y.shape).astype(y.dtype, copy=False),
        status=status,
        method=label + (f" [{result.note}]" if result.note else ""),
        iterations=result.iterations,
        residuals=np.array(result.residuals),
        residual=plain,
        rounds=result.rounds,
        messages=None if result.rounds is None else result.rounds * system.n_directed_edges,
        timings={"total": time.perf_counter() - start},
    )


def _without_underflow(columns: np.ndarray) -> tuple[np.ndarray, np.ndarray | None]:
    """Columns whose squares would underflow in norms, divided by a power of two; and the divisors, None for ones."""
    peak = np.abs(columns).max(axis=0)
    faint = (peak < 1e-100) & (peak > 0)
    if not faint.any():
        return columns, None
    unit = np.where(faint, np.ldexp(1.0, np.frexp(peak)[1] - 1), 1.0)
    return columns / unit, unit


def _definite(system: FilterSystem) -> bool:
    """Whether K is positive definite for a user's own S, up to the size at which that is cheap to know."""
    if system.n_nodes > _checks.DENSE_LIMIT:
        return True
    try:
        np.linalg.cholesky(system.K.toarray())
    except np.linalg.LinAlgError:
        return False
    return True


def _solver(method: str) -> Callable[..., Iterates]:
    solvers: dict[str, Callable[..., Iterates]] = {
        "cg": cg.solve,
        "multigrid": multigrid.solve,
        "jacobi": recursion.jacobi,
        "chebyshev": chebyshev.solve,
        "recursion": recursion.published,
    }
    return solvers[method]


def _auto(
    system: FilterSystem, rhs: np.ndarray, tol: float, max_iterations: int | None, callback: Callback | None
) -> tuple[Iterates, str]:
    """Size first, then conditioning as CG itself shows it (measured: see docs/guides/solvers.md)."""
    if system.n_nodes <= SMALL:
        return direct.solve(system, rhs, tol), f"direct (auto: {system.n_nodes} nodes)"
    limit = max_iterations or MAX_ITERATIONS["cg"]
    may_switch = system.sdd and limit > PATIENCE
    label = f"cg (auto: {system.n_nodes} nodes)"
    first = cg.solve(system, rhs, tol=tol, max_iterations=PATIENCE if may_switch else limit, callback=callback)
    if first.status is not Status.MAX_ITERATIONS or not may_switch:
        return first, label
    # slow: smooth large weights, made for multigrid where the graph is a mesh
    if multigrid.refusal(system) is None:
        label = f"cg, then multigrid (auto: CG not converged after {PATIENCE} iterations, mesh-like graph)"
        rest = min(limit, MAX_ITERATIONS["multigrid"])
        second = multigrid.solve(system, rhs, tol=tol, max_iterations=rest, callback=callback, x0=first.x)
    else:
        second = cg.solve(system, rhs, tol=tol, max_iterations=limit - PATIENCE, callback=callback, x0=first.x)
    second.residuals = first.residuals + second.residuals[1:]
    second.iterations += first.iterations
    return second, label


def uncertainty(
    graph: GraphLike,
    weights: WeightsLike,
    *,
    fit: ArrayLike | None = None,
    noise: ArrayLike,
    n_probes: int = 200,
    rng: np.random.Generator | None = None,
) -> np.ndarray:
    """Standard deviation of each denoised reading that the noise causes: ``sqrt(diag(H Sigma H^T))``.

    The bias, which depends on the unknown signal, is not in it (see :func:`nareg.design.risk`).

    Parameters
    ----------
    graph, weights, fit
        As in :func:`denoise`.
    noise : number, (N,) or (N, N)
        Noise variance, variances or covariance.
    n_probes : int
        Above 3,000 nodes the diagonal is estimated from this many random probes; the relative standard
        error is about ``1 / sqrt(2 n_probes)``.
    rng : numpy.random.Generator, optional
        For the probes.

    Returns
    -------
    (N,) array, in the unit of the readings

    Examples
    --------
    >>> import nareg
    >>> nareg.filters.uncertainty(nareg.graphs.grid((3,)), 1.0, noise=0.04).round(3)
    array([0.137, 0.122, 0.137])
    """
    base = penalty(graph)
    system = build(base, weights, data_term(fit, weights, base.n_nodes))
    n = base.n_nodes
    covariance = _checks.noise("noise", noise, n)
    if n <= _checks.DENSE_LIMIT:
        H = filter_matrix(system, what="uncertainty")
        spread = H * covariance if covariance.ndim == 1 else H @ covariance
        return np.sqrt(np.maximum(np.einsum("ij,ij->i", spread, H), 0.0))  # rounding of a singular covariance
    if covariance.ndim == 2:
        _checks.dense_size("uncertainty with a noise matrix", n, alternative="pass variances, (N,)")
    n_probes = _checks.integer("n_probes", n_probes, low=1)
    signs = _checks.generator(rng).choice([-1.0, 1.0], size=(n, n_probes))
    probes = (system.c * np.sqrt(covariance))[:, None] * signs
    answer, _ = _auto(system, probes, 1e-6, None, None)
    if not answer.status.ok:
        raise SolverError(f"uncertainty: the solves for the probes ended with {answer.status.name}: pass smaller weights.")
    return np.sqrt(np.mean(answer.x**2, axis=1))
