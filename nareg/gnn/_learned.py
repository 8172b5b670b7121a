"""An adjacency whose edge weights are learned: A~ as a function of a tensor, with its gradient.

A gradient G in the entries of A~ lives on their pattern: ``c sum_k Y_k Z_{k-1}^T`` for a series, ``lam Y Z^T`` for a solve with
``Y = K^-T g``. :meth:`LearnedAdjacency.pull_back` takes it through the normalization to ``edge_weight``.
"""

from __future__ import annotations

from functools import cached_property
from typing import Any, Literal

import numpy as np
import scipy.sparse as sp
import torch
from torch.autograd.function import once_differentiable

from nareg._core.arrays import as_numpy
from nareg.errors import InputError
from nareg.gnn._reading import read
from nareg.gnn.adjacency import Adjacency, Normalization, csr_like, csr_tensor, directed
from nareg.gnn.robust import inner_products

#: Matrices on the pattern of A + I: A~ in either normalization, and two Laplacians.
Kind = Literal["sym", "rw", "combinatorial", "augmented"]


class EdgePlaces:
    """Where the listed edges, their mirror images and the self-loops stand in the pattern of A + I."""

    def __init__(self, edge_index: Any, n_nodes: int) -> None:
        if not isinstance(edge_index, torch.Tensor) or edge_index.layout != torch.strided:
            raise InputError("edge_weight goes with edge_index only: pass edge_index as a (2, E) tensor.")
        read(edge_index, None, n_nodes)  # refuses what is no edge_index
        i, j = as_numpy(edge_index).astype(np.int64)
        loops = np.arange(n_nodes)
        keys = np.unique(np.concatenate([i * n_nodes + j, j * n_nodes + i, loops * (n_nodes + 1)]))
        rows, columns = np.divmod(keys, n_nodes)
        self.n_nodes, self.n_edges = n_nodes, i.size
        self.indptr = np.searchsorted(rows, np.arange(n_nodes + 1))
        self.arrays = {
            "rows": rows,
            "columns": columns,
            "mirror": np.searchsorted(keys, columns * n_nodes + rows),
            "edges": np.searchsorted(keys, i * n_nodes + j),
            "loops": np.searchsorted(keys, loops * (n_nodes + 1)),
        }
        self._tensors: dict[tuple[str, torch.device], torch.Tensor] = {}
        self._patterns: dict[torch.device, torch.Tensor] = {}

    def on(self, name: str, device: torch.device) -> torch.Tensor:
        """An array of places as a tensor on a device."""
        key = (name, device)
        if key not in self._tensors:
            self._tensors[key] = torch.as_tensor(self.arrays[name], device=device)
        return self._tensors[key]

    def pattern(self, device: torch.device) -> torch.Tensor:
        """A CSR tensor with an entry in every place."""
        if device not in self._patterns:
            ones = self.matrix(torch.ones(self.arrays["rows"].size))
            self._patterns[device] = csr_tensor(ones, torch.float32, device)
        return self._patterns[device]

    def matrix(self, values: torch.Tensor) -> sp.csr_array:
        """These values in their places, without zeros."""
        n = self.n_nodes
        matrix = sp.csr_array((as_numpy(values).copy(), self.arrays["columns"], self.indptr), shape=(n, n))
        matrix.eliminate_zeros()
        return matrix


class LearnedAdjacency(Adjacency):
    """An adjacency for one pass, whose matrices are tensors with a gradient in ``edge_weight`` (see :meth:`entries`)."""

    def __init__(
        self, places: EdgePlaces, edge_weight: torch.Tensor, *, normalization: Normalization, symmetrize: bool
    ) -> None:
        self._at, self._weight, self.normalization = places, edge_weight, normalization
        self._formats: dict[Any, Any] = {}
        self._rows, self._columns, self._mirror, self._edges, self._loops = (
            places.on(name, edge_weight.device) for name in ("rows", "columns", "mirror", "edges", "loops")
        )
        listed = self._zeros(self._rows).index_copy(0, self._edges, self._checked_weight())
        mirrored = listed[self._mirror]
        larger = torch.maximum(listed, mirrored)
        if not symmetrize:
            gap = (listed - mirrored).abs() - 1e-6 * larger
            worst = int(gap.argmax())
            if gap[worst] > 0:
                raise directed(int(self._rows[worst]), int(self._columns[worst]))
        #: Entries of A, and the share of each that is its own weight's, the rest its mirror image's
        self._listed = larger if symmetrize else listed
        self._share = (1 + (listed - mirrored).sign()) / 2 if symmetrize else torch.ones_like(listed)
        loops = self._listed[self._loops]
        #: A + I, where nodes with a self-loop keep their own, and its row sums
        self._whole = self._listed.index_copy(0, self._loops, torch.where(loops > 0, loops, 1.0))
        self._degree = self._row_sums(self._whole)

    def _checked_weight(self) -> torch.Tensor:
        values = self._weight.detach()
        if values.device.type == "meta":
            raise InputError("edge_weight is a meta tensor, which holds no numbers: pass one on a device.")
        if values.shape != (self._at.n_edges,):
            raise InputError(
                f"edge_weight has shape {tuple(values.shape)} for {self._at.n_edges} edges: pass one weight per edge."
            )
        wrong = ~(values.isfinite() & (values >= 0))
        if wrong.any():
            k = int(wrong.nonzero()[0])
            raise InputError(f"edge_weight[{k}] is {float(values[k]):g}: weights must be finite and not negative.")
        return values.double()

    def _zeros(self, like: torch.Tensor) -> torch.Tensor:
        return torch.zeros(like.shape, dtype=torch.float64, device=like.device)

    def _row_sums(self, values: torch.Tensor) -> torch.Tensor:
        return self._zeros(self._loops).index_add(0, self._rows, values)

    def values(self, kind: Kind) -> torch.Tensor:
        """Entries of a matrix on the pattern of A + I, (nnz,) float64, without a gradient."""
        if kind == "rw":
            return self._whole / self._degree[self._rows]
        if kind == "combinatorial":
            loopless = self._listed.index_fill(0, self._loops, 0.0)
            return (-loopless).index_copy(0, self._loops, self._row_sums(loopless))
        half = self._degree.sqrt()
        symmetric = self._whole / (half[self._rows] * half[self._columns])
        if kind == "sym":
            return symmetric
        return (-symmetric).index_add(0, self._loops, torch.ones_like(half))

    def entries(self, kind: Kind, like: torch.Tensor) -> torch.Tensor:
        """The same in the dtype and on the device of features, with a gradient in ``edge_weight``."""
        return _Entries.apply(self._weight, self, kind, like.dtype, like.device)

    def pull_back(self, G: torch.Tensor, kind: Kind) -> torch.Tensor:
        """The gradient in ``edge_weight`` of one in the entries of a matrix.

        Weights of the two directions of an edge are one number: they get equal halves, and a step leaves them equal.
        """
        G = G.to(self._degree)
        if kind == "augmented":
            return self.pull_back(-G, "sym")
        if kind == "combinatorial":
            of_whole = (G[self._loops][self._rows] - G).index_fill(0, self._loops, 0.0)
        else:
            # of row sums, which scale both sides of the symmetric matrix and one of the other
            shared = -G * self.values(kind)
            if kind == "sym":
                scale = (self._degree[self._rows] * self._degree[self._columns]).sqrt()
                shared = (shared + shared[self._mirror]) / 2
            else:
                scale = self._degree[self._rows]
            of_whole = G / scale + (self._row_sums(shared) / self._degree)[self._rows]
        # self-loops that were added do not depend on a weight
        fixed = self._listed[self._loops] == 0
        of_whole = of_whole.index_copy(0, self._loops, torch.where(fixed, 0.0, of_whole[self._loops]))
        of_whole = (of_whole + of_whole[self._mirror]) / 2
        of_listed = of_whole * self._share + of_whole[self._mirror] * (1 - self._share[self._mirror])
        return of_listed[self._edges].to(self._weight)

    def slope(self, Y: torch.Tensor, Z: torch.Tensor, values: torch.Tensor) -> torch.Tensor:
        """Gradient of ``<Y, M Z>`` in entries M of this pattern."""
        device = Y.device
        return inner_products(Y, Z, self._at.on("rows", device), self._at.on("columns", device)).to(values)

    def csr_of(self, values: torch.Tensor, dtype: torch.dtype, device: torch.device) -> torch.Tensor:
        """Entries as a torch CSR tensor."""
        return csr_like(self._at.pattern(device), values.to(dtype=dtype, device=device))

    def diagonal(self, values: torch.Tensor) -> torch.Tensor:
        """Entries on the diagonal, (N,)."""
        return values[self._loops]

    @property
    def is_learned(self) -> bool:
        """Yes."""
        return True

    @cached_property
    def symmetric(self) -> LearnedAdjacency:  # type: ignore[override]
        """The same weights with ``normalization="sym"``."""
        if self.is_symmetric:
            return self
        other: LearnedAdjacency = object.__new__(LearnedAdjacency)
        other.__dict__.update({key: value for key, value in self.__dict__.items() if key not in ("matrix", "symmetric")})
        other.normalization, other._formats = "sym", {}
        return other

    @cached_property
    def raw(self) -> sp.csr_array:  # type: ignore[override]
        """A."""
        return self._at.matrix(self._listed)

    @cached_property
    def matrix(self) -> sp.csr_array:  # type: ignore[override]
        """A~."""
        return self._at.matrix(self.values(self.normalization))

    @cached_property
    def degrees(self) -> np.ndarray:  # type: ignore[override]
        """Diagonal of D~."""
        return as_numpy(self._degree)

    def tensor(self, dtype: torch.dtype, device: torch.device, *, transposed: bool = False) -> torch.Tensor:
        """A~ (or its transpose) as a torch CSR tensor, zeros among its entries."""
        transposed = transposed and not self.is_symmetric
        key = (dtype, device, transposed)
        if key not in self._formats:
            values = self.values(self.normalization)
            self._formats[key] = self.csr_of(values[self._mirror] if transposed else values, dtype, device)
        return self._formats[key]

    def places_on(self, device: torch.device) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """Rows, columns and mirror images of the entries on a device."""
        return self._at.on("rows", device), self._at.on("columns", device), self._at.on("mirror", device)


class _Entries(torch.autograd.Function):
    """Entries of a matrix as a function of the edge weights."""

    @staticmethod
    def forward(
        ctx: Any, weight: torch.Tensor, adjacency: LearnedAdjacency, kind: Kind, dtype: torch.dtype, device: torch.device
    ) -> torch.Tensor:
        ctx.adjacency, ctx.kind = adjacency, kind
        return adjacency.values(kind).to(dtype=dtype, device=device)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: torch.Tensor) -> Any:
        return ctx.adjacency.pull_back(gradient, ctx.kind), *[None] * 4
