"""The system that an unfolded graph network solves, ``H = I + lam L``, with a count of its products.

    Z* = argmin_Z lam/2 tr(Z^T L Z) + 1/2 ||Z - f(X; W)||_F^2 = H^-1 f(X; W)                   (HERTA, 4.1 and 4.6)

L is ``I - D~^-1/2 (A + I) D~^-1/2`` ("augmented") or ``D - A`` ("combinatorial"), or that of a sparsified graph. Every
eigenvalue of H is at least one, so that a residual of ``tol ||b||`` means an error of at most ``tol ||b||``.

Solves are Chebyshev polynomials of a degree known in advance: one fused product per degree, no inner products, and a linear
map, as the theory of the outer iteration assumes. The degree grows with sqrt(lam). Where it is large, an approximate Cholesky
factor takes over (:mod:`._iterative`), with which the number of steps hardly grows. Without one, conjugate gradients do.
"""

from __future__ import annotations

import math
from functools import cached_property
from typing import Any

import numpy as np
import scipy.sparse as sp
import torch

from nareg._core import checks
from nareg._core.arrays import as_numpy
from nareg._solvers import cg, eigenvalues
from nareg._solvers.passes import ProductPasses
from nareg._solvers.system import penalty
from nareg.errors import InputError
from nareg.gnn import _operators, series
from nareg.gnn._operators import TorchSparse
from nareg.gnn.adjacency import Adjacency, GraphInput, as_adjacency, csr_tensor
from nareg.herta import _iterative as iterative
from nareg.herta._features import Device
from nareg.herta._iterative import DiagonalIteration, FactorIteration

KINDS = ("augmented", "combinatorial")
#: A Laplacian, or a positive semidefinite matrix in its place.
OPERATORS = (*KINDS, "operator")
#: Relative accuracy of the largest eigenvalue, and the margin on it, because Lanczos approaches from below.
ACCURACY, MARGIN = 1e-2, 1.02


def checked_kind(kind: str, kinds: tuple[str, ...] = KINDS) -> str:
    """One of the kinds of L; "normalized" is another Laplacian in nareg."""
    if kind == "normalized":
        raise InputError('kind is "normalized", which names the Laplacian without self-loops: pass "augmented".')
    return checks.choice("kind", kind, kinds)


def scaled_laplacian_of(graph: GraphInput, kind: str, n_nodes: int | None = None) -> tuple[sp.csr_array, np.ndarray | None]:
    """L of a graph in any form that :class:`~nareg.gnn.Adjacency` takes; for "operator" the matrix itself, checked.

    With it what the augmented one takes to zero, ``D~^1/2 1``. Others take ones to zero, or nothing is known of them.
    """
    if kind == "operator":
        L = penalty(as_numpy(graph)).L
        if n_nodes is not None and L.shape[0] != n_nodes:
            raise InputError(f"graph has shape {L.shape} but there are {n_nodes} rows of features: pass one row per node.")
        return L, None
    adjacency = adjacency_of(graph, n_nodes)
    return (adjacency.augmented_laplacian, np.sqrt(adjacency.degrees)) if kind == "augmented" else (adjacency.laplacian, None)


def adjacency_of(graph: GraphInput, n_nodes: int | None = None) -> Adjacency:
    """The adjacency of a graph; an :class:`~nareg.gnn.Adjacency` as it is."""
    if n_nodes is not None:
        return as_adjacency(graph, n_nodes)
    return graph if isinstance(graph, Adjacency) else Adjacency(graph)


def largest_eigenvalue(L: sp.csr_array) -> float:
    """An upper bound of the spectrum of a Laplacian: Gershgorin's, or Lanczos' with a margin where that is lower."""
    gershgorin = float(np.asarray(abs(L).sum(axis=1)).max(initial=0.0))
    if L.shape[0] < 20 or gershgorin == 0:
        return gershgorin
    ends = eigenvalues.extreme_eigenvectors(L, 1, tol=ACCURACY)
    return gershgorin if ends is None else min(gershgorin, MARGIN * float(ends[0][0]))


#: How solves with H are done: by a Chebyshev polynomial, conjugate gradients, or with an approximate Cholesky factor.
SOLVERS = ("auto", "chebyshev", "cg", "cholesky")
#: Chebyshev degree above which the others take over, and the strength above which there is no polynomial.
HIGHEST, STRONG = 150, 1e6
#: Best relative accuracy of solves, in multiples of eps times a bound of ``||H||``, and their loosest.
ROUNDING, LOOSE = 10, 0.1


class System:
    """``H = I + lam L`` as a torch operator, its solves, and a count of its products.

    Parameters
    ----------
    laplacian : (N, N) CSR array
    lam : float
    dtype, device
        Of the right-hand sides.
    largest : float, optional
        A bound of the spectrum of L; default: computed.
    scale : (N,) array, optional
        ``v > 0`` with ``L v >= 0``, for which ``diag(v) H diag(v)`` is diagonally dominant; default ones.
    solver : {"auto", "chebyshev", "cg", "cholesky"}

    Attributes
    ----------
    products : int
        Products of H with one column so far.
    condition_bound : float
        Bound of the condition number of H.
    floor : float
        Smallest tolerance of a solve; rounding allows no smaller.

    Raises
    ------
    InputError
        If lam is so large that rounding destroys every digit of a solution, or the solver cannot solve this system.
    """

    def __init__(
        self,
        laplacian: sp.csr_array,
        lam: float,
        *,
        dtype: torch.dtype = torch.float64,
        device: Device = "cpu",
        largest: float | None = None,
        scale: np.ndarray | None = None,
        solver: str = "auto",
    ) -> None:
        self.laplacian, self.lam, self.products = laplacian, lam, 0
        self.scale = np.ones(laplacian.shape[0]) if scale is None else scale
        self.solver = solver
        self.dtype, self.device = dtype, torch.device(device)
        if largest is None:
            largest = largest_eigenvalue(laplacian) if lam else 0.0
        self._largest = largest
        self.condition_bound = 1 + lam * largest
        self.floor = ROUNDING * float(torch.finfo(dtype).eps) * max(5.0, self.condition_bound)
        if not self.floor < LOOSE:
            raise InputError(
                f"lam is {lam:g} and the largest eigenvalue of L up to {largest:.3g}: rounding in {dtype} destroys the "
                "solution; take a smaller lam, smaller edge weights, or dtype float64."
            )
        #: H = I + strength (I - M), M with its spectrum in [-1, 1]
        self._strength = lam * largest / 2
        eye = sp.eye_array(laplacian.shape[0])
        M = sp.csr_array(eye - (2 / largest) * laplacian) if self._strength else sp.csr_array(eye)
        self._M = TorchSparse(csr_tensor(M, dtype, self.device), None)
        self._jacobi = torch.as_tensor(1 / (1 + lam * laplacian.diagonal()), dtype=dtype, device=self.device)[:, None]
        self._check_solver()

    def _check_solver(self) -> None:
        """Refuse a solver that cannot solve this system."""
        if self.solver == "cholesky" and self.device.type != "cpu":
            raise InputError(f"solver is 'cholesky', which runs on the CPU, but device is {self.device}: take 'auto' or 'cg'.")
        if self.solver == "cholesky" and self._excess is None:
            raise InputError(
                "solver is 'cholesky', but L has positive entries beside its diagonal, or rows whose sums are below zero: take "
                "'auto' or 'cg'."
            )
        if self.solver == "chebyshev" and self._strength > STRONG:
            raise InputError(
                f"solver is 'chebyshev', but lam is {self.lam:g} and the largest eigenvalue of L up to {self._largest:.3g}: "
                "the polynomial's degree is too high; take 'auto'."
            )

    @cached_property
    def _excess(self) -> np.ndarray | None:
        """Row sums of ``diag(v) H diag(v)``; None where that is no diagonally dominant M-matrix."""
        L, v = self.laplacian, self.scale
        beside = sp.csr_array(L - sp.diags_array(L.diagonal()))
        excess: np.ndarray = v * (v + self.lam * (L @ v))
        return None if beside.data.max(initial=0.0) > 0 or not (excess > 0).all() else excess

    @cached_property
    def _iteration(self) -> FactorIteration | DiagonalIteration:
        """With the factor or conjugate gradients, on the CPU; made at the first solve."""
        H = sp.csr_array(sp.eye_array(self.n_nodes) + self.lam * self.laplacian)
        if self.solver == "cg" or self._excess is None:
            return DiagonalIteration(H)
        return FactorIteration(H, scale=self.scale, excess=self._excess)

    @property
    def n_nodes(self) -> int:
        """Number of nodes N."""
        return int(self.laplacian.shape[0])

    def in_double(self) -> System:
        """The same in double precision."""
        return self if self.dtype == torch.float64 else self.to(torch.float64, self.device)

    def to(self, dtype: torch.dtype, device: Device) -> System:
        """The same for right-hand sides of another dtype and device."""
        options: dict[str, Any] = {"largest": self._largest, "scale": self.scale, "solver": self.solver}
        return System(self.laplacian, self.lam, dtype=dtype, device=device, **options)

    def __deepcopy__(self, memo: dict[int, Any]) -> System:
        """Itself: modules that hold it share it when they are copied."""
        return self

    def degree(self, tol: float) -> int:
        """Products per column of a solve, or what takes as long; for conjugate gradients about the most."""
        if self._strength == 0:
            return 0
        if self._by_polynomial(tol):
            return self._chebyshev_degree(tol)
        if self.device.type == "cpu" and self.solver != "cg" and self._excess is not None:
            return math.ceil(iterative.WORTH * iterative.steps(iterative.TYPICAL, tol))
        return math.ceil(math.sqrt(self._strength / 2) * math.log(2 / tol))

    def _chebyshev_degree(self, tol: float) -> int:
        return int(series.chebyshev_coefficients(self._strength, tol).size) - 1

    def _by_polynomial(self, tol: float) -> bool:
        """Whether a solve is a Chebyshev polynomial."""
        if self.solver == "auto":
            return self._strength <= STRONG and self._chebyshev_degree(tol) < HIGHEST
        return self.solver == "chebyshev"

    def product(self, P: torch.Tensor, out: torch.Tensor) -> torch.Tensor:
        """``H P``, written to ``out``."""
        self.products += P.shape[1]
        return self._M.multiply_add(P, P, -self._strength, 1 + self._strength, out)

    def solve(self, B: torch.Tensor, *, tol: float, start: torch.Tensor | None = None) -> torch.Tensor:
        """``H^-1 B`` to an error of ``tol`` times the length of B, per column; ``start`` is a first guess."""
        if self._strength == 0 or B.shape[1] == 0:
            return B.clone()
        if start is None:
            return self._solve_from_zero(B.contiguous(), tol)
        R = B - self.product(start, torch.empty_like(start))
        lengths, left = B.norm(dim=0), R.norm(dim=0)
        ratios = torch.where(left == 0, torch.ones_like(left), tol * lengths / left)  # what overflowed gives NaN
        tightest = float(ratios.min())
        if tightest >= 1:
            return start.clone()
        if not tightest > tol:  # a guess worse than zero, or one that overflowed, as a line search's first trial may
            return self._solve_from_zero(B.contiguous(), tol)
        return start + self._solve_from_zero(R, tightest)

    def _solve_from_zero(self, B: torch.Tensor, tol: float) -> torch.Tensor:
        tol = max(tol, self.floor)
        if self._by_polynomial(tol):
            coefficients = series.chebyshev_coefficients(self._strength, tol)
            self.products += (coefficients.size - 1) * B.shape[1]
            return _operators.clenshaw(self._M, B, coefficients.tolist())
        if not bool(B.isfinite().all()):  # as Chebyshev's products do
            return torch.full_like(B, math.nan)
        if self.device.type == "cpu":
            columns = B.detach().numpy().astype(np.float64, copy=False)
            peak = abs(columns).max(axis=0, initial=0.0)
            peak[peak == 0] = 1.0  # squares of very small or large columns would leave float64
            X, products = self._iteration.solve(columns / peak, tol)
            self.products += products
            return torch.as_tensor(X * peak, dtype=self.dtype)
        max_products = 1000 + 2 * self.degree(tol)
        return cg.solve_exactly(ProductPasses(self.product, self._jacobi), B, tol=tol, max_products=max_products)[0]


class Unrolled(System):
    """Gradient steps on the inner problem from ``Z = f`` instead of its solution, as in TWIRLS.

    ``Z <- Z - (H Z - f) / (1 + lam largest/2)`` with ``largest`` a bound of the spectrum of L. For the augmented Laplacian and
    a bound of 2 this is ``Z <- (lam A~ Z + f) / (1 + lam)`` (HERTA 4.5 lacks the lam before its A^). It is a fixed polynomial
    in H, and so its own transpose.
    """

    def __init__(self, laplacian: sp.csr_array, lam: float, steps: int, **options: Any) -> None:
        super().__init__(laplacian, lam, **options)
        self.steps = steps

    def to(self, dtype: torch.dtype, device: Device) -> Unrolled:
        """The same for right-hand sides of another dtype and device."""
        return Unrolled(self.laplacian, self.lam, self.steps, dtype=dtype, device=device, largest=self._largest)

    def degree(self, tol: float) -> int:
        """Products per column, whatever the accuracy."""
        return self.steps

    def solve(self, B: torch.Tensor, *, tol: float, start: torch.Tensor | None = None) -> torch.Tensor:
        """The steps from B; tolerance and guess do not matter."""
        Z, spare, B = B.clone(), torch.empty_like(B), B.contiguous()
        share = self._strength / (1 + self._strength)
        for _ in range(self.steps):
            self._M.multiply_add(Z, B, share, 1 - share, spare)
            Z, spare = spare, Z
        self.products += self.steps * B.shape[1]
        return Z
