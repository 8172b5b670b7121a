"""Preconditioners ``P ~ J^T D J`` of the training problem: exact or sketched Gram matrices of ``Q = M H^-1 X``.

    P = Q~^T Q~ + ridge,      W = R W',  R R^T = P^-1            (HERTA, Algorithm 1 and Lemma 5.3, with the mask M)

The ridge makes ``P^-1`` and its root exist for features of any rank.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property

import torch

#: Relative ridge: anything from 1e-12 to 1e-4 works on the citation graphs (measured), with none Cholesky fails on Cora.
RIDGE = 1e-8
#: Rows of the sketch, in multiples of the number of features.
SKETCH = 8
#: Accuracy of the solves behind a preconditioner, which needs to be right within a constant only.
TOLERANCE = 1e-2
#: Squared singular values below this share of the largest count as zero.
NEGLIGIBLE = 1e-14


class Factor:
    """``P = Q^T Q + ridge + weight_decay I`` for Q of any shape: ``P^-1`` by Cholesky, its root by eigenvectors, when asked.

    With at least as many rows as columns, columns of Q are scaled to one length first (S), so that features in different units
    do no harm: ``P = S^-1 (S (Q^T Q + weight_decay I) S + ridge I) S^-1``. With fewer rows, both work on ``Q Q^T``; outside the
    row space of Q, P is the ridge.
    """

    def __init__(self, Q: torch.Tensor, *, ridge: float = RIDGE, weight_decay: float = 0.0) -> None:
        s, d = Q.shape
        self._rows = Q if s < d else None
        if self._rows is not None:
            self._scale = Q.new_ones((d, 1))
            self._gram = Q @ Q.T
            self.added = (weight_decay + ridge * float(self._gram.trace()) / d) or 1.0
            return
        lengths = (Q * Q).sum(0).add(weight_decay).sqrt()
        self._scale = torch.where(lengths > 0, 1 / lengths, torch.ones_like(lengths))[:, None]
        scaled = Q * self._scale.T
        self._gram = scaled.T @ scaled
        self._gram.diagonal().add_(weight_decay * self._scale[:, 0] ** 2)
        #: an all-zero Q is no preconditioner, and P the identity
        self.added = ridge * float(self._gram.trace()) / d or 1.0

    @property
    def n_features(self) -> int:
        """Number of features F."""
        return int(self._scale.shape[0])

    @property
    def dtype(self) -> torch.dtype:
        """Of what it is applied to."""
        return self._scale.dtype

    @cached_property
    def _cholesky(self) -> torch.Tensor:
        shifted = self._gram.clone()
        shifted.diagonal().add_(self.added)
        return torch.linalg.cholesky(shifted)

    @cached_property
    def _eigen(self) -> tuple[torch.Tensor, torch.Tensor]:
        """Orthonormal vectors that span the row space, or all of the space, and the eigenvalues of ``S P S`` along them."""
        values, U = torch.linalg.eigh(self._gram)
        if self._rows is None:
            return U, values.clamp(min=0) + self.added
        kept = values > NEGLIGIBLE * values[-1].clamp(min=0)
        return self._rows.T @ U[:, kept] / values[kept].sqrt(), values[kept] + self.added

    def solve(self, G: torch.Tensor) -> torch.Tensor:
        """``P^-1 G``."""
        if self._rows is None:
            return self._scale * torch.cholesky_solve(self._scale * G, self._cholesky)
        return (G - self._rows.T @ torch.cholesky_solve(self._rows @ G, self._cholesky)) / self.added

    def seen(self, G: torch.Tensor) -> torch.Tensor:
        """``P^-1 G`` within the row space of Q where there are fewer rows than columns: what is outside it is an error of G."""
        if self._rows is None:
            return self.solve(G)
        inner = torch.cholesky_solve(self._rows @ G, self._cholesky)
        return self._rows.T @ torch.cholesky_solve(inner, self._cholesky)

    def root(self, V: torch.Tensor) -> torch.Tensor:
        """``R V`` with ``R R^T = P^-1``: from preconditioned coordinates to weights."""
        return self._scale * self._power(V, -0.5)

    def root_transposed(self, G: torch.Tensor) -> torch.Tensor:
        """``R^T G``: from the gradient in the weights to that in preconditioned coordinates."""
        return self._power(self._scale * G, -0.5)

    def unroot(self, W: torch.Tensor) -> torch.Tensor:
        """``R^-1 W``: from weights to preconditioned coordinates."""
        return self._power(W / self._scale, 0.5)

    def _power(self, G: torch.Tensor, exponent: float) -> torch.Tensor:
        V, values = self._eigen
        along = V.T @ G
        scaled = V @ (along * values[:, None] ** exponent)
        return scaled if self._rows is None else scaled + (G - V @ along) * self.added**exponent


@dataclass(frozen=True)
class Preconditioner:
    """One factor for all outputs, or one for each.

    Attributes
    ----------
    factors : list of Factor
        One, or as many as there are outputs.
    kind : str
        "none", "exact" or "sketched".
    rows : int
        Rows of Q~ that it was made of.
    seconds : float
        Time that building it took.
    condition : float or None
        Estimated condition number of the preconditioned Hessian (Lanczos, from below), along directions that it sees.
    """

    factors: list[Factor] = field(default_factory=list)
    kind: str = "none"
    rows: int = 0
    seconds: float = 0.0
    condition: float | None = None

    @property
    def n_features(self) -> int:
        """Number of features F; 0 for no preconditioner."""
        return self.factors[0].n_features if self.factors else 0

    @property
    def dtype(self) -> torch.dtype:
        """In which it is applied."""
        return self.factors[0].dtype if self.factors else torch.float64

    def solve(self, G: torch.Tensor) -> torch.Tensor:
        """``P^-1 G`` for (F, C) G."""
        return self._by_output(G, Factor.solve)

    def gap(self, gradient: torch.Tensor) -> float | None:
        """``<g, P^-1 g> / 2``: about how far the loss is from its minimum; None without a preconditioner."""
        if not self.factors:
            return None
        return 0.5 * float((gradient * self._by_output(gradient, Factor.seen)).sum())

    def root(self, V: torch.Tensor) -> torch.Tensor:
        """``R V`` with ``R R^T = P^-1``."""
        return self._by_output(V, Factor.root)

    def root_transposed(self, G: torch.Tensor) -> torch.Tensor:
        """``R^T G``."""
        return self._by_output(G, Factor.root_transposed)

    def unroot(self, W: torch.Tensor) -> torch.Tensor:
        """``R^-1 W``."""
        return self._by_output(W, Factor.unroot)

    def _by_output(self, G: torch.Tensor, apply: Callable[[Factor, torch.Tensor], torch.Tensor]) -> torch.Tensor:
        if not self.factors:
            return G.clone()
        if len(self.factors) == 1:
            return apply(self.factors[0], G)
        return torch.cat([apply(factor, G[:, k : k + 1]) for k, factor in enumerate(self.factors)], dim=1)
