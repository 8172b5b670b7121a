"""``K(u) = C + S(u)`` for one set of edge weights after another on a device: the systems of a descent over edges.

The unknowns u are row sums of S and edge weights ``-S_ij``. Values of K, solutions and the products that make the gradient
are computed on the device: u goes in, and a number per column, node and edge comes out.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import scipy.sparse as sp
import torch

from nareg._solvers._torch._device import csr, on_device
from nareg._solvers._torch._matrix import ChangingMatrix, dots
from nareg._solvers.backends import Torch
from nareg.results import Status, symmetric_from_entries

#: Iterations of one solve; a K that needs more is left as one that is not positive definite.
MAX_ITERATIONS = 2000


class TorchEdges:
    """The systems of edges (i, j) of a graph; nodes lie on the device in ``order``, if one is given."""

    factorizes = False

    def __init__(
        self, c: np.ndarray, i: np.ndarray, j: np.ndarray, order: np.ndarray | None, options: Torch, *, tol: float
    ) -> None:
        n, self._tol = c.size, tol
        self._order = np.arange(n) if order is None else order
        place = np.empty(n, dtype=np.int64)
        place[self._order] = np.arange(n)
        i, j = place[i], place[j]
        # which number each stored entry of K shows
        shown = symmetric_from_entries(np.concatenate([self._order, n + np.arange(i.size)]).astype(float), i, j)
        self._K = ChangingMatrix(shown, options)
        self.label = self._K.label
        self._shown = self._put(shown.data.astype(np.int64))
        self._i, self._j = self._put(i), self._put(j)
        self._back, self._c = self._put(place), self._put(c)
        at = np.tile(np.arange(i.size), 2)
        ends = np.concatenate([self._order[i], self._order[j]])
        self._ends = csr(sp.csr_array((np.ones(at.size), (ends, at)), shape=(n, i.size)), self._K.device)

    def keep(self, columns: np.ndarray) -> torch.Tensor:
        """(N, T) columns on the device."""
        return self._put(columns[self._order])

    def given_back(self, columns: torch.Tensor) -> np.ndarray:
        """The same in main memory, nodes in the order of the graph."""
        array: np.ndarray = columns[self._back].cpu().numpy()
        return array

    def scaled(self, y: torch.Tensor) -> torch.Tensor:
        """``C y``."""
        return self._c[self._put(self._order), None] * y

    def inverse(self, u: np.ndarray) -> Callable[..., torch.Tensor | None] | None:
        """Solver with ``K(u)``, which returns None where CG meets negative curvature; None where it is seen before.

        A right-hand side of probes has a part in every direction, so that CG cannot converge past a negative one.
        """
        if not np.isfinite(u).all():
            return None
        numbers, n = self._put(u), self._c.numel()
        own = numbers[:n] + torch.mv(self._ends, numbers[n:]) + self._c
        self._K.set_values(torch.cat([own, -numbers[n:]])[self._shown])
        if not self._K.positive:
            return None

        def solve(rhs: torch.Tensor, x0: torch.Tensor | None = None) -> torch.Tensor | None:
            statuses = []

            def one(B: torch.Tensor, start: torch.Tensor | None) -> torch.Tensor:
                reached = self._K.run(B, start, tol=self._tol, limit=MAX_ITERATIONS, precondition=lambda _: None)
                statuses.append(reached.status)
                return reached.x

            x = self._K.solve(rhs, x0, one)
            return x if all(status is Status.CONVERGED for status in statuses) else None

        return solve

    def residual(self, rhs: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
        """``rhs - K x`` for the last u."""
        return torch.addmm(rhs, self._K.matrix, x, alpha=-1)

    def dots(self, A: torch.Tensor, B: torch.Tensor) -> np.ndarray:
        """The inner product of every pair of columns, (T,)."""
        return dots(A, B)

    def products(self, A: torch.Tensor, U: torch.Tensor) -> np.ndarray:
        """``sum over columns (v^T a)(v^T u)`` for every node, v its unit vector, and edge, v the difference of two."""
        edge = torch.zeros(self._i.numel(), dtype=A.dtype, device=A.device)
        for block in self._K.blocks(A.shape[1]):
            a, u = A[:, block], U[:, block]
            edge += ((a[self._i] - a[self._j]) * (u[self._i] - u[self._j])).sum(1)
        out: np.ndarray = torch.cat([(A * U).sum(1)[self._back], edge]).cpu().numpy()
        return out

    def _put(self, array: np.ndarray) -> torch.Tensor:
        return on_device(array, self._K.device)
