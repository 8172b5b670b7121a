"""The linear head behind an embedding: trained with a random linear term, and brought to the optimum again by Newton steps."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from scipy.linalg import cho_factor, cho_solve

from nareg.errors import SolverError
from nareg.unlearning._products import threads
from nareg.unlearning.certificate import CertificateError
from nareg.unlearning.objective import ClassifierLoss, ClassifierObjective, Evaluated, spectral_norm_bound
from nareg.unlearning.propagation.base import Embedding
from nareg.unlearning.propagation.device import Device

#: Gradients are brought down to this share of the budget: what is spent beyond that buys nothing but time.
SHARE = 0.1
#: Error of a gradient by rounding, as a share of its terms' sizes.
ROUNDING = 1e-12
#: Without a budget the gradient is brought down to this share of the one at W = 0.
TOLERANCE = 1e-6


@dataclass(frozen=True, eq=False)
class Head:
    """Coefficients, the random term that they were found with, and how near to the optimum they are.

    Attributes
    ----------
    W, B : (F, C) arrays
    residual : float
        Frobenius norm of the gradient on the embedding that was given.
    approximation : float
        Bound of what the exact embedding adds.
    """

    W: np.ndarray
    B: np.ndarray
    residual: float
    approximation: float

    @property
    def spent(self) -> float:
        """Of the budget."""
        return self.residual + self.approximation


def problem(
    embedded: Embedding, Y: np.ndarray, B: np.ndarray, *, loss: ClassifierLoss, lam: float, device: Device | None
) -> ClassifierObjective:
    """Of training on an embedding, in memory or on a device."""
    S, s = embedded.trained()
    if device is None:
        return ClassifierObjective(S, s, Y, loss, lam, B)
    return ClassifierObjective(device.given(S), device.given(s), device.given(Y), loss, lam, device.given(B))


def solve(
    embedded: Embedding,
    Y: np.ndarray,
    B: np.ndarray,
    W: np.ndarray,
    *,
    loss: ClassifierLoss,
    lam: float,
    budget: float | None,
    device: Device | None = None,
) -> Head:
    """Newton steps from W until next to nothing of the budget is spent; without a budget until the optimum.

    Raises
    ------
    CertificateError
        If more than the budget is spent, whatever is done.
    """
    objective = problem(embedded, Y, B, loss=loss, lam=lam, device=device)
    with threads(objective.S, W.shape[1]):
        target = TOLERANCE * objective.evaluate(np.zeros_like(W)).residual if budget is None else SHARE * budget
        try:
            at = objective.minimize(W, target)
        except SolverError as error:
            raise CertificateError(str(error)) from None
        bound = approximation(objective, at, embedded) if embedded.exact else None
    if bound is None:  # products of Gram matrices are not small
        bound = approximation(objective, at, embedded)
    found = Head(at.W, B, at.residual, bound)
    if budget is not None and not found.spent <= budget:
        raise CertificateError(
            f"the embedding's error can add {found.approximation:.3g} to the gradient, and the budget is {budget:.3g}: take "
            "a smaller r_max (0 has no error but rounding), smaller features if there are huge ones, or a larger alpha or eps."
        )
    return found


def newton_step(objective: ClassifierObjective, W: np.ndarray, gradient: np.ndarray) -> np.ndarray:
    """``-H^-1 gradient`` with the dense Hessian at W of each class, as the published methods have it."""
    Z, curvature = objective.s[:, None] * objective.S, objective.evaluate(W).curvature
    step = np.empty_like(W)
    for k in range(W.shape[1]):
        H = Z.T @ (curvature[:, k : k + 1] * Z)
        H.flat[:: len(H) + 1] += objective.ridge
        step[:, k] = -cho_solve(cho_factor(H, overwrite_a=True), gradient[:, k])
    return step


def evaluate(
    embedded: Embedding,
    Y: np.ndarray,
    B: np.ndarray,
    W: np.ndarray,
    *,
    loss: ClassifierLoss,
    lam: float,
    device: Device | None = None,
) -> Head:
    """What is spent at given coefficients."""
    objective = problem(embedded, Y, B, loss=loss, lam=lam, device=device)
    at = replace(objective.evaluate(W), W=W)
    return Head(W, B, at.residual, approximation(objective, at, embedded))


def approximation(objective: ClassifierObjective, at: Evaluated, embedded: Embedding) -> float:
    """Bound of the difference that the exact embedding Z makes to the gradient at ``at.W`` on ``Z_hat``, all classes jointly.

    ``Z^T l'(Z W) - Z_hat^T l'(Z_hat W)`` is ``(Z - Z_hat)^T l'(Z W)``, which has two bounds, and
    ``Z_hat^T (l'(Z W) - l'(Z_hat W))``. Theorem 4.5 has ``2 c1 ||1^T R||`` in the place of both, which is no bound: residues
    cancel, and the change of ``l'`` is not in it.
    """
    loss, W = objective.loss, at.W
    e_W, e_F, columns = embedded.errors(W), embedded.errors(), embedded.column_errors()
    norm = size = objective.size
    if not embedded.exact:  # where there is rounding only a better bound than the Frobenius norm is not worth its time
        S, s = embedded.trained()
        norm = spectral_norm_bound(s[:, None] * S)
    first = e_F * (at.slope + loss.gamma1 * e_W)
    if np.isfinite(loss.c1):
        first = min(first, loss.c1 * float(np.sqrt(W.shape[1]) * np.linalg.norm(columns)))
    length = float(np.linalg.norm(W))
    computed = size * (at.slope + loss.gamma1 * size * length) + objective.ridge * length + objective.term
    return first + loss.gamma1 * norm * e_W + ROUNDING * computed
