"""Systems that change from step to step on a device: of node weights, of edge weights, and of space and time.

Patterns stay on the device and values are computed there, as are right-hand sides, solutions, inner products and derivatives:
weights go in, and one number per column, node and edge comes out.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import scipy.fft
import scipy.sparse as sp
import torch

from nareg._solvers import cg, multigrid
from nareg._solvers._torch._device import as_dtype, csr, enough_memory, floating, on_device, resolve
from nareg._solvers._torch._matrix import ChangingMatrix, dots
from nareg._solvers._torch._multigrid import Cycle
from nareg._solvers.backends import Torch
from nareg._solvers.iterate import Iterates, Monitor
from nareg._solvers.passes import ProductPasses
from nareg._solvers.sequence import LevelSequence
from nareg._solvers.system import FilterSystem, Penalty, scale_symmetric
from nareg.errors import SolverError
from nareg.results import Status, symmetric_from_entries


class TorchSystems(LevelSequence):
    """The systems of an operator with a stored diagonal, whose nodes are in an order that suits memory.

    Columns are float64 tensors on the device.
    """

    def __init__(self, base: Penalty, c: np.ndarray, options: Torch, *, mesh_like: bool, tol: float) -> None:
        super().__init__(may_cycle=base.is_laplacian and mesh_like, tol=tol)
        self._base, self._host_c = base, c
        self._K = ChangingMatrix(base.L, options)
        self.label = self._K.label
        self._c = self.keep(c)
        self._cycles: dict[torch.dtype, Cycle] = {}
        self._host_w = np.ones_like(c)
        self.update(self._host_w)

    def keep(self, columns: np.ndarray) -> torch.Tensor:
        """Columns on the device; on the CPU they share their memory."""
        return on_device(columns, self._K.device)

    def update(self, w: np.ndarray) -> None:
        """Set the weights."""
        if not np.array_equal(w != 0, self._host_w != 0):
            self.forget()  # levels leave out nodes without a weight
        K, self._host_w, self._w = self._K, w, self.keep(w)
        values = K.pattern.values() * self._w[K.row] * self._w[K.column]
        values[K.diagonal] += self._c
        K.set_values(values)
        self._fresh = False
        for cycle in self._cycles.values() if self._levels else ():
            cycle.reweigh(self._w, K.inverse_diagonal)

    def solve(self, rhs: torch.Tensor, x0: torch.Tensor | None = None) -> torch.Tensor:
        """``K^-1 rhs``, from ``x0`` if given; SolverError where the residual stays above the tolerance."""
        self.columns += rhs.shape[1]
        return self._K.solve(rhs, x0, self._solve)

    def filtered(self, y: torch.Tensor, x0: torch.Tensor | None = None) -> torch.Tensor:
        """``K^-1 C y``."""
        return self.solve(self._c[:, None] * y, x0)

    def dots(self, A: torch.Tensor, B: torch.Tensor) -> np.ndarray:
        """The inner product of every pair of columns, (T,)."""
        return dots(A, B)

    def derivative(self, A: torch.Tensor, B: torch.Tensor) -> np.ndarray:
        """``sum over columns d (a^T K(w) b) / dw``, which is ``a * (L W b) + b * (L W a)``."""
        L, W, total = self._K.pattern, self._w[:, None], torch.zeros_like(self._w)
        for block in self._K.blocks(A.shape[1]):
            a, b = A[:, block], B[:, block]
            total += (a * torch.mm(L, W * b) + b * torch.mm(L, W * a)).sum(1)
        return total.cpu().numpy()

    def _run(self, rhs: torch.Tensor, x0: torch.Tensor | None, limit: int) -> Iterates:
        reached = self._K.run(rhs, x0, tol=self.tol, limit=limit, precondition=self._cycle)
        self.iterations += reached.iterations * rhs.shape[1]
        return reached

    def _make_levels(self) -> None:
        """Levels of the present w, by pyamg on the host."""
        w, L = self._host_w, self._base.L
        self._hierarchy = multigrid.Hierarchy(FilterSystem(S=scale_symmetric(L, w), c=self._host_c, w=w, penalty=self._base))
        self._cycles = {}

    def _cycle(self, dtype: torch.dtype) -> Cycle | None:
        """The V-cycle, scaled to the present w; None before there are levels."""
        if not self._levels:
            return None
        if dtype not in self._cycles:
            self._cycles[dtype] = Cycle(self._hierarchy, self._K.device, dtype)
            self._cycles[dtype].reweigh(self._w, self._K.inverse_diagonal)
        return self._cycles[dtype]


#: Iterations of one solve; a K that needs more is left as one that is not positive definite.
MAX_ITERATIONS = 2000


class TorchEdges:
    """``K(u) = C + S(u)``: u are row sums of S and weights ``-S_ij`` of edges (i, j).

    Nodes lie on the device in ``order``, if one is given.
    """

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
        return columns[self._back].cpu().numpy()

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
        return torch.cat([(A * U).sum(1)[self._back], edge]).cpu().numpy()

    def _put(self, array: np.ndarray) -> torch.Tensor:
        return on_device(array, self._K.device)


#: Steps of conjugate gradients in all, and the residual after which iterations in float32 are corrected in float64.
LONGEST, SINGLE = 5000, 1e-4
#: Arrays of the unknowns' size that a solve allocates.
ARRAYS = 9


class TimeSystem:
    """``T (x) K + diag(C)`` for K (N, N), C (N, T), and T with ``ends`` on the corners, ``middle`` and ``beside``.

    Each frequency in time has a diagonal in space as its preconditioner: it takes more steps than the sparse factors of the
    CPU, and none of them is sequential.
    """

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
