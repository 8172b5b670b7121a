"""Preconditioners ``P ~ J^T D J`` of the training problem: exact or sketched Gram matrices of ``Q = M H^-1 X``.

    P = Q~^T Q~ + ridge,      W = R W',  R R^T = P^-1            (HERTA, Algorithm 1 and Lemma 5.3, with the mask M)

The ridge makes ``P^-1`` and its root exist for features of any rank.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property

import torch

from nareg.herta._features import tall_product, tall_transposed_product

#: Relative ridge. Values from 1e-12 to 1e-4 work on the citation graphs (measured); without one Cholesky fails on Cora.
#: Its inverse times the rounding of a gradient has to be small.
RIDGE = {torch.float64: 1e-8, torch.float32: 1e-6}
#: Rows of the sketch, in multiples of the number of features.
SKETCH = 8
#: Accuracy of the solves behind a preconditioner, which has to be right within a constant only.
TOLERANCE = 1e-2
#: Squared singular values below this share of the largest count as zero.
NEGLIGIBLE = 1e-14
#: Ratio of the columns' lengths above which their squares differ too much for one Gram matrix of rows.
SPREAD = 1e4
#: Smallest ridge for Cholesky to succeed, in multiples of ``d eps ||Gram||``.
SAFETY = 4.0
#: Rows, in multiples of the number of features, with which a sketch has the features' rank.
RANK_ROWS = 2


class GramFactor:
    """``P = Q^T Q + ridge + weight_decay I`` for Q of any shape: ``P^-1`` by Cholesky, its root by eigenvectors.

    Columns of Q are scaled to one length (S), so that features may have different units:
    ``P = S^-1 (S (Q^T Q + weight_decay I) S + ridge I) S^-1``. With fewer rows than columns the work is done on ``Q S^2 Q^T``,
    with S = I unless lengths differ by more than 1e4: outside the row space of Q S, P is the ridge. There weight decay,
    if it is more than the ridge, takes the ridge's place; with weight decay and such lengths the work is done on ``Q^T Q``.

    It is stored in double precision whatever Q's dtype, because Gram matrices have the square of Q's range.
    """

    def __init__(self, Q: torch.Tensor, *, ridge: float | None = None, weight_decay: float = 0.0) -> None:
        s, d = Q.shape
        self.dtype, self.device, self.n_features = Q.dtype, Q.device, d
        ridge = RIDGE[Q.dtype] if ridge is None else ridge
        Q = Q.double()
        squares = (Q * Q).sum(0)
        self._wide, self._decay_dominates = s < d, weight_decay > ridge * float(squares.mean())
        self._scale = inverse_or_one(squares.add(weight_decay).sqrt())[:, None]
        similar = float(self._scale.max()) < SPREAD * float(self._scale.min())
        if self._wide and weight_decay > 0 and not similar:  # no form on Q Q^T has both scales and decay
            self._wide = False
        if self._wide and (self._decay_dominates or similar):
            self._scale = Q.new_ones((d, 1))
        self._weight_decay = weight_decay
        scaled = Q * self._scale.T
        self._rows = scaled if self._wide else None
        self._gram = scaled @ scaled.T if self._wide else scaled.T @ scaled
        #: rounding may make the smallest eigenvalue as low as minus this
        rounding = SAFETY * self._gram.shape[0] * torch.finfo(torch.float64).eps * float(self._gram.norm())
        if self._wide:
            self.shift = max(weight_decay if self._decay_dominates else ridge * float(self._gram.trace()) / d, rounding) or 1.0
        else:
            self._gram.diagonal().add_(weight_decay * self._scale[:, 0] ** 2)
            # an all-zero Q is no preconditioner, and P the identity
            self.shift = max(ridge * float(self._gram.trace()) / d, rounding) or 1.0

    @cached_property
    def _cholesky(self) -> torch.Tensor:
        shifted = self._gram.clone()
        shifted.diagonal().add_(self.shift)
        return torch.linalg.cholesky(shifted)

    @cached_property
    def _eigen(self) -> tuple[torch.Tensor, torch.Tensor]:
        """Orthonormal vectors that span the row space, or all of the space, and the eigenvalues of ``S P S`` along them."""
        values, U = torch.linalg.eigh(self._gram)
        if self._rows is None:
            return U, values.clamp(min=0) + self.shift
        retained = values > NEGLIGIBLE * values[-1].clamp(min=0)
        return self._rows.T @ U[:, retained] / values[retained].sqrt(), values[retained] + self.shift

    @cached_property
    def rank(self) -> int:
        """Number of directions in which Q, its columns scaled, is longer than the root of the ridge.

        It counts the Gram matrix' eigenvalues above the ridge by the signs of an ``L D L^T`` factorization (Sylvester).
        """
        shifted = self._gram.clone()
        shifted.diagonal().sub_(self.shift)
        D, pivots = torch.linalg.ldl_factor(shifted)
        single = pivots > 0  # a block of two has an eigenvalue of either sign
        return int((D.diagonal()[single] > 0).sum()) + int((~single).sum()) // 2

    def solve(self, G: torch.Tensor) -> torch.Tensor:
        """``P^-1 G``."""
        return self._scaled(G, self._full_inverse)

    def solve_in_row_space(self, G: torch.Tensor) -> torch.Tensor:
        """``P^-1 G`` within the row space of Q, and outside it by weight decay alone: without decay that part is an error of G.

        Curvature below the ridge is ignored.
        """
        return self._scaled(G, self._full_inverse if self._rows is None or self._decay_dominates else self._row_space_inverse)

    def root(self, V: torch.Tensor) -> torch.Tensor:
        """``R V`` with ``R R^T = P^-1``: from preconditioned coordinates to weights."""
        return (self._scale * self._power(V.double(), -0.5)).to(V.dtype)

    def root_transposed(self, G: torch.Tensor) -> torch.Tensor:
        """``R^T G``: from the gradient in the weights to that in preconditioned coordinates."""
        return self._power(self._scale * G.double(), -0.5).to(G.dtype)

    def unroot(self, W: torch.Tensor) -> torch.Tensor:
        """``R^-1 W``: from weights to preconditioned coordinates."""
        return self._power(W.double() / self._scale, 0.5).to(W.dtype)

    def _scaled(self, G: torch.Tensor, inverse: Callable[[torch.Tensor], torch.Tensor]) -> torch.Tensor:
        return (self._scale * inverse(self._scale * G.double())).to(G.dtype)

    def _full_inverse(self, G: torch.Tensor) -> torch.Tensor:
        if self._rows is None:
            return self._inverse(G)
        return (G - tall_transposed_product(self._rows, self._inverse(tall_product(self._rows, G)))) / self.shift

    def _row_space_inverse(self, G: torch.Tensor) -> torch.Tensor:
        assert self._rows is not None
        inner = self._inverse(tall_product(self._rows, G))
        along = tall_transposed_product(self._rows, self._inverse(inner))
        if not self._weight_decay:
            return along
        return along + (G - tall_transposed_product(self._rows, inner)) / self._weight_decay

    def _inverse(self, B: torch.Tensor) -> torch.Tensor:
        """Inverse of the shifted Gram matrix times B; torch.cholesky_solve would copy the matrix each time."""
        half = torch.linalg.solve_triangular(self._cholesky, B, upper=False)
        return torch.linalg.solve_triangular(self._cholesky.T, half, upper=True)

    def _power(self, G: torch.Tensor, exponent: float) -> torch.Tensor:
        V, values = self._eigen
        along = tall_transposed_product(V, G)
        if self._rows is None:
            return tall_product(V, along * values[:, None] ** exponent)
        # outside the row space P is the ridge
        rest = self.shift**exponent
        return rest * G + tall_product(V, along * (values[:, None] ** exponent - rest))


def inverse_or_one(lengths: torch.Tensor) -> torch.Tensor:
    """``1 / length``, and 1 for columns of zeros."""
    return torch.where(lengths > 0, 1 / lengths, torch.ones_like(lengths))


@dataclass(frozen=True)
class Preconditioner:
    """An approximation P of the Hessian: one factor for all outputs, or one per output.

    Attributes
    ----------
    factors : list of GramFactor
        One, or one per output; none for no preconditioner.
    kind : str
        "none", "exact" or "sketched".
    rows : int
        Rows of Q~.
    condition : float or None
        Estimated condition number of the preconditioned Hessian (Lanczos, from below), along directions of nonzero curvature.
    in_row_space : bool
        Whether gradients lie in the row space of Q up to rounding, as where they are computed with Q itself.
    reason : str
        Why it is exact or sketched, where estimated cost decided.

    Examples
    --------
    >>> import numpy as np, torch, nareg
    >>> from nareg import herta
    >>> X = np.random.default_rng(0).standard_normal((400, 10))
    >>> P = herta.precondition(nareg.graphs.grid((20, 20)), X, lam=5.0)
    >>> P.kind, P.rows, P.n_features
    ('exact', 400, 10)
    >>> G = torch.ones((10, 2), dtype=torch.float64)
    >>> bool(torch.allclose(P.root(P.root_transposed(G)), P.solve(G)))  # R R^T = P^-1
    True
    """

    factors: list[GramFactor] = field(default_factory=list)
    kind: str = "none"
    rows: int = 0
    condition: float | None = None
    in_row_space: bool = False
    reason: str = ""

    @property
    def n_features(self) -> int:
        """Number of features F; 0 for no preconditioner."""
        return self.factors[0].n_features if self.factors else 0

    @property
    def dtype(self) -> torch.dtype:
        """Of the features."""
        return self.factors[0].dtype if self.factors else torch.float64

    @property
    def device(self) -> torch.device:
        """Of the features."""
        return self.factors[0].device if self.factors else torch.device("cpu")

    @property
    def rank(self) -> int | None:
        """Numerical rank of the features; None without P, and for a sketch with too few rows."""
        enough = self.kind != "sketched" or self.rows >= RANK_ROWS * self.n_features
        return self.factors[0].rank if self.factors and enough else None

    def solve(self, G: torch.Tensor) -> torch.Tensor:
        """``P^-1 G`` for (F, C) G."""
        return self._solve(G, GramFactor.solve_in_row_space if self.in_row_space else GramFactor.solve)

    def gap(self, gradient: torch.Tensor) -> float | None:
        """``<g, P^-1 g> / 2``, the estimated distance of the loss from its minimum; None without a preconditioner."""
        if not self.factors:
            return None
        return 0.5 * float((gradient * self._solve(gradient, GramFactor.solve_in_row_space)).sum())

    def root(self, V: torch.Tensor) -> torch.Tensor:
        """``R V`` with ``R R^T = P^-1``."""
        return self._by_output(V, GramFactor.root)

    def root_transposed(self, G: torch.Tensor) -> torch.Tensor:
        """``R^T G``."""
        return self._by_output(G, GramFactor.root_transposed)

    def unroot(self, W: torch.Tensor) -> torch.Tensor:
        """``R^-1 W``."""
        return self._by_output(W, GramFactor.unroot)

    def _solve(self, G: torch.Tensor, solve: Callable[[GramFactor, torch.Tensor], torch.Tensor]) -> torch.Tensor:
        return self._centered(self._by_output(self._centered(G), solve))

    def _by_output(self, G: torch.Tensor, apply: Callable[[GramFactor, torch.Tensor], torch.Tensor]) -> torch.Tensor:
        if not self.factors:
            return G.clone()
        if len(self.factors) == 1:
            return apply(self.factors[0], G)
        return torch.cat([apply(factor, G[:, k : k + 1]) for k, factor in enumerate(self.factors)], dim=1)

    def _centered(self, G: torch.Tensor) -> torch.Tensor:
        """Without the mean over outputs, along which cross-entropy has no curvature but its blocks have."""
        return G - G.mean(dim=1, keepdim=True) if len(self.factors) > 1 else G
