"""The linear head on an embedding: trained with a linear noise term, and returned to the optimum by Newton steps."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Protocol

import numpy as np

from nareg._solvers.tall_products import threads
from nareg.errors import CertificateError, SolverError
from nareg.unlearning.calibration import checked_budget
from nareg.unlearning.certificate import Certificate
from nareg.unlearning.objective import ClassifierLoss, ClassifierObjective, Evaluated, spectral_norm_bound
from nareg.unlearning.propagation.device import Device

if TYPE_CHECKING:
    from nareg.unlearning.data import Data

#: Newton steps stop at this share of the budget: a smaller gradient would only cost time.
SHARE = 0.1
#: Rounding error of a gradient, as a share of the sizes of its terms.
ROUNDING = 1e-12
#: Arrays of (n_t, C) numbers that a training holds at once.
ARRAYS = 8
#: Without a budget Newton steps stop at this share of the gradient at W = 0.
TOLERANCE = 1e-6


class TrainingRows(Protocol):
    """What a head is trained on: rows of training nodes, and how far they are from those that exact arithmetic gives."""

    @property
    def exact(self) -> bool:
        """Whether there is no error but rounding."""

    def trained(self) -> tuple[np.ndarray, np.ndarray]:
        """``S, s``: rows Z_hat of the training nodes are ``s S``."""

    def errors(self, W: np.ndarray | None = None) -> float:
        """Bound of ``||(Z - Z_hat) W||_F``, without W of ``||Z - Z_hat||_F``."""

    def column_errors(self) -> np.ndarray:
        """(F,) bounds of the columns of ``|Z - Z_hat|`` summed over the training nodes."""


@dataclass(frozen=True, eq=False)
class Head:
    """Coefficients, their noise term, and the distance to the optimum.

    Attributes
    ----------
    W, B : (F, C) arrays
    residual : float
        Frobenius norm of the gradient on the given embedding.
    approximation : float
        Bound on what the exact embedding adds.
    """

    W: np.ndarray
    B: np.ndarray
    residual: float
    approximation: float

    @property
    def spent(self) -> float:
        """The used part of the budget: ``residual + approximation``."""
        return self.residual + self.approximation


def approximation(objective: ClassifierObjective, at: Evaluated, embedded: TrainingRows) -> float:
    """Bound on what the exact embedding Z changes in the gradient at ``at.W`` on ``Z_hat``, all classes jointly.

    ``Z^T l'(Z W) - Z_hat^T l'(Z_hat W)`` is ``(Z - Z_hat)^T l'(Z W)``, which has two bounds, and
    ``Z_hat^T (l'(Z W) - l'(Z_hat W))``. Theorem 4.5 has ``2 c1 ||1^T R||`` in place of both, which is not a bound: residues
    cancel, and it omits the change of ``l'``.
    """
    loss, W = objective.loss, at.W
    e_W, e_F, columns = embedded.errors(W), embedded.errors(), embedded.column_errors()
    norm = size = objective.size
    if not embedded.exact:  # with rounding errors only, a better bound than the Frobenius norm is not worth its time
        S, s = embedded.trained()
        norm = spectral_norm_bound(s[:, None] * S)
    first = e_F * (at.slope + loss.gamma1 * e_W)
    if np.isfinite(loss.c1):
        first = min(first, loss.c1 * float(np.sqrt(W.shape[1]) * np.linalg.norm(columns)))
    length = float(np.linalg.norm(W))
    computed = size * (at.slope + loss.gamma1 * size * length) + objective.ridge * length + objective.term
    return first + loss.gamma1 * norm * e_W + ROUNDING * computed


@dataclass(frozen=True, eq=False)
class CertifiedTraining:
    """Loss, ridge, noise and guarantee of a head.

    The rows that it is trained on are those of the embedding, unless ``rows`` says otherwise.

    Attributes
    ----------
    loss : ClassifierLoss
    lam, alpha, eps, delta, eps_scale : float
        As in :class:`~nareg.unlearning.CertifiedGPR`.
    device : Device or None
    """

    loss: ClassifierLoss
    lam: float
    alpha: float
    eps: float
    delta: float
    eps_scale: float = 0.0
    device: Device | None = None

    @property
    def budget(self) -> float:
        """Largest gradient norm of a certificate; 0 without a noise term."""
        return checked_budget(self.alpha, self.eps, self.delta)

    def adjusted(self, data: Data, B: np.ndarray, W: np.ndarray, rows: TrainingRows | None = None) -> Head:
        """Newton steps from W to a tenth of the budget, or without a noise term to the optimum.

        Raises
        ------
        CertificateError
            If the gradient and its error exceed the budget.
        TooLargeError
            If the device's memory does not suffice.
        """
        rows = data.propagation if rows is None else rows
        budget = self.budget if self.alpha else None
        with self._room(rows, W.shape[1]):
            objective = self._objective(rows, data.targets(), B)
            with threads(objective.S, W.shape[1]):
                target = TOLERANCE * objective.evaluate(np.zeros_like(W)).residual if budget is None else SHARE * budget
                try:
                    at = objective.minimize(W, target)
                except SolverError as error:
                    raise CertificateError(str(error)) from None
                bound = approximation(objective, at, rows) if rows.exact else None
            if bound is None:  # products of Gram matrices are not small
                bound = approximation(objective, at, rows)
        result = Head(at.W, B, at.residual, bound)
        if budget is not None and not result.spent <= budget:
            raise CertificateError(
                f"the embedding's error can add {bound:.3g} to the gradient, above the budget {budget:.3g}: pass a smaller "
                "r_max (0 has only rounding errors), smaller features if there are huge ones, or a larger alpha or eps."
            )
        return result

    def retrained(self, data: Data, rng: np.random.Generator, rows: TrainingRows | None = None) -> Head:
        """From nothing, with a new noise term."""
        width = data.n_features if rows is None else rows.trained()[0].shape[1]
        B = rng.normal(0.0, 1.0, (width, data.columns)) * self.alpha
        return self.adjusted(data, B, np.zeros_like(B), rows)

    def evaluated(self, data: Data, B: np.ndarray, W: np.ndarray) -> Head:
        """The head of given coefficients, with its residual and approximation."""
        rows = data.propagation
        with self._room(rows, W.shape[1]):
            objective = self._objective(rows, data.targets(), B)
            at = replace(objective.evaluate(W), W=W)
            return Head(W, B, at.residual, approximation(objective, at, rows))

    def _objective(self, rows: TrainingRows, Y: np.ndarray, B: np.ndarray) -> ClassifierObjective:
        """The training problem, in memory or on the device."""
        S, s = rows.trained()
        if self.device is None:
            return ClassifierObjective(S, s, Y, self.loss, self.lam, B)
        S, s, Y, B = (self.device.given(part) for part in (S, s, Y, B))
        return ClassifierObjective(S, s, Y, self.loss, self.lam, B)

    def _room(self, rows: TrainingRows, columns: int) -> AbstractContextManager[None]:
        """Context for a training on the device, whose memory may not suffice for embedding and some (n_t, C) arrays."""
        if self.device is None:
            return nullcontext()
        S, _ = rows.trained()
        return self.device.room("training", S.size + ARRAYS * len(S) * columns)

    def certificate(
        self, data: Data, result: Head, request: str, count: int, timings: dict[str, float], *, retrained: bool
    ) -> Certificate | None:
        """What a request left; None without a noise term."""
        if not self.alpha:
            return None
        return Certificate(
            request=request, count=count, eps=self.eps, delta=self.delta, alpha=self.alpha, budget=self.budget,
            spent=result.spent, residual=result.residual, approximation=result.approximation, retrained=retrained,
            n_nodes=data.n_nodes - int(np.count_nonzero(data.gone)), n_edges=data.graph.n_edges, n_train=data.train.size,
            timings=timings, eps_scale=self.eps_scale,
        )  # fmt: skip
