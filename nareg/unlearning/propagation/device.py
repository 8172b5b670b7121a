"""A torch device for the heavy parts: propagation through the whole graph, and the training problem."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from nareg.errors import MissingDependencyError
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

    def levels(self, graph: LiveGraph, degrees: np.ndarray, below: np.ndarray, first: int, order: int) -> Iterator[np.ndarray]:
        """``q_l = A D^-1 q_{l-1}`` for l from ``first`` on; ``below`` is ``q_{first-1}``, X for the first level."""
        from nareg.gnn.adjacency import csr_tensor

        A = csr_tensor(graph.adjacency(in_order=False), self.torch.float64, self._device)
        d, rows = self.given(degrees)[:, None], self.given(below)
        for level in range(first, order + 1):
            rows = rows / (d**0.5 if level == 1 else d)
            rows = rows + A @ rows  # the loops
            yield rows.cpu().numpy()
