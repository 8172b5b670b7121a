"""The space-time system of a large network on a device: conjugate gradients with cosines in time.

``T_rho (x) K + diag(C)`` with a tridiagonal T_rho and a sparse K. Each frequency in time has a diagonal in space as its
preconditioner: it takes more steps than the sparse factors of the CPU, and none of them is sequential.
"""

from __future__ import annotations

import numpy as np
import scipy.fft
import scipy.sparse as sp
import torch

from nareg._solvers import cg
from nareg._solvers._torch._device import as_dtype, csr, enough_memory, floating, on_device, resolve
from nareg._solvers.backends import Torch
from nareg._solvers.iterate import Monitor
from nareg._solvers.passes import ProductPasses
from nareg.errors import SolverError

#: Steps of conjugate gradients in all, and the residual after which iterations in float32 are corrected in float64.
LONGEST, SINGLE = 5000, 1e-4
#: Arrays of the unknowns' size that a solve allocates.
ARRAYS = 9


class TimeSystem:
    """``T (x) K + diag(C)`` for K (N, N), C (N, T), and T with ``ends`` on the corners, ``middle`` and ``beside``."""

    def __init__(
        self, K: sp.csr_array, C: np.ndarray, ends: float, middle: float, beside: float, eigenvalues: np.ndarray, options: Torch
    ):
        """``eigenvalues`` (T,) are those of T's cosine transform, as the preconditioner has it."""
        self.device = resolve(options.device)
        self.inner = floating(options.dtype) or torch.float64
        n, times = C.shape
        with enough_memory(self.device, 8 * ARRAYS * n * times + 8 * times**2):
            self.diagonal = torch.full((times,), middle, dtype=torch.float64, device=self.device)
            self.diagonal[0] = self.diagonal[-1] = ends
            self.beside = beside
            self.K = csr(K, self.device)
            self.C = on_device(C, self.device)
            self.waves = on_device(scipy.fft.dct(np.eye(times), axis=0, norm="ortho"), self.device)
            spread = on_device(K.diagonal(), self.device)[:, None] * on_device(eigenvalues, self.device)
            self.inverse = 1 / (spread + self.C.mean(dim=1, keepdim=True))
        parts = (self.C, self.diagonal, self.waves, self.inverse)
        self.parts = {
            dtype: (as_dtype(self.K, dtype), *(part.to(dtype) for part in parts)) for dtype in {torch.float64, self.inner}
        }

    def solve(self, B: np.ndarray, tol: float) -> np.ndarray:
        """Solution for B (N, T), to a residual of ``tol`` in the norm of the preconditioner."""
        right = on_device(B, self.device)
        X = torch.zeros_like(right)
        R, steps = right.clone(), 0
        size = self._size(R)
        while True:
            left = self._size(R)
            if not left > tol * size:
                return X.cpu().numpy()
            # what single precision cannot hold is corrected in double
            goal = max(tol * size / left, SINGLE if self.inner != torch.float64 else 0.0)
            step, taken = self._descend(R.to(self.inner), goal)
            steps += taken
            X += step.to(torch.float64)
            R = right - self._product(X)
            if steps >= LONGEST or not self._size(R) < 0.5 * left:
                reached = self._size(R) / size
                raise SolverError(
                    f"conjugate gradients on {self.device} reached a residual of {reached:.1e} instead of {tol:g}: use "
                    "backend='scipy', or float64."
                )

    def _descend(self, R: torch.Tensor, goal: float) -> tuple[torch.Tensor, int]:
        """Solution of ``A X = R`` to a relative residual, and the steps taken."""

        def product(P: torch.Tensor, out: torch.Tensor) -> torch.Tensor:
            return out.copy_(self._product(P.view_as(R)).reshape(-1, 1))

        def precondition(V: torch.Tensor) -> torch.Tensor:
            return self._precondition(V.view_as(R)).reshape(-1, 1)

        # all numbers are one column
        R = R.clone(memory_format=torch.contiguous_format)
        column = R.view(-1, 1)
        X, P, Q = (torch.zeros_like(column) for _ in range(3))
        monitor = Monitor(column.new_full((1, 1), self._size(R)), goal)
        cg.descend(
            ProductPasses(product), X, column, P, Q, monitor, max_iterations=LONGEST, precondition=precondition, natural=True
        )
        return X.view_as(R), monitor.iterations

    def _product(self, X: torch.Tensor) -> torch.Tensor:
        K, C, diagonal, _, _ = self.parts[X.dtype]
        spatial = K @ X
        out = spatial * diagonal
        out[:, 1:] += self.beside * spatial[:, :-1]
        out[:, :-1] += self.beside * spatial[:, 1:]
        return out.addcmul_(C, X)

    def _precondition(self, R: torch.Tensor) -> torch.Tensor:
        _, _, _, waves, inverse = self.parts[R.dtype]
        return (inverse * (R @ waves.T)) @ waves

    def _size(self, R: torch.Tensor) -> float:
        return float((R * self._precondition(R)).sum()) ** 0.5
