"""Edge-adaptive design: a weight for every edge and every node, by the true risk or by maximum likelihood.

Beyond the paper. The filter ``(C + S)^-1 C`` costs the same whatever the entries of S on the graph's edges, so all
of them are designed: on weather networks that closes most of the gap between node weights and the dense Wiener
filter, and with few training signals it beats the Wiener filter learned from them.
"""

from __future__ import annotations

import time
from typing import Any, Literal

import numpy as np

from nareg._core import checks
from nareg._solvers.backends import SolverBackend, check_solver_backend
from nareg._solvers.system import penalty
from nareg._solvers.threads import few_threads
from nareg.design._edge import dense, from_readings, sparse
from nareg.design._edge.result import EdgeOptions, pack
from nareg.design._edge.sparse_risk import EdgeRisk
from nareg.design._edge.support import support_of
from nareg.design._risk.descent import Groups
from nareg.design._risk.rate import checked_rate
from nareg.errors import InputError, TooLargeError
from nareg.io import takes_tables
from nareg.progress import ProgressCallback
from nareg.results import WeightDesign
from nareg.typing import ArrayLike, GraphLike

#: Up to here a Hessian of the N + M numbers is formed and factorized (32 MB, a fifth of a second a step).
DENSE_UNKNOWNS = 2000


@takes_tables("signals", "measurements", "observed", observed="observed")
def edge(
    graph: GraphLike,
    *,
    signals: ArrayLike | None = None,
    second_moment: ArrayLike | None = None,
    measurements: ArrayLike | None = None,
    observed: ArrayLike | None = None,
    noise: ArrayLike | None = None,
    criterion: Literal["risk", "likelihood"] | None = None,
    structure: Literal["symmetric", "laplacian"] = "symmetric",
    shrink: float | Literal["auto"] | None = "auto",
    data_weight: ArrayLike | Literal["noise"] | None = None,
    groups: ArrayLike | None = None,
    rate: float | None = None,
    rng: np.random.Generator | None = None,
    backend: SolverBackend = "scipy",
    progress: ProgressCallback | None = None,
) -> WeightDesign:
    """Design a weight for every edge and every node: any symmetric S on the graph, ``C + S`` positive definite.

    Parameters
    ----------
    graph : Graph or (N, N) operator
    signals : (N,) or (N, T) array, optional
        Clean training signals.
    second_moment : (N, N) array, optional
        ``E[x x^T]``.
    measurements : (N,) or (N, T) array, optional
        Noisy readings, their station means removed. Exactly one of signals, second_moment and measurements.
    observed : bool array, (N,) or the shape of measurements, optional
        True where a reading was taken; measurements may hold anything elsewhere. Default: everywhere.
    noise : number, (N,) or (N, N) array, optional
        Noise variance(s) or covariance; needed for ``criterion="risk"``. With measurements variances, say those of
        :func:`nareg.design.estimate_noise`.
    criterion : {"risk", "likelihood"}, optional
        The mean squared error (11), by default for clean signals. Or the Gaussian likelihood of the precision matrix Theta on
        the graph: of clean signals, a convex problem that needs no noise level, or of measurements. Its design is
        ``S = mean(c sigma^2) Theta``, the mean over nodes with a data term; without noise ``S = Theta``, to be used with
        ``data_weight=1 / variance`` in :func:`nareg.filters.denoise`.
    structure : {"symmetric", "laplacian"}
        ``"laplacian"`` keeps edge weights and the diagonal's excess over them non-negative.
    shrink : "auto", number in [0, 1] or None
        How far to shrink to the best single weight: 0 or None not at all, 1 entirely. ``"auto"`` chooses by the risk
        on held-out signals, and returns the single weight where the gain is at most its standard error. With ``second_moment``
        nothing is held out or shrunk. See Notes.
    data_weight : None, "noise" or (N,) array
        Data term for which to design.
    groups : (N,) array of labels, optional
        Nodes with the same label share a row sum of S, and edges between the same two groups (or inside one) a factor that
        multiplies their weights in the graph: fewer unknowns where there are few training signals. See Notes.
    rate : number between 0 and 1, optional
        Limit of the factor by which a round of ``denoise(method="jacobi")`` reduces the residual (see Notes, and
        :func:`nareg.design.exact`). For ``criterion="risk"``, up to 2000 nodes and edges together.
    rng : numpy.random.Generator, optional
        Draws the probes and the held-out signals on networks too large for dense matrices; default
        ``numpy.random.default_rng(0)``.
    backend : {"scipy", "torch"} or Torch
        The library of the method for large networks; torch implies that method, needs ``criterion="risk"`` and solves by
        conjugate gradients, with graph, columns and solutions on its device (:class:`nareg.filters.Torch`).
    progress : callable, optional
        Called with a :class:`~nareg.progress.Progress` per step of the final descent. Ctrl-C keeps the best S so far.

    Returns
    -------
    WeightDesign
        ``objective`` is the criterion on all training signals without shrinkage. ``certificate.details`` reports
        ``shrink``, ``held_out_risk``, ``held_out_scalar_risk``, ``held_out_error`` (standard error of their
        difference), ``degrees_of_freedom``, ``best_scalar_risk``, ``iterations`` and ``smallest_eigenvalue_K``.
        ``certificate.gradient_norm`` is ``||gradient|| ||u|| / |value|`` of the shrunk objective in the unknowns u,
        the edge weights ``-S_ij`` and row sums of S; for the likelihood ``tr(Theta R)`` stands for the value.

    Notes
    -----
    S need not be positive semidefinite nor diagonally dominant: solve with ``method="direct"``, ``"cg"`` (Jacobi or
    a factor as preconditioner) or ``"chebyshev"`` (its bounds come from Lanczos steps). Jacobi and multigrid need
    ``structure="laplacian"``, which allows every method. With ``rate`` Jacobi converges too, whatever the signs: ``rate D - M``
    and ``rate D + M`` are positive semidefinite, D the diagonal of ``C + S`` and M the rest. Logarithmic barriers keep the
    descent inside, and cost less than 1e-5 of the criterion in the end.

    Shrinkage by a minimizes ``(1 - a)`` times the risk, plus a times the risk under a model whose optimum is the best single
    weight, plus a proximal term proportional to a. ``"auto"`` uses two folds, which alternate over ten blocks of consecutive
    signals. Up to 2000 nodes and edges together the method is a damped Newton method. Above, it is L-BFGS with sparse factors
    and random probes for the noise. The likelihood has exact gradients, by Takahashi's recursion, where the graph is
    mesh-like; where something is shrunk or the structure is Laplacian, ``certificate.details["gap"]`` bounds what its shrunk
    objective may still fall by. ``shrink="auto"`` stops the descent early on a quarter of the signals and probes of their
    own. Effective degrees of freedom are ``tr((1 - a) G_data G^-1)`` with G the Gauss-Newton matrix with and G_data without
    shrinkage.

    From measurements the marginal likelihood of the readings is followed from the best ``S = kappa I + beta L`` by proximal
    steps, each near the model before in the Kullback-Leibler sense. ``"auto"`` stops where the likelihood of held-out times
    is largest, in four folds of consecutive times. ``held_out_risk`` is twice their negative log-likelihood, per time and
    without constants. After steps that add up to s the design reports ``1 / (1 + s)`` as ``shrink``; 0 is maximum
    likelihood. Above 2000 nodes and edges the steps are found by expectation-maximization, with exact sparse factors, one per
    pattern of gaps.
    Noise cannot be told from roughness by snapshots alone: noise variances that are wrong make wrong weights.

    With ``groups`` ``u = Z v``: an unknown v is the row sum of a group's nodes, or the mean weight of the edges of a pair of
    groups, whose ratios are those of the graph. One group thus gives the best ``S = kappa I + beta L``, and every node its
    own group the design without groups. Row sums that an operator has of its own (a normalized Laplacian) go with the
    edges inside the node's group. ``degrees_of_freedom`` counts the v, and ``gradient_norm`` is taken in them.

    Examples
    --------
    >>> import numpy as np, nareg
    >>> rng = np.random.default_rng(0)
    >>> g = nareg.graphs.grid((5, 5))
    >>> x = np.linalg.solve(g.laplacian().toarray() + np.diag(np.linspace(0.1, 2, 25)), rng.standard_normal((25, 200)))
    >>> one = nareg.design.node_invariant(g, rule="oracle", signals=x, noise=0.5)
    >>> d = nareg.design.edge(g, signals=x, noise=0.5)
    >>> bool(d.objective < 0.9 * one.objective)
    True
    """
    started = time.perf_counter()
    blind = measurements is not None
    criterion = criterion or ("likelihood" if blind else "risk")
    checks.choice("criterion", criterion, ("risk", "likelihood"))
    checks.choice("structure", structure, ("symmetric", "laplacian"))
    amount, rate = _amount(shrink), checked_rate(rate)
    by_risk, laplacian, generator = criterion == "risk", structure == "laplacian", checks.generator(rng)
    library = check_solver_backend(backend)
    if library == "petsc":
        raise InputError("backend is 'petsc': edge designs run on 'scipy' and 'torch'; exact and blind run on PETSc.")
    if library == "torch" and not by_risk:
        raise InputError("criterion='likelihood' needs sparse factors, which torch does not have: pass backend='scipy'.")
    if by_risk and noise is None and not blind:
        raise InputError(
            "noise is None: criterion='risk' needs the noise variance; estimate it with nareg.design.estimate_noise, "
            "or choose criterion='likelihood'."
        )
    base = penalty(graph)
    support = support_of(base, Groups(groups, base.n_nodes))
    if support.i.size == 0:
        raise InputError("graph has no edges: there is nothing to weigh; connect it first.")
    unknowns = base.n_nodes + support.i.size
    large = unknowns > DENSE_UNKNOWNS or backend != "scipy"
    if rate is not None:
        _refuse_rate(rate, by_risk, large, unknowns)
    if laplacian and not base.is_laplacian:
        raise InputError("structure='laplacian' starts from the graph's Laplacian: pass a Graph or a Laplacian as graph.")
    if blind and (signals is not None or second_moment is not None):
        raise InputError("measurements are given beside clean signals (or second_moment): pass one of them.")
    if blind and by_risk:
        raise InputError("criterion is 'risk' but measurements are noisy: pass criterion='likelihood', or omit it.")
    if observed is not None and not blind:
        raise InputError("observed is given without measurements: clean signals have no gaps; pass measurements=.")
    if large and not by_risk and not EdgeRisk(base, support, np.ones(base.n_nodes)).systems.factorizes:
        raise TooLargeError(
            f"criterion='likelihood' on {base.n_nodes} nodes needs a sparse factor, which would fill up on this graph: use "
            "criterion='risk' with clean signals, nareg.design.blind with measurements that have no gaps, or a part of the "
            "network (graph.subgraph)."
        )
    options = EdgeOptions(by_risk, laplacian, amount, generator, backend, progress, rate)
    data: dict[str, Any] = {"signals": signals, "second_moment": second_moment, "noise": noise, "data_weight": data_weight}
    with few_threads(base.n_nodes):
        if blind:
            outcome, c = from_readings.design(
                base, support, measurements, observed, noise, data_weight, dense=not large, options=options
            )
        elif large:
            outcome, c = sparse.design(base, support, **data, options=options)
        else:
            outcome, c = dense.design(base, support, **data, options=options)
    settings: dict[str, Any] = {"criterion": criterion, "structure": structure, "shrink": "auto" if amount is None else amount}
    if rate is not None:
        settings["rate"] = rate
    return pack(outcome, base, support, c, None if data_weight is None else c, settings, started)


def _refuse_rate(rate: float, by_risk: bool, large: bool, unknowns: int) -> None:
    if not by_risk:
        raise InputError(
            f"rate is {rate:g} and the criterion is 'likelihood': only designs by the risk keep a rate; pass clean signals and "
            "noise (criterion='risk'), or use nareg.design.blind for measurements."
        )
    if large:
        raise TooLargeError(
            f"rate is {rate:g}: edge designs keep a rate on up to {DENSE_UNKNOWNS} nodes and edges together (here {unknowns}) "
            "and backend='scipy'; use nareg.design.exact or blind, or a part of the network (graph.subgraph)."
        )


def _amount(shrink: Any) -> float | None:
    """The amount of shrinkage, None for ``"auto"``."""
    if isinstance(shrink, str):
        checks.choice("shrink", shrink, ("auto",))
        return None
    return 0.0 if shrink is None else checks.number("shrink", shrink, low=0, high=1)
