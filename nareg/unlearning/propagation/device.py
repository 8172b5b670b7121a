"""A torch device for the heavy parts: whole propagations, pushes of large batches, and the training problem."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import AbstractContextManager
from typing import Any

import numpy as np
import scipy.sparse as sp

from nareg.errors import MissingDependencyError
from nareg.unlearning.propagation.dynamic_graph import LiveGraph
from nareg.unlearning.propagation.pushes import PushBatch

#: Additions of numbers from which on a push goes to the device: below, starting it takes longer than the compiled loops do. On
#: the CPU these are faster at every size.
LARGE = {"cpu": math.inf}
LARGE_ELSEWHERE = 10**7


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
        try:
            import torch
        except ModuleNotFoundError as error:
            if error.name != "torch":
                raise
            raise MissingDependencyError(f"device={name!r} needs torch: pip install 'nareg[torch]'.") from None
        from nareg.gnn.training import checked_device

        self.torch, self._device = torch, checked_device(name)

    def given(self, array: np.ndarray) -> Any:
        """A float64 copy on the device."""
        return self.torch.tensor(array, dtype=self.torch.float64, device=self._device)

    def room(self, what: str, numbers: float) -> AbstractContextManager[None]:
        """Context that refuses what so many float64 numbers are too many for, before it starts or where it fails.

        Raises
        ------
        TooLargeError
        """
        from nareg.filters.backends._torch._device import enough_memory

        return enough_memory(self._device, int(8 * numbers), what=what, remedy="load the model without device")

    def takes(self, additions: float) -> bool:
        """Whether a push of so many additions is for the device."""
        return additions >= LARGE.get(self._device.type, LARGE_ELSEWHERE)

    def push(
        self, batch: PushBatch, Y: np.ndarray, sent: np.ndarray, gained: np.ndarray, degrees: np.ndarray, weights: np.ndarray
    ) -> tuple[list[np.ndarray], np.ndarray]:
        """An exact push. The host waits once, for the results of all levels.

        Parameters
        ----------
        batch : PushBatch
        Y : (k, F) array
            ``D'^-1 q'_0 - D^-1 q_0`` at the touched nodes.
        sent : (L, k, F) array
            ``D^-1 q_l`` before the request, l = 0..L-1.
        gained : (k, 1) array
            ``d / d' - 1``.
        degrees : (K', 1) array
            ``d'`` of the nodes within L - 1 hops.
        weights : (L + 1,) array

        Returns
        -------
        deltas : list of L - 1 arrays
            What ``q_1, ..., q_(L-1)`` gain at the nodes within 1, 2, ... hops.
        total : (K, F) array
            ``sum_l w_l delta q_l``, l = 1..L.
        """
        torch, k = self.torch, len(Y)
        with self.room("this request", 2 * batch.n_rows * Y.shape[1] + 1.5 * batch.nnz):
            hops, jumps = [self._matrix(hop) for hop in batch.hops], self._matrix(batch.jumps)
            Y, sent, gained, degrees = (self.given(array) for array in (Y, sent, gained, degrees))
            total = torch.zeros((len(batch.nodes), Y.shape[1]), dtype=torch.float64, device=self._device)
            deltas = []
            for level, hop in enumerate(hops, start=1):
                delta = hop @ Y
                delta[: len(Y)] += Y  # the loops
                delta[:k] += jumps @ sent[level - 1]
                total[: len(delta)] += weights[level] * delta
                if level < len(hops):
                    deltas.append(delta)
                    Y = delta / degrees[: len(delta)]
                    Y[:k] += gained * sent[level]
            rows = torch.cat([*deltas, total]).cpu().numpy()
        *parts, last = np.split(rows, np.cumsum([len(delta) for delta in deltas]))
        return parts, last

    def product(self, matrix: sp.csr_array, Y: np.ndarray) -> np.ndarray:
        """A sparse matrix times rows; the host waits for it."""
        with self.room("this request", sum(matrix.shape) * Y.shape[1] + 1.5 * matrix.nnz):
            rows: np.ndarray = (self._matrix(matrix) @ self.given(Y)).cpu().numpy()
        return rows

    def _matrix(self, matrix: sp.csr_array) -> Any:
        from nareg.gnn.adjacency import csr_tensor

        return csr_tensor(matrix, self.torch.float64, self._device)

    def levels(self, graph: LiveGraph, degrees: np.ndarray, below: np.ndarray, first: int, order: int) -> Iterator[np.ndarray]:
        """``q_l = A D^-1 q_{l-1}`` for l from ``first`` on; ``below`` is ``q_{first-1}``, X for the first level."""
        with self.room("propagation through the whole graph", 3 * below.size + 3 * graph.n_edges):
            A = self._matrix(graph.adjacency(in_order=False))
            d, rows = self.given(degrees)[:, None], self.given(below)
            for level in range(first, order + 1):
                rows = rows / (d**0.5 if level == 1 else d)
                rows = rows + A @ rows  # the loops
                yield rows.cpu().numpy()
