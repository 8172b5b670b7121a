"""Gradients of the filters without a recorded forward pass, for operators that torch's autograd does not look into."""

from __future__ import annotations

from typing import Any

import torch

from nareg.gnn import _operators
from nareg.gnn._autograd import Slope, series_gradients
from nareg.gnn._operators import adjacency_operator
from nareg.gnn.ngc import ngc_transposed
from nareg.gnn.propagation import filtered
from nareg.gnn.robust import Memo, perturbed_matrix
from nareg.gnn.solvers import ConjugateGradients, Neumann, Solver


def filter_gradients(
    adjacency: Any,
    gradient: torch.Tensor,
    x: torch.Tensor,
    U: torch.Tensor,
    *,
    lam: float,
    solver: Solver,
    eps: float,
    masked: bool,
    memo: Memo,
    factor_needs_it: bool,
) -> tuple[torch.Tensor, torch.Tensor | None, torch.Tensor | None]:
    """Gradients in x, in RNGC's factor U, and in the entries of a learned A~.

    The filter itself is ``K^-1`` with ``K = (1 + lam) I - lam M``: of ``Y = K^-T g`` and ``Z = K^-1 x``, the gradient in a
    parameter of M is that of ``lam <Y, M Z>``. A truncated series is computed again, with its iterates.
    """
    if isinstance(solver, Neumann) and solver.unit_gain:
        gradient, solver = gradient * solver.factor(lam), Neumann(solver.order)
    perturbed = eps != 0 and lam != 0
    settings: dict[str, Any] = {"lam": lam, "solver": solver, "eps": eps, "masked": masked, "factor": U, "memo": memo}

    def transposed(Y: torch.Tensor) -> torch.Tensor:
        out: torch.Tensor = (
            filtered(adjacency, Y, **settings) if perturbed else ngc_transposed(adjacency, Y, lam=lam, solver=solver)
        )
        return out

    exact = not isinstance(solver, Neumann)
    needed = [factor_needs_it and perturbed, adjacency.is_learned]
    if not any(needed) and (exact or not perturbed or adjacency.is_symmetric):
        return transposed(gradient), None, None
    M = adjacency_operator(adjacency, x)
    slopes: list[Slope] = [lambda Y, Z, p: torch.zeros_like(p), getattr(adjacency, "slope", lambda Y, Z, p: p)]
    if perturbed:
        # the spectrum of the filter itself was checked as that of a solve, whichever way it is computed
        way = ConjugateGradients(solver.tol) if not isinstance(solver, Neumann) else solver
        matrix = perturbed_matrix(adjacency, U, lam, way, eps, masked, memo)
        M, slopes[0] = matrix.operator, matrix.slope
    entries = adjacency.entries(adjacency.normalization, x).detach() if needed[1] else x.new_empty(0)
    parameters = (U, entries)
    if not isinstance(solver, Neumann):
        Y, Z = transposed(gradient), filtered(adjacency, x, **settings)
        of_U, of_entries = (
            lam * slope(Y, Z, p) if need else None for slope, p, need in zip(slopes, parameters, needed, strict=True)
        )
        return Y, of_U, of_entries
    iterates: list[torch.Tensor] = []
    _operators.neumann(M, x, lam=lam, order=solver.order, iterates=iterates)
    of_x, (of_U, of_entries) = series_gradients(M.transposed, gradient, iterates, parameters, slopes, needed, lam)
    return of_x, of_U, of_entries
