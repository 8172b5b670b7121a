"""Published bounds of the gradient's norm after a removal, as printed. No certificate rests on them.

The worst-case bounds (Theorems 4.2 to 4.4) hold under their assumptions (``||grad l|| <= c``, ``|l'| <= c1``, ``l'``
gamma1-Lipschitz, rows of X no longer than one) and are far above the truth. The data-dependent bound (Theorem 4.5) is
**not a bound**: see :func:`published_data_dependent`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from nareg.unlearning.objective import spectral_norm_bound


def embedding_error(n_nodes: int, order: int, r_max: float) -> float:
    """``sqrt(n) L r_max``: Lemma 3.1's bound of a column's error (its proof rests on ``||A D^-1||_2 <= 1``, which is false)."""
    return math.sqrt(n_nodes) * order * r_max


def worst_case_feature(
    degree: float, *, n_features: int, n_train: int, lam: float, error: float = 0.0, c: float, c1: float, gamma1: float
) -> float:
    """Theorem 4.2: one node's features are removed; ``n_train`` nodes before, ``error`` that of :func:`embedding_error`.

    Examples
    --------
    >>> round(worst_case_feature(4, n_features=2, n_train=101, lam=0.01, c=1.0, c1=1.0, gamma1=0.25), 3)
    513.137
    """
    F, n_t = n_features, n_train - 1
    return _scale(F, n_t, lam, c, c1, gamma1) * (error + 8 * gamma1 * F / (lam * n_t) * math.sqrt(degree))


def worst_case_edge(
    degrees: tuple[float, float],
    *,
    n_features: int,
    n_train: int,
    lam: float,
    error: float = 0.0,
    c: float,
    c1: float,
    gamma1: float,
) -> float:
    """Theorem 4.3: an edge between nodes of these degrees is removed."""
    F, n_t = n_features, n_train
    moved = 2 * error + sum(4 / math.sqrt(d) for d in degrees)
    return _beside(F, n_t, lam, c, gamma1) + _scale(F, n_t, lam, c, c1, gamma1) * (error + 2 * gamma1 * F / (lam * n_t) * moved)


def worst_case_node(
    degree: float,
    neighbours: Sequence[float],
    *,
    n_features: int,
    n_train: int,
    lam: float,
    error: float = 0.0,
    c: float,
    c1: float,
    gamma1: float,
) -> float:
    """Theorem 4.4: a node of this degree is removed, whose neighbours have those."""
    F, n_t = n_features, n_train - 1
    moved = 2 * error + 4 * math.sqrt(degree) + sum(4 / math.sqrt(d) for d in neighbours)
    return _beside(F, n_t, lam, c, gamma1) + _scale(F, n_t, lam, c, c1, gamma1) * (error + 2 * gamma1 * F / (lam * n_t) * moved)


def _scale(F: int, n_t: int, lam: float, c: float, c1: float, gamma1: float) -> float:
    return c * gamma1 * F / lam + c1 * math.sqrt(F * n_t)


def _beside(F: int, n_t: int, lam: float, c: float, gamma1: float) -> float:
    return 4 * c * gamma1 * F / (lam * n_t)


def published_data_dependent(
    residues: Sequence[np.ndarray], Z: np.ndarray, step: np.ndarray, *, c1: float, gamma2: float
) -> float:
    """Theorem 4.5, ``2 c1 ||1^T R|| + gamma2 ||Z|| ||p|| ||Z p||``, ``R = sum_t R^(t)``, Newton step p. **Not a bound.**

    Residues of opposite signs cancel in ``1^T R``: two nodes without edges, ``x = (0.4, -0.4)``, ``y = (1, -1)``,
    r_max = 0.5 and w = 0 make it zero where the gradient is off by 0.4. Nor is the change of ``l'`` with Z in it.

    Examples
    --------
    >>> import numpy as np
    >>> published_data_dependent([np.array([[0.4], [-0.4]])], np.zeros((2, 1)), np.zeros(1), c1=1.0, gamma2=0.1)
    0.0
    """
    cancelled = float(np.linalg.norm(np.sum(residues, axis=0).sum(axis=0)))
    moved = spectral_norm_bound(Z) * float(np.linalg.norm(step)) * float(np.linalg.norm(Z @ step))
    return 2 * c1 * cancelled + gamma2 * moved


def newton_residual(Z: np.ndarray, step: np.ndarray, *, gamma2: float) -> float:
    """Bound of the gradient that a Newton step p leaves: ``gamma2 / 2 ||Z|| ||(Z p)^2||``, the square entrywise (Taylor).

    For the logistic loss gamma2 is ``1 / (6 sqrt(3))``, not 1/4. Certificates are charged with the gradient itself, which costs
    no more than this does.
    """
    return 0.5 * gamma2 * spectral_norm_bound(Z) * float(np.linalg.norm((Z @ step) ** 2))
