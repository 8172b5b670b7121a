"""The node-adaptive denoiser's system ``K = I + diag(w) L diag(w)`` on tensors: its solve and its gradients."""

from __future__ import annotations

from typing import Any, Literal

import scipy.sparse as sp
import torch

from nareg._core.arrays import as_numpy, differentiated, outside_transforms
from nareg._solvers import cg
from nareg._solvers._torch._device import Linear
from nareg._solvers.passes import ProductPasses
from nareg.errors import InputError, SolverError
from nareg.gnn._autograd import Slope, Solve
from nareg.gnn._learned import LearnedAdjacency
from nareg.gnn._operators import TorchSparse
from nareg.gnn.adjacency import Adjacency, csr_tensor

Laplacian = Literal["augmented", "combinatorial"]
#: Places (2, E) and values (E,) of a matrix, where there is one.
Designed = tuple[torch.Tensor | None, torch.Tensor | None]


class NodeAdaptiveSystem:
    """A Laplacian as a CSR tensor with its diagonal (N, 1); ``values`` are its entries where they have a gradient."""

    def __init__(
        self,
        L: torch.Tensor,
        diagonal: torch.Tensor,
        learned: LearnedAdjacency | None = None,
        values: torch.Tensor | None = None,
    ) -> None:
        self._L, self._diagonal, self._learned, self._values = L, diagonal, learned, values

    def filter(self, x: torch.Tensor, w: torch.Tensor, tol: float) -> torch.Tensor:
        """``K^-1 x`` with gradients in x, in w, and in the values that have one."""
        column = w.to(x.dtype)[:, None]
        parameters: list[torch.Tensor] = [column]
        slopes: list[Slope] = [self._slope]
        learned = self._learned
        v = outside_transforms(torch.detach, column.detach())
        if learned is not None and self._values is not None:
            parameters.append(self._values)
            slopes.append(lambda Y, Z, values: learned.slope(v * Y, v * Z, values))

        def solve(B: torch.Tensor) -> torch.Tensor:
            return self.solve(B, v, tol)

        if not any(map(differentiated, parameters)):
            return Linear.apply(x, solve, solve)
        return Solve.apply(x, solve, solve, slopes, *parameters)

    def solve(self, B: torch.Tensor, v: torch.Tensor, tol: float) -> torch.Tensor:
        """``K^-1 B`` for weights (N, 1), by conjugate gradients with Jacobi preconditioning."""
        operator = TorchSparse(self._L, self._L)

        def product(P: torch.Tensor, out: torch.Tensor) -> torch.Tensor:
            scaled = P * v
            operator.multiply_add(scaled, scaled, 1.0, 0.0, out)
            return out.mul_(v).add_(P)

        scale = 1 / (1 + v**2 * self._diagonal)
        try:
            return cg.solve_exactly(ProductPasses(product, scale), B, tol=tol)[0]
        except SolverError:
            if bool(v.isfinite().all()):
                raise
            raise SolverError(
                "a learned node weight is not finite: the training that learns it has diverged; take a smaller learning rate."
            ) from None

    def gradients(self, Y: torch.Tensor, Z: torch.Tensor, v: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor | None]:
        """Gradients in the weights (N,) and in the Laplacian's entries, of a result Z and the solve Y of its gradient."""
        learned = self._learned
        of_values = None if learned is None else -learned.slope(v * Y, v * Z, Y)
        return -self._slope(Y, Z, v)[:, 0], of_values

    def _slope(self, Y: torch.Tensor, Z: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        """Gradient of ``<v Y, L (v Z)>`` in v."""
        return (Y * (self._L @ (v * Z)) + Z * (self._L @ (v * Y))).sum(1, keepdim=True)


def node_adaptive_system(
    adjacency: Adjacency, like: torch.Tensor, kind: Any, designed: Designed, derived: dict[Any, Any]
) -> NodeAdaptiveSystem:
    """The system of a graph for features like these, which ``derived`` remembers per dtype and device."""
    if designed[1] is not None and derived.get("designed") is not designed[1]:
        _check_design(adjacency.laplacian if kind == "combinatorial" else adjacency.augmented_laplacian, kind, designed)
        derived["designed"] = designed[1]
    dtype, device = torch.promote_types(like.dtype, torch.float32), like.device
    key = (kind, dtype, device)
    if isinstance(adjacency, LearnedAdjacency):
        values = adjacency.entries(kind, like.to(dtype))
        fixed = adjacency.values(kind).to(dtype=dtype, device=device)
        diagonal = adjacency.diagonal(fixed)[:, None]
        return NodeAdaptiveSystem(adjacency.csr_of(fixed, dtype, device), diagonal, adjacency, values)
    if key not in derived:
        L = adjacency.laplacian if kind == "combinatorial" else adjacency.augmented_laplacian
        diagonal = torch.as_tensor(L.diagonal()[:, None], dtype=dtype, device=device)
        derived[key] = NodeAdaptiveSystem(csr_tensor(L, dtype, device), diagonal)
    return derived[key]


def _check_design(L: sp.csr_array, kind: Laplacian, designed: Designed) -> None:
    """Refuse a graph whose Laplacian is not the one that the weights were designed for."""
    places, values = (as_numpy(part) for part in designed)
    matches = places.shape[1] > 0 and places.max() < L.shape[0]
    if matches:
        wanted = sp.csr_array((values, tuple(places)), shape=L.shape)
        # weights of edges may have come as float32
        matches = abs(wanted - L).max() <= 1e-6 * abs(wanted).max()
    if not matches:
        raise InputError(
            f"weights were not designed for the {kind} Laplacian of the graph that the layer is given: "
            "design them for this one (nareg.gnn.Adjacency(graph).laplacian or .augmented_laplacian)."
        )
