"""A torch device for the heavy parts: propagation through the whole graph, and the training problem."""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Any

import numpy as np
import scipy.sparse as sp

from nareg._core.imports import needed
from nareg.unlearning.propagation.dynamic_graph import LiveGraph


class Device:
    """The device that computes the expensive parts, in float64; stored arrays stay in main memory.

    Parameters
    ----------
    name : str
        As in torch: "cuda", "cuda:1", "cpu".

    Raises
    ------
    MissingDependencyError
        If torch is not installed.
    InputError
        If the device is not available.
    """

    def __init__(self, name: Any) -> None:
        with needed("torch", f"device={name!r} needs torch", extra="torch"):
            import torch
        from nareg._solvers._torch._device import resolve

        self.torch, self._device = torch, resolve(name)

    def given(self, array: np.ndarray) -> Any:
        """A float64 copy on the device."""
        return self.torch.tensor(array, dtype=self.torch.float64, device=self._device)

    def room(self, what: str, numbers: float) -> AbstractContextManager[None]:
        """Context that refuses what so many float64 numbers are too many for, before it starts or where it fails.

        Raises
        ------
        TooLargeError
        """
        from nareg._solvers._torch._device import enough_memory

        return enough_memory(self._device, int(8 * numbers), what=what, remedy="load the model without device")

    def _matrix(self, matrix: sp.csr_array) -> Any:
        from nareg.gnn.adjacency import csr_tensor

        return csr_tensor(matrix, self.torch.float64, self._device)

    def propagate(
        self, graph: LiveGraph, degrees: np.ndarray, below: np.ndarray, first: int, weights: np.ndarray, node: np.ndarray,
        reserves: list[np.ndarray], total: np.ndarray,
    ) -> None:  # fmt: skip
        """Fill ``q_l = A D^-1 q_{l-1}``, l = first..L-1, and their weighted sum with ``q_L``.

        Parameters
        ----------
        graph : LiveGraph
        degrees : (N,) array
        below : (N, F) array
            ``q_{first-1}``; X for the first level.
        first : int
        weights : (L + 1,) array
        node : (N,) int array
            The node of each row of ``total``.
        reserves : list of (N, F) arrays
            Written.
        total : (N, F) array
            Written: ``sum_l w_l q_l``, l = first..L.
        """
        torch = self.torch
        with self.room("propagation through the whole graph", 4 * below.size + 3 * graph.n_edges):
            A = self._matrix(graph.adjacency(in_order=False))
            d, rows = self.given(degrees)[:, None], self.given(below)
            whole = torch.zeros_like(rows)
            for level in range(first, weights.size):
                rows = rows / (d**0.5 if level == 1 else d)
                rows = rows + A @ rows  # the loops
                whole.add_(rows, alpha=float(weights[level]))
                if level < weights.size - 1:
                    torch.from_numpy(reserves[level - 1]).copy_(rows)
            torch.from_numpy(total).copy_(whole[torch.as_tensor(node, device=self._device)])
