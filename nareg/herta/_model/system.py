"""The system that an unfolded graph network solves, ``H = I + lam L``, with a count of its products.

    Z* = argmin_Z lam/2 tr(Z^T L Z) + 1/2 ||Z - f(X; W)||_F^2 = H^-1 f(X; W)                   (HERTA, 4.1 and 4.6)

L is ``I - D~^-1/2 (A + I) D~^-1/2`` ("augmented") or ``D - A`` ("combinatorial"), or that of a sparsified graph. Every
eigenvalue of H is at least one, so that a residual of ``tol ||b||`` means an error of at most ``tol ||b||``.

Solves are Chebyshev polynomials of a degree known in advance: one fused product per degree, no inner products, and a linear
map, as the theory of the outer iteration assumes. (Pubmed, 64 columns, one thread: 3 products and 13 ms to 1e-2 at lam = 1, 40
and 0.12 s to 1e-6 at lam = 20; conjugate gradients need 4 and 38 products but 0.1 and 0.7 s.) Conjugate gradients with a Jacobi
preconditioner take over where a wide spectrum makes the degree large.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import scipy.sparse as sp
import torch
from scipy.sparse.linalg import ArpackNoConvergence, eigsh

from nareg import _checks
from nareg._arrays import as_numpy
from nareg._linear import conjugate_gradients
from nareg._operator import penalty
from nareg.errors import InputError
from nareg.gnn import _recurrences, series
from nareg.gnn._operators import TorchSparse
from nareg.gnn.adjacency import Adjacency, GraphInput, as_adjacency, csr_tensor
from nareg.herta._model.types import Device

KINDS = ("augmented", "combinatorial")
#: A Laplacian, or a positive semidefinite matrix in its place.
OPERATORS = (*KINDS, "operator")
#: Chebyshev degree, and strength, above which conjugate gradients take over.
HIGHEST, STRONG = 150, 1e5
#: Best relative accuracy of solves, in multiples of eps times a bound of ``||H||``, and their loosest.
ROUNDING, LOOSE = 10, 0.1
#: Relative accuracy of the largest eigenvalue, and the margin on it, because Lanczos approaches from below.
ACCURACY, MARGIN = 1e-2, 1.02


def checked_kind(kind: str, kinds: tuple[str, ...] = KINDS) -> str:
    """One of the kinds of L; "normalized" is another Laplacian in nareg."""
    if kind == "normalized":
        raise InputError('kind is "normalized", which names the Laplacian without self-loops: pass "augmented".')
    return _checks.choice("kind", kind, kinds)


def laplacian_of(graph: GraphInput, kind: str, n_nodes: int | None = None) -> sp.csr_array:
    """L of a graph in any form that :class:`~nareg.gnn.Adjacency` takes; for "operator" the matrix itself, checked."""
    if kind == "operator":
        L = penalty(as_numpy(graph)).L
        if n_nodes is not None and L.shape[0] != n_nodes:
            raise InputError(f"graph has shape {L.shape} but there are {n_nodes} rows of features: pass one row per node.")
        return L
    adjacency = adjacency_of(graph, n_nodes)
    return adjacency.augmented_laplacian if kind == "augmented" else adjacency.laplacian


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
    start = np.random.default_rng(0).standard_normal(L.shape[0])
    try:
        result = float(eigsh(L, k=1, which="LA", v0=start, tol=ACCURACY, return_eigenvectors=False)[0])
    except ArpackNoConvergence:
        return gershgorin
    return min(gershgorin, MARGIN * result)


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
        If lam is so large that rounding destroys every digit of a solution.
    """

    def __init__(
        self,
        laplacian: sp.csr_array,
        lam: float,
        *,
        dtype: torch.dtype = torch.float64,
        device: Device = "cpu",
        largest: float | None = None,
    ) -> None:
        self.laplacian, self.lam, self.products = laplacian, lam, 0
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

    @property
    def n_nodes(self) -> int:
        """Number of nodes N."""
        return int(self.laplacian.shape[0])

    def in_double(self) -> System:
        """The same in double precision."""
        return self if self.dtype == torch.float64 else self.to(torch.float64, self.device)

    def to(self, dtype: torch.dtype, device: Device) -> System:
        """The same for right-hand sides of another dtype and device."""
        return System(self.laplacian, self.lam, dtype=dtype, device=device, largest=self._largest)

    def __deepcopy__(self, memo: dict[int, Any]) -> System:
        """Itself: modules that hold it share it when they are copied."""
        return self

    def degree(self, tol: float) -> int:
        """Products per column of a solve; for conjugate gradients about the most."""
        if self._strength > STRONG:
            return math.ceil(math.sqrt(self._strength / 2) * math.log(2 / tol))
        return int(series.chebyshev_coefficients(self._strength, tol).size) - 1 if self._strength else 0

    def product(self, P: torch.Tensor, out: torch.Tensor) -> torch.Tensor:
        """``H P``, written to ``out``."""
        self.products += P.shape[1]
        result: torch.Tensor = self._M.multiply_add(P, P, -self._strength, 1 + self._strength, out)
        return result

    def solve(self, B: torch.Tensor, *, tol: float, start: torch.Tensor | None = None) -> torch.Tensor:
        """``H^-1 B`` to an error of ``tol`` times the length of B, per column; ``start`` is a first guess."""
        if self._strength == 0 or B.shape[1] == 0:
            return B.clone()
        if start is None:
            return self._solve_from_zero(B.contiguous(), tol)
        R = B - self.product(start, torch.empty_like(start))
        lengths, left = B.norm(dim=0), R.norm(dim=0)
        ratios = torch.where(left > 0, tol * lengths / left, torch.ones_like(left))
        tightest = float(ratios.min())
        if tightest >= 1:
            return start.clone()
        if not math.isfinite(tightest):  # a diverged outer iteration sees it by this
            return torch.full_like(B, math.nan)
        if tightest <= tol:  # a guess worse than zero
            return self._solve_from_zero(B.contiguous(), tol)
        return start + self._solve_from_zero(R, tightest)

    def _solve_from_zero(self, B: torch.Tensor, tol: float) -> torch.Tensor:
        tol = max(tol, self.floor)
        if self.degree(tol) < HIGHEST:
            coefficients = series.chebyshev_coefficients(self._strength, tol)
            self.products += (coefficients.size - 1) * B.shape[1]
            result: torch.Tensor = _recurrences.clenshaw(self._M, B, coefficients.tolist())
            return result
        if not bool(B.isfinite().all()):  # as Chebyshev's products do
            return torch.full_like(B, math.nan)
        max_products = 1000 + 2 * self.degree(tol)
        return conjugate_gradients.solve(self.product, B, tol=tol, inverse_diagonal=self._jacobi, max_products=max_products)[0]


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
