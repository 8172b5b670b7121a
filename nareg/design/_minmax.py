"""Min-max designs (31)-(32), for signals of which only bounds are known.

The paper says that the worst signal in the box ``low <= x <= high`` is at one of its two extreme corners, ``low`` and
``high``. That is false: it is at some vertex of the box (an 8-node example: 2064.7 against 21.8 at the two corners).
The paper computes the design for the worse of these two signals, as ``uncertainty="corners"`` does here. Pass bounds
per station: with one global pair both corners are proportional to the ones vector, and every constant weight scores
zero.

The other sets are every signal of the box, of the box with ``x^T L x <= smoothness``, or of a ball. No algorithm is sure to
find the worst of them, so the design minimizes a proven bound (see :mod:`nareg.design._convex.over_sets`).
"""

from __future__ import annotations

import time
from typing import Any, Literal

import numpy as np

from nareg._core import checks
from nareg._solvers.system import Penalty, penalty
from nareg.design import programs
from nareg.design._convex.corners import prony_over_corners
from nareg.design._convex.criteria import Criterion, MinmaxOptions, mse_criterion, prony_criterion, saddle_point
from nareg.design._convex.filter_fit import fit_weights_to
from nareg.design._convex.over_sets import mse_over_set, prony_over_set
from nareg.design._convex.signal_sets import SignalSet, Uncertainty, checked_uncertainty, signal_set
from nareg.design._convex.solving import solver_name
from nareg.design._convex.worst_case import FILTER_NODES, examine, filter_size
from nareg.design._risk.checked import with_details
from nareg.design._risk.descent import Groups
from nareg.design._risk.problem import problem
from nareg.design._risk.sparse_problem import sparse_problem
from nareg.errors import InputError
from nareg.io import takes_tables
from nareg.progress import ProgressCallback
from nareg.results import DesignDetails, WeightDesign
from nareg.typing import ArrayLike, GraphLike

CORNER_SOLVERS = ("auto", "low-rank", "closed-form", "sdp")
SET_SOLVERS = ("auto", "sdp", "first-order")
#: Without N x N matrices above this size, for the corners under "prony" with independent noise.
DENSE_NODES = 500


@takes_tables()
def minmax(
    graph: GraphLike,
    *,
    signal_low: ArrayLike | None = None,
    signal_high: ArrayLike | None = None,
    noise: ArrayLike | None = None,
    criterion: Literal["prony", "prony-scaled", "mse"] = "prony",
    uncertainty: Uncertainty = "corners",
    lower: ArrayLike | None = None,
    upper: ArrayLike | None = None,
    data_weight: ArrayLike | Literal["noise"] | None = None,
    groups: ArrayLike | None = None,
    solver: str = "auto",
    progress: ProgressCallback | None = None,
) -> WeightDesign:
    """Design for the worst signal of a set: of two extreme signals, of a box, of its smooth part, of a ball.

    Parameters
    ----------
    graph : Graph or (N, N) operator
    signal_low, signal_high : number or (N,) array
        Lowest and highest value of the signal at each node; not for a :class:`Ball`.
    noise : number, (N,) or (N, N) array, optional
        Noise variance(s) or covariance; required for ``criterion="mse"``.
    criterion : {"prony", "prony-scaled", "mse"}
        ``max ||S x||^2`` (32), or the true error ``max ||(H - I) x||^2 + tr(H Sigma H^T)``. Under "corners" (and
        with an SDP solver) the true error is minimized over H (29), followed by the fit (30). "prony" leaves the
        solution at its bound, as published; "prony-scaled" multiplies it by the factor with the smallest mean MSE of
        the corners (ball: of an isotropic signal).
    uncertainty : "corners", "box", SmoothBox or Ball
        The set of signals: only the two corners, ``signal_low`` and ``signal_high``, as published; every signal
        between them; ``SmoothBox(smoothness)``, those with ``x^T L x <= smoothness``; ``Ball(radius)``, every signal
        with ``||x|| <= radius``. The whole box admits signals that jump from node to node and is pessimistic: prefer
        the smooth box.
    lower, upper : number or (N,) array, optional
        Bounds on the squared weights ``w_i^2``. Default below: the paper's ``w0*`` where the noise is known (signal power: mean
        of the corners', or ``radius^2``), else 0; above: ``1e8 / lambda_max(L)``.
    data_weight : None, "noise" or (N,) array
        Data term for which to design.
    groups : (N,) array of labels, optional
        Nodes with the same label share a weight (with the solvers "auto", "low-rank", "closed-form" and "first-order").
    solver : str
        Corners, {"auto", "low-rank", "closed-form", "sdp", "clarabel", "scs"}: ``"prony"`` is solved by a low-rank factor
        and one dual variable, the weight of the two corners, with a proven lower bound ("low-rank", networks of any
        size: one to two minutes at 2,000 nodes), or as an SDP by cvxpy (the reference, up to 400 nodes). ``"mse"``: by
        default ("closed-form", up to 3,000 nodes) the same dual variable and the Lyapunov equation; with
        an SDP solver, (30) is solved as an SDP as well.
        The other sets, {"auto", "sdp", "clarabel", "scs", "first-order"}: ``"first-order"`` adds
        the worst second moment of the set to a list of scenarios until nothing is added, with sparse products for
        ``"prony"`` (``"mse"``: up to 1,000 nodes). ``"sdp"`` solves the bound by the S-procedure first and rounds
        (up to 120 nodes; with ``"mse"`` the fit (30) follows). ``"auto"`` takes
        the SDP for ``"prony"`` up to 40 nodes, else first order; and for the ball, and a box with
        ``signal_low = -signal_high``, under ``"prony"`` the lower bound itself, which is optimal there.
    progress : callable, optional
        Called with a :class:`~nareg.progress.Progress` per step. Ctrl-C keeps the best weights so far.

    Returns
    -------
    WeightDesign
        ``objective`` is the larger of the two corners' criteria ("prony"), that of the fit (30) ("mse" by (30)), or
        the proven worst case (the other sets). For these ``certificate.details`` has ``"worst_case_lower"`` (the
        error at ``"worst_signal"``, the worst one found), ``"worst_case_upper"`` (proven). Under "prony" these are errors
        in the coordinates ``C^1/2 x``, and after an SDP ``certificate.relaxed_objective`` is the smallest proven worst
        case of any PSD Omega. For two corners it is a lower bound on the objective of every feasible weights before
        scaling: proven by duality ("low-rank"; ``details["gap"]`` is its distance from the convex optimum), or the value
        that an SDP solver reports; under "mse" that of any PSD filter H is ``details["worst_mse"]``. A design for the
        corners has the same for the whole box between them, up to 1,000 nodes: ``"box_worst_case_lower"`` and
        ``"box_worst_case_upper"``, often a hundred times its objective.

    References
    ----------
    Yang, Coutino, Leus, Isufi 2021, Section IV-C, equations (31)-(32).

    Examples
    --------
    >>> import numpy as np, nareg
    >>> g = nareg.graphs.grid((3, 3))
    >>> x = np.linspace(1, 2, 9)
    >>> bounds = {"signal_low": x - 0.2, "signal_high": x + 0.3}
    >>> d = nareg.design.minmax(g, **bounds, noise=0.1)
    >>> d.status.name
    'CONVERGED'
    >>> box = nareg.design.minmax(g, **bounds, noise=0.1, criterion="mse", uncertainty="box")
    >>> worst = box.certificate.details
    >>> worst["worst_case_lower"] <= worst["worst_case_upper"] == box.objective
    True
    """
    checks.choice("criterion", criterion, ("prony", "prony-scaled", "mse"))
    uncertainty = checked_uncertainty(uncertainty, corners=True)
    if criterion == "mse" and noise is None:
        raise InputError("criterion='mse' needs noise: pass its variance, or use criterion='prony'.")
    base = penalty(graph)
    corners = uncertainty == "corners"
    solver = solver_name(solver, own=CORNER_SOLVERS if corners else SET_SOLVERS)
    scale = "mse" if criterion == "prony-scaled" else "bound"
    options = MinmaxOptions(criterion == "mse", Groups(groups, base.n_nodes), solver, scale, progress)
    if options.groups.index is not None and solver not in ("auto", "low-rank", "closed-form", "first-order"):
        raise InputError(f"solver={solver!r} gives every node its own weight and cannot take groups: use solver='auto'.")
    U = signal_set("box" if corners else uncertainty, base.L, signal_low=signal_low, signal_high=signal_high)
    data: dict[str, Any] = {"noise": noise, "data_weight": data_weight}
    if not corners:
        return _over_set(base, U, data, lower, upper, options)
    if solver == ("low-rank" if options.by_mse else "closed-form"):
        other = "'prony': use 'closed-form'" if options.by_mse else "'mse': use 'low-rank'"
        raise InputError(f"solver={solver!r} is for criterion={other} here.")
    data["signals"] = np.column_stack([U.low, U.high])
    bounds: dict[str, Any] = {"lower": lower, "upper": upper}
    if options.by_mse:
        design, error = _mse_over_corners(base, data, bounds, options)
    elif solver not in CORNER_SOLVERS[:-1]:
        program = programs.minmax(base.L, signal_low=U.low, signal_high=U.high, noise=noise, data_weight=data_weight, **bounds)
        design = program.solve(options.program_solver, scale=scale, progress=progress)
        error = prony_criterion(program.task)
    else:
        sparse = base.n_nodes > DENSE_NODES and (noise is None or np.ndim(noise) < 2)
        task = (sparse_problem if sparse else problem)(base, **data, needs="minmax")
        limits = task.published_bounds(**bounds)
        _refuse_zero_weights(limits[0])
        design = prony_over_corners(task, np.sqrt(task.c)[:, None] * data["signals"], limits, options)
        error = prony_criterion(task)
    return _with_worst_of_box(design, U, error)


def _mse_over_corners(
    base: Penalty, data: dict[str, Any], bounds: dict[str, Any], options: MinmaxOptions
) -> tuple[WeightDesign, Criterion]:
    """The filter of (29) for both corners, and the weights closest to it."""
    alternative = "use criterion='prony', which needs none, or a part of the network (graph.subgraph)"
    task = problem(base, **data, needs="minmax", alternative=alternative)
    limits = task.published_bounds(**bounds)
    started = time.perf_counter()
    H, theta, worst = saddle_point(task.whitened(), np.sqrt(task.c)[:, None] * data["signals"])
    timings, settings = {"step one": time.perf_counter() - started}, {}
    if options.solver in CORNER_SOLVERS[:-1]:
        design = fit_weights_to(task, H, limits, options.progress, options.groups)
        settings = {"solver": options.solver}
    else:
        design = programs.fit(base.L, target=H, **data, **bounds).solve(options.program_solver, progress=options.progress)
    details: DesignDetails = {"worst_mse": worst, "corner_weights": [theta, 1 - theta]}
    design = with_details(design, details, method="min-max (corners, mse)", timings=timings, settings=settings)
    return design, mse_criterion(task)


def _with_worst_of_box(design: WeightDesign, U: SignalSet, error: Criterion) -> WeightDesign:
    """Add bounds on the worst signal of the whole box to the certificate of a design for two corners."""
    if design.n_nodes > FILTER_NODES:
        return design
    worst = examine(error.operator(design.weights), U, variance=error.variance(design.weights))
    return with_details(design, {"box_worst_case_lower": worst.lower, "box_worst_case_upper": worst.upper})


def _over_set(
    base: Penalty, U: SignalSet, data: dict[str, Any], lower: Any, upper: Any, options: MinmaxOptions
) -> WeightDesign:
    """The design for a whole set of signals."""
    n = base.n_nodes
    if options.by_mse:
        filter_size(n)
    if U.name == "ball":
        task = problem(base, second_moment=U.radius**2 / n * np.eye(n), **data, needs="minmax")
    else:
        task = problem(base, signals=np.column_stack([U.low, U.high]), **data, needs="minmax")
    bounds = task.published_bounds(lower, upper)
    if options.by_mse:
        return mse_over_set(task, U, *bounds, options)
    _refuse_zero_weights(bounds[0])
    return prony_over_set(task, U, *bounds, options)


def _refuse_zero_weights(low: np.ndarray) -> None:
    if not low.any():
        raise InputError(
            "lower is 0 at every node: zero weights then solve (32); pass noise, or a positive lower bound on w^2."
        )
