"""Stations that are added to the dynamics or taken from them.

A new one is its kriging estimate from the others, plus a field of its own. With ``x_n = W x + u``, W from a
covariance and u independent of x with the same autoregression, the joint process is again of the model's form. One that
leaves is replaced by its expectation given the others: with scalar and diagonal dynamics, where no station acts on another,
that changes nothing for them.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from nareg.spacetime._dense.filter import Dynamics
from nareg.spacetime._dense.parametric import Parameters


@dataclass(frozen=True, eq=False)
class Extension:
    """How M new stations follow from N old ones."""

    W: np.ndarray  # (M, N)
    own: np.ndarray  # (M, M) covariance of u at one time
    a: np.ndarray  # (p,) autoregression of u
    gamma: np.ndarray  # (p, p) its autocovariances at variance one
    q: float  # its innovation variance at variance one

    @classmethod
    def of(cls, dynamics: Dynamics, parameters: Parameters, joint: np.ndarray) -> Extension:
        """From the covariance (N + M, N + M) of the field at the stations and at the new ones, at one time."""
        n = dynamics.n
        W = np.linalg.solve(joint[:n, :n], joint[:n, n:]).T
        own = joint[n:, n:] - W @ joint[:n, n:]
        # scalar dynamics were refined: u then follows these
        if all(A.ndim == 0 for A in dynamics.blocks):
            parameters = parameters.with_coefficients(np.array([float(A) for A in dynamics.blocks]))
        a, gamma, q = parameters.autoregression()
        return cls(W, 0.5 * (own + own.T), a, gamma, q)

    def covariance(self, P: np.ndarray) -> np.ndarray:
        """Covariance of a state (pN, pN) with the new stations in it, u being stationary."""
        n, p = self.W.shape[1], self.a.size
        blocks = [
            [_bordered(P[k * n : (k + 1) * n, m * n : (m + 1) * n], self.W, self.gamma[k, m] * self.own) for m in range(p)]
            for k in range(p)
        ]
        return np.block(blocks)

    def state(self, z: np.ndarray) -> np.ndarray:
        """Mean (pN, ...) of a state with the new stations in it."""
        n, p = self.W.shape[1], self.a.size
        return np.concatenate([np.concatenate([part, self.W @ part]) for part in z.reshape(p, n, *z.shape[1:])])

    def dynamics(self, old: Dynamics) -> Dynamics:
        """Dynamics with the new stations in them."""
        n, m = self.W.shape[1], self.W.shape[0]
        blocks = []
        for A, a in zip(old.blocks, self.a, strict=True):
            if A.ndim == 0:
                blocks.append(A)
                continue
            full = A if A.ndim == 2 else np.diag(A)
            blocks.append(np.block([[full, np.zeros((n, m))], [self.W @ full - a * self.W, a * np.eye(m)]]))
        return Dynamics(tuple(blocks), _bordered(old.Q, self.W, self.q * self.own), self.covariance(old.P0))


def restricted(old: Dynamics, stations: np.ndarray) -> Dynamics:
    """Dynamics of some of the stations, the others replaced by their regression on these in the first state's covariance."""
    n, p = old.n, old.order
    retained = np.concatenate([k * n + stations for k in range(p)])
    P0 = old.P0[np.ix_(retained, retained)]
    Q = old.Q[np.ix_(stations, stations)]
    if all(A.ndim < 2 for A in old.blocks):
        return Dynamics(tuple(A if A.ndim == 0 else A[stations] for A in old.blocks), Q, P0)
    gone = np.setdiff1d(np.arange(p * n), retained)
    A = old.matrix()[stations]
    G = np.linalg.solve(P0, old.P0[np.ix_(retained, gone)]).T
    left = old.P0[np.ix_(gone, gone)] - G @ old.P0[np.ix_(retained, gone)]
    whole = A[:, retained] + A[:, gone] @ G
    spread = A[:, gone] @ left @ A[:, gone].T
    m = stations.size
    return Dynamics(tuple(whole[:, k * m : (k + 1) * m] for k in range(p)), Q + 0.5 * (spread + spread.T), P0)


def _bordered(P: np.ndarray, W: np.ndarray, own: np.ndarray) -> np.ndarray:
    WP = W @ P
    return np.block([[P, P @ W.T], [WP, WP @ W.T + own]])
