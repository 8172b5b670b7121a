"""Arguments of :func:`~nareg.gnn.propagate`: the solver of the filter, and RNGC's perturbation."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

import numpy as np

from nareg._core import checks
from nareg.errors import InputError
from nareg.typing import Features


@dataclass(frozen=True)
class Neumann:
    """The published truncated series ``1/(lam+1) sum_{s=0}^{order} [lam/(lam+1) A~]^s x``.

    Attributes
    ----------
    order : int
        S, the last power of A~: one product each.
    unit_gain : bool
        Divide the sum by its value at the eigenvalue 1, ``1 - [lam/(lam+1)]^(order+1)``. What the filter itself leaves as it
        is, the truncated series shrinks: to a sixtieth at lam = 1024 and order 16, too little for a network to train on.

    Examples
    --------
    >>> import numpy as np, nareg
    >>> g = nareg.graphs.grid((2,))
    >>> nareg.gnn.propagate(g, np.eye(2), lam=1.0, solver=nareg.gnn.Neumann(order=1))
    array([[0.625, 0.125],
           [0.125, 0.625]])
    >>> nareg.gnn.propagate(g, np.ones((2, 1)), lam=1024.0, solver=nareg.gnn.Neumann(unit_gain=True)).ravel().round(6)
    array([1., 1.])
    """

    order: int = 16
    unit_gain: bool = False

    def __post_init__(self) -> None:
        object.__setattr__(self, "order", checks.integer("order", self.order, low=0))
        object.__setattr__(self, "unit_gain", bool(self.unit_gain))

    def factor(self, lam: float) -> float:
        """What the published sum is multiplied by: 1, or one over its gain at the eigenvalue 1."""
        # c^(S+1) = exp((S+1) log c), and log c = -log(1 + 1/lam), without cancellation at large lam
        return 1.0 if not self.unit_gain or lam == 0 else float(-1 / np.expm1(-(self.order + 1) * np.log1p(1 / lam)))


@dataclass(frozen=True)
class _Accurate:
    tol: float = 1e-3

    def __post_init__(self) -> None:
        object.__setattr__(self, "tol", checks.number("tol", self.tol, low=0, high=1, strict=True))


@dataclass(frozen=True)
class Chebyshev(_Accurate):
    """The filter itself as a Chebyshev series in A~, whose number of products is known in advance.

    Attributes
    ----------
    tol : float
        Every column of the result is within ``tol`` times the length of the features' column, as far as the dtype allows.
    """


@dataclass(frozen=True)
class ConjugateGradients(_Accurate):
    """The filter itself by conjugate gradients, with as many products as the graph needs.

    Attributes
    ----------
    tol : float
        Every column of the result is within ``tol`` times the length of the features' column; for random-walk matrices with
        every node weighted by the square root of its degree.
    """


#: How to compute the filter; a name stands for the class with its defaults.
Solver: TypeAlias = Neumann | Chebyshev | ConjugateGradients
SolverName: TypeAlias = Literal["neumann", "chebyshev", "cg"]

SOLVERS: dict[str, type[Solver]] = {"neumann": Neumann, "chebyshev": Chebyshev, "cg": ConjugateGradients}


def as_solver(solver: Solver | SolverName) -> Solver:
    """The solver that a name stands for; a solver as it is."""
    if isinstance(solver, (Neumann, Chebyshev, ConjugateGradients)):
        return solver
    if not isinstance(solver, str):
        raise InputError(
            f"solver is a {type(solver).__name__}: pass 'neumann', 'chebyshev', 'cg', or one of nareg.gnn.Neumann, Chebyshev, "
            "ConjugateGradients."
        )
    return SOLVERS[checks.choice("solver", solver, tuple(SOLVERS))]()


@dataclass(frozen=True, eq=False)
class Perturbation:
    """RNGC's adversarial perturbation: ``A~ - eps U U^T / ||U U^T||_F`` in the place of A~.

    Attributes
    ----------
    eps : float
        Size of the perturbation, in the Frobenius norm of the Laplacian.
    masked : bool
        Take inner products of features on edges and self-loops only: for large graphs with dense features. They are divided by
        their own Frobenius norm; the paper does not say by which.
    factor : (N, K) array or tensor, optional
        U, of the type and dtype of the features. Default: the features that are filtered.

    Examples
    --------
    >>> import numpy as np, nareg
    >>> g, x = nareg.graphs.grid((3,)), np.array([[1.0], [0.0], [0.0]])
    >>> exact = nareg.gnn.ConjugateGradients(tol=1e-8)
    >>> nareg.gnn.propagate(g, x, lam=1.0, perturbation=nareg.gnn.Perturbation(0.5), solver=exact).ravel().round(3)
    array([0.528, 0.139, 0.038])
    """

    eps: float
    masked: bool = False
    factor: Features | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "eps", checks.number("eps", self.eps, low=0))
        object.__setattr__(self, "masked", bool(self.masked))
