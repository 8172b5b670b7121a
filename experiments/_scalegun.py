"""ScaleGUN as published: residues up to r_max, a Newton step a request, its own account of the budget; CGU and CEU beside it.

Not nareg's: its bound does not hold (see :mod:`experiments._scalegun_bounds`), so its certificates are claims. Steps are
those of the dense inverse, computed by conjugate gradients to ``TOL``. Two slips of the print are put right: the second
term of line 7 is a gradient, and line 9 takes the present w. A node's residues are pushed together,
the published program's column by column.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from experiments._unlearning_peers import Stepping
from nareg.errors import CertificateError
from nareg.unlearning import CertifiedGPR, head
from nareg.unlearning.data import Data
from nareg.unlearning.objective import ClassifierObjective

#: Constants of Assumption 4.1 for the logistic loss, as published (1 / (6 sqrt 3) would do for gamma2).
C1, GAMMA2 = 1.0, 0.25
#: Of a Newton step, as a share of its right side; of a training, as a share of the gradient at zero.
TOL, TRAINED = 1e-8, 1e-8
#: Rounds of the power iteration for ``||Z||``, which Algorithm 1 takes for the norm: at first, and from the vector before.
ROUNDS, MORE = 20, 3


class ScaleGUN(Stepping):
    """Algorithm 1 with logistic loss, classes against the rest.

    What a request claims is summed over the C classes and compared with C budgets: ``spent`` of its certificate is the sum over
    C, ``residual`` the accumulated term of Theorem 4.5 and ``approximation`` ``2 c1 ||1^T R||``.
    """

    _accumulated = 0.0
    #: Where the power iteration for ``||Z||`` is.
    _leading: np.ndarray | None = None

    def _adjusted(self, data: Data) -> head.Head:
        """Lines 7 to 15; a CertificateError where the account is overdrawn, on which the model is trained anew."""
        objective, W = self._objective(data, self._head.B), self._head.W
        assert self._before is not None
        delta = self._before.evaluate(W).gradient - objective.evaluate(W).gradient
        curved = self._curved(objective)
        step = curved.solve(curved.evaluate(W).curvature, delta, TOL * float(np.linalg.norm(delta)))
        Z = objective.s[:, None] * objective.S
        moved = np.linalg.norm(step, axis=0) @ np.linalg.norm(Z @ step, axis=0)
        accumulated = self._accumulated + GAMMA2 * self._norm(Z) * float(moved) / data.columns
        claimed = head.Head(W + step, self._head.B, accumulated, self._waiting(data))
        if claimed.spent > self.budget:
            raise CertificateError(f"{claimed.spent:.3g} of {self.budget:.3g} are claimed.")
        self._accumulated = accumulated
        return claimed

    def _curved(self, after: ClassifierObjective) -> ClassifierObjective:
        """The problem whose Hessian the step has."""
        return after

    def _retrained(self, data: Data) -> head.Head:
        """Lines 2 and 11: to the optimum, whatever ``2 c1 ||1^T R||`` then is (line 10 is not repeated)."""
        self._accumulated = 0.0
        B = self._rng.normal(0.0, self.alpha, (data.n_features, data.columns))
        return self._trained(data, B)

    def _trained(self, data: Data, B: np.ndarray) -> head.Head:
        objective, start = self._objective(data, B), np.zeros_like(B)
        W = objective.minimize(start, TRAINED * objective.evaluate(start).residual).W
        return head.Head(W, B, 0.0, self._waiting(data))

    def _norm(self, Z: np.ndarray) -> float:
        """``||Z||_2`` by power iteration: at most the norm, where an account would need at least it."""
        anew = self._leading is None or self._leading.size != Z.shape[1]
        v: Any = np.random.default_rng(0).standard_normal(Z.shape[1]) if anew else self._leading
        rounds = ROUNDS if anew else MORE
        for _ in range(rounds):
            v = Z.T @ (Z @ (v / np.linalg.norm(v)))
        self._leading = v
        return float(np.sqrt(np.linalg.norm(v)))

    def _waiting(self, data: Data) -> float:
        """``2 c1 ||1^T R||``."""
        residues: Any = getattr(data.propagation, "residues", ())
        return 2 * C1 * float(np.linalg.norm(sum(r.sum(axis=0) for r in residues)))


class CGU(ScaleGUN):
    """Certified graph unlearning (Chien, Pan, Milenkovic 2022): the same step and account, after propagation of everything."""

    _fully = True


class CEU(CGU):
    """Certified edge unlearning (Wu et al. 2023): the Hessian of the data before (influence function)."""

    def _curved(self, after: ClassifierObjective) -> ClassifierObjective:
        assert self._before is not None
        return self._before


class Retrained(CGU):
    """Propagates everything and trains from nothing, without a noise term."""

    def _adjusted(self, data: Data) -> head.Head:
        return self._retrained(data)

    def _retrained(self, data: Data) -> head.Head:
        return self._trained(data, np.zeros((data.n_features, data.columns)))


def true_gradient(model: CertifiedGPR) -> float:
    """Frobenius norm of the perturbed loss's gradient on the exact embedding of what remains, all classes together."""
    data, propagation = model._data, model._data.propagation
    A, roots = data.graph.adjacency(), 1 / np.sqrt(data.graph.degrees)[:, None]
    power = propagation.features
    Z = propagation.weights[0] * power
    for weight in propagation.weights[1:]:
        scaled = roots * power
        power = roots * (A @ scaled + scaled)
        Z = Z + weight * power
    Z = Z[data.train]
    objective = ClassifierObjective(Z, np.ones(len(Z)), data.targets(), model.loss, model.lam, model._head.B)
    return objective.evaluate(model._head.W).residual
