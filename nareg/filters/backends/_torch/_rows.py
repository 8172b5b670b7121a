"""K and its signals in blocks of rows that stay in the CPU's cache between the operations of one pass.

torch runs one operation at a time. Over whole arrays each would read and write memory anew: twice the time of a fused loop on
a grid of 90,000 nodes with 16 signals. An accelerator takes all rows at once.
"""

from __future__ import annotations

from collections.abc import Iterator

import torch

from nareg.filters.backends._torch._device import csr_of

#: Numbers per block and thread, two megabytes in float64: about the least seconds of those from 2^13 to 2^21.
NUMBERS = 2**18


class RowBlocks:
    """``K`` and the weights of its norms, ready for blocks of so many columns."""

    def __init__(self, K: torch.Tensor, inverse_diagonal: torch.Tensor, n_columns: int) -> None:
        n, self.K, self.inverse_diagonal = K.shape[0], K, inverse_diagonal[:, None]
        size = n if K.device.type != "cpu" else max(1, NUMBERS * torch.get_num_threads() // n_columns)
        starts = range(0, n, size)
        self._slices = [slice(first, min(first + size, n)) for first in starts]
        self.size = min(size, n)
        weights = torch.stack([inverse_diagonal, torch.ones_like(inverse_diagonal), inverse_diagonal**2])
        self.weights = [weights[:, rows].contiguous() for rows in self._slices]
        self.d = self.split(self.inverse_diagonal)
        self.parts = [K] if len(self._slices) == 1 else list(self._cut(K))

    def _cut(self, K: torch.Tensor) -> Iterator[torch.Tensor]:
        indptr, indices, values = K.crow_indices(), K.col_indices(), K.values()
        for rows in self._slices:
            first, last = int(indptr[rows.start]), int(indptr[rows.stop])
            part = indptr[rows.start : rows.stop + 1] - first
            yield csr_of(part, indices[first:last], values[first:last], (rows.stop - rows.start, K.shape[1]))

    def split(self, V: torch.Tensor) -> list[torch.Tensor]:
        """The blocks of rows of an array, which share its memory."""
        return [V[rows] for rows in self._slices]

    def scratch(self, V: torch.Tensor) -> list[torch.Tensor]:
        """One small array, as long as each block in turn."""
        buffer = torch.empty((self.size, V.shape[1]), dtype=V.dtype, device=V.device)
        return [buffer[: rows.stop - rows.start] for rows in self._slices]

    def squares(self, V: torch.Tensor) -> torch.Tensor:
        """``V^T D^-1 V``, ``V^T V`` and ``V^T D^-2 V`` of each column, (3, T)."""
        return added(
            torch.mm(weights, torch.mul(v, v, out=s))
            for v, weights, s in zip(self.split(V), self.weights, self.scratch(V), strict=True)
        )

    def residual_squares(self, X: torch.Tensor, B: torch.Tensor) -> torch.Tensor:
        """The same of ``B - K X``, which is not kept."""
        shares = []
        for b, K, weights, s in zip(self.split(B), self.parts, self.weights, self.scratch(B), strict=True):
            torch.addmm(b, K, X, alpha=-1, out=s)
            shares.append(torch.mm(weights, s.mul_(s)))
        return added(shares)


def added(parts: Iterator[torch.Tensor] | list[torch.Tensor]) -> torch.Tensor:
    """The sum of the blocks' shares, always in the same order."""
    shares = list(parts)
    return shares[0] if len(shares) == 1 else torch.stack(shares).sum(0)
