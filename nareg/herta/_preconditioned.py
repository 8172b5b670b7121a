"""Precondition any PyTorch optimizer of an existing training loop with two lines.

    P = herta.precondition(graph, X, lam=1.0, train=train)
    optimizer = herta.Preconditioned(torch.optim.Adam([layer.weight], lr=0.1), P)

The optimizer works on ``W' = R^-1 W`` with ``R R^T = P^-1`` (HERTA, Algorithm 1, for any loss and optimizer: Section 6). The
model keeps W.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace

import numpy as np
import torch

from nareg._core import checks
from nareg.errors import InputError
from nareg.gnn.adjacency import GraphInput
from nareg.herta import _build as build
from nareg.herta._coordinates import PreconditionedOptimizer, Values, checked_parameters
from nareg.herta._curvature import spectrum
from nareg.herta._features import Device, Matrix, Nodes, Precision
from nareg.herta._inputs import read_model
from nareg.herta._objective import Implicit, SquaredError, TrainingProblem
from nareg.herta._options import Sketched, Unfolding
from nareg.herta._plan import Sizes, cheapest
from nareg.herta._preconditioner import SKETCH, Preconditioner
from nareg.io import takes_tables

KINDS = ("auto", "exact", "sketched")
#: Accuracy of the solves that have to be accurate.
TIGHT = 1e-6


@takes_tables(rows=("features",))
def precondition(
    graph: GraphInput,
    features: Matrix,
    *,
    lam: float,
    train: Nodes | None = None,
    how: str | Sketched = "auto",
    kind: str = "augmented",
    weight_decay: float = 0.0,
    device: Device | None = None,
    dtype: Precision | None = None,
    rng: np.random.Generator | None = None,
) -> Preconditioner:
    """``P ~ X^T H^-1 M H^-1 X``, the Hessian of the squared error of an unfolded network, ``H = I + lam L``.

    Parameters
    ----------
    graph, features, lam, train, device, dtype, rng
        As in :func:`nareg.herta.fit`, with lam a number.
    kind : {"augmented", "combinatorial", "operator"}
        Which L, as in :class:`nareg.herta.Unfolding`.
    weight_decay : float
        As in :class:`nareg.herta.Regularized`.
    how : {"auto", "exact", "sketched"} or Sketched
        From all training rows of ``H^-1 X``, or from a randomized Hadamard transform of them; "auto": the cheaper by estimate.
        A :class:`Sketched` sets the number of rows.

    Returns
    -------
    Preconditioner
        With the estimated condition number of the preconditioned Hessian, and the reason of an "auto" choice.

    Raises
    ------
    InputError

    Examples
    --------
    >>> import numpy as np, nareg
    >>> from nareg import herta
    >>> rng = np.random.default_rng(0)
    >>> X = rng.standard_normal((400, 10)) @ np.diag(10.0 ** np.arange(10))
    >>> P = herta.precondition(nareg.graphs.grid((20, 20)), X, lam=5.0, rng=rng)
    >>> P.condition < 1.2  # 1e18 without P
    True
    """
    size = how.rows if isinstance(how, Sketched) else None
    how = "sketched" if isinstance(how, Sketched) else checks.choice("how", how, KINDS)
    weight_decay = checks.number("weight_decay", weight_decay, low=0)
    rng = checks.generator(rng)
    system, X, index = read_model(graph, features, Unfolding(lam, kind), train=train, device=device, dtype=dtype)
    d, nodes = X.shape[1], torch.as_tensor(index, device=X.device)
    rows = SKETCH * d if size is None else size
    reason = ""
    if how == "auto":
        sizes = Sizes(system, X, "mse", index.size, 1, rows=rows, tight=TIGHT)
        how, reason = cheapest(sizes, ("exact", "sketched"))
    P = build.squared(
        system, X, nodes, rows=rows if how == "sketched" else None, tight=TIGHT, weight_decay=weight_decay, rng=rng
    )
    target = SquaredError(torch.zeros((index.size, 1), dtype=X.dtype, device=X.device))
    problem = TrainingProblem(Implicit(system, X, nodes), target, X, weight_decay=weight_decay, tol=TIGHT)
    seed = torch.Generator().manual_seed(int(rng.integers(2**63 - 1)))
    eigenvalues = spectrum(problem, target.Y, P, generator=seed)  # none where X is zero
    return replace(P, condition=float(eigenvalues.max() / eigenvalues.min()) if eigenvalues.size else None, reason=reason)


class Preconditioned(PreconditionedOptimizer):
    """A PyTorch optimizer that works in preconditioned coordinates.

    Parameters
    ----------
    optimizer : torch.optim.Optimizer
        Over the weights, and any other parameters, which stay as they are.
    preconditioner : Preconditioner
        From :func:`precondition`.
    parameters : iterable of tensors, optional
        Parameters to precondition. Default: the one of ``optimizer`` with F columns, as in ``torch.nn.Linear``, or F rows. A
        square one is read as that of a ``Linear``, not of an :class:`~nareg.gnn.NGC`, whose weight is the transposed one.

    Raises
    ------
    InputError
        If no parameter fits, or several do and ``parameters`` is left out.

    Examples
    --------
    >>> import numpy as np, torch, nareg
    >>> from nareg import herta
    >>> rng = np.random.default_rng(0)
    >>> g, X = nareg.graphs.grid((10, 10)), torch.as_tensor(rng.standard_normal((100, 4)))
    >>> layer = torch.nn.Linear(4, 2, dtype=torch.float64)
    >>> P = herta.precondition(g, X, lam=1.0)
    >>> optimizer = herta.Preconditioned(torch.optim.SGD(layer.parameters(), lr=0.5), P)
    >>> ((nareg.gnn.propagate(g, layer(X), lam=1.0, solver="cg") - 1) ** 2).sum().backward()
    >>> optimizer.step()
    """

    def __init__(
        self, optimizer: torch.optim.Optimizer, preconditioner: Preconditioner, parameters: Iterable[torch.Tensor] | None = None
    ) -> None:
        stored = checked_parameters(optimizer)
        if not isinstance(preconditioner, Preconditioner) or len(preconditioner.factors) != 1:
            name = type(preconditioner).__name__
            raise InputError(f"preconditioner is a {name} without a factor for all outputs: pass herta.precondition(...).")
        d = preconditioner.n_features
        selected = stored if parameters is None else list(parameters)
        if any(all(p is not q for q in stored) for p in selected):
            raise InputError("parameters holds one that is not in optimizer: pass parameters of the optimizer.")
        fitting = [p for p in selected if p.ndim == 2 and d in p.shape]
        if not fitting or (parameters is not None and len(fitting) != len(selected)):
            shapes = ", ".join(str(tuple(p.shape)) for p in selected)
            raise InputError(
                f"parameters of shapes {shapes} do not fit a preconditioner for {d} features: pass one of (C, {d})."
            )
        if parameters is None and len(fitting) > 1:
            shapes = ", ".join(str(tuple(p.shape)) for p in fitting)
            raise InputError(f"parameters of shapes {shapes} all fit {d} features: pass the right one as parameters.")
        super().__init__(optimizer, fitting)
        self.preconditioner = preconditioner

    def _inner(self, values: Values) -> Values:
        return [self._along_features(value, self.preconditioner.unroot) for value in values]

    def _outer(self, values: Values) -> Values:
        return [self._along_features(value, self.preconditioner.root) for value in values]

    def _pull_back(self, gradients: Values) -> Values:
        return [self._along_features(gradient, self.preconditioner.root_transposed) for gradient in gradients]

    def _along_features(self, value: torch.Tensor, apply: Callable[[torch.Tensor], torch.Tensor]) -> torch.Tensor:
        """``apply`` along the dimension of the features, in the preconditioner's precision."""
        by_columns = value.shape[1] == self.preconditioner.n_features
        transformed = apply((value.T if by_columns else value).to(self.preconditioner.dtype)).to(value.dtype)
        return transformed.T.contiguous() if by_columns else transformed
