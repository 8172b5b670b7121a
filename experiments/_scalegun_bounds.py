"""Published bounds of the gradient's norm after a removal, as printed. No certificate rests on them.

The worst-case bounds (Theorems 4.2 to 4.4) hold under their assumptions (``||grad l|| <= c``, ``|l'| <= c1``, ``l'``
gamma1-Lipschitz, rows of X no longer than one) and are far above the truth. The data-dependent bound (Theorem 4.5) is
**not a bound**: see :func:`published_data_dependent`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from nareg.unlearning.objective import spectral_norm_bound


def embedding_error(n_nodes: int, order: int, r_max: float) -> float:
    """``sqrt(n) L r_max``: Lemma 3.1's bound of a column's error (its proof rests on ``||A D^-1||_2 <= 1``, which is false)."""
    return math.sqrt(n_nodes) * order * r_max


@dataclass(frozen=True)
class WorstCaseBounds:
    """The worst-case bounds, given what they assume.

    Parameters
    ----------
    n_features, n_train : int
        F, and the number of training nodes before the removal.
    lam : float
    c, c1, gamma1 : float
        ``||grad l|| <= c``, ``|l'| <= c1``, and the Lipschitz constant of ``l'``.
    error : float
        That of :func:`embedding_error`.

    Examples
    --------
    >>> assumed = WorstCaseBounds(n_features=2, n_train=101, lam=0.01, c=1.0, c1=1.0, gamma1=0.25)
    >>> round(assumed.feature(4), 3)
    513.137
    """

    n_features: int
    n_train: int
    lam: float
    c: float
    c1: float
    gamma1: float
    error: float = 0.0

    def feature(self, degree: float) -> float:
        """Theorem 4.2: the features of a node of this degree are removed."""
        n_t = self.n_train - 1
        return self._scale(n_t) * (self.error + 4 * self._step(n_t) * math.sqrt(degree))

    def edge(self, degrees: tuple[float, float]) -> float:
        """Theorem 4.3: an edge between nodes of these degrees is removed."""
        return self._moved(self.n_train, sum(4 / math.sqrt(d) for d in degrees))

    def node(self, degree: float, neighbors: Sequence[float]) -> float:
        """Theorem 4.4: a node of this degree is removed, whose neighbors have those."""
        return self._moved(self.n_train - 1, 4 * math.sqrt(degree) + sum(4 / math.sqrt(d) for d in neighbors))

    def _moved(self, n_t: int, moved: float) -> float:
        step = self._step(n_t)
        return 2 * self.c * step + self._scale(n_t) * (self.error + step * (2 * self.error + moved))

    def _scale(self, n_t: int) -> float:
        F = self.n_features
        return self.c * self.gamma1 * F / self.lam + self.c1 * math.sqrt(F * n_t)

    def _step(self, n_t: int) -> float:
        return 2 * self.gamma1 * self.n_features / (self.lam * n_t)


def published_data_dependent(
    residues: Sequence[np.ndarray], Z: np.ndarray, step: np.ndarray, *, c1: float, gamma2: float
) -> float:
    """Theorem 4.5, ``2 c1 ||1^T R|| + gamma2 ||Z|| ||p|| ||Z p||``, ``R = sum_t R^(t)``, Newton step p. **Not a bound.**

    Residues of opposite signs cancel in ``1^T R``: two nodes without edges, ``x = (0.4, -0.4)``, ``y = (1, -1)``,
    r_max = 0.5 and w = 0 make it zero where the gradient is off by 0.4. It also omits the change of ``l'`` with Z.

    Examples
    --------
    >>> import numpy as np
    >>> published_data_dependent([np.array([[0.4], [-0.4]])], np.zeros((2, 1)), np.zeros(1), c1=1.0, gamma2=0.1)
    0.0
    """
    canceled = float(np.linalg.norm(np.sum(residues, axis=0).sum(axis=0)))
    moved = spectral_norm_bound(Z) * float(np.linalg.norm(step)) * float(np.linalg.norm(Z @ step))
    return 2 * c1 * canceled + gamma2 * moved


def newton_residual(Z: np.ndarray, step: np.ndarray, *, gamma2: float) -> float:
    """Bound of the gradient that a Newton step p leaves: ``gamma2 / 2 ||Z|| ||(Z p)^2||``, the square entrywise (Taylor).

    For the logistic loss gamma2 is ``1 / (6 sqrt(3))``, not 1/4. Certificates are charged with the gradient itself, which costs
    no more than this does.
    """
    return 0.5 * gamma2 * spectral_norm_bound(Z) * float(np.linalg.norm((Z @ step) ** 2))
