"""Types that the signatures of this wing share."""

from __future__ import annotations

from typing import TypeAlias

import torch
from numpy.typing import ArrayLike, DTypeLike

from nareg.typing import Sparse

#: Features (N, F), targets (N,) or (N, C).
Matrix: TypeAlias = Sparse | ArrayLike | torch.Tensor
#: Node indices (n,), or a mask (N,).
Nodes: TypeAlias = ArrayLike | torch.Tensor
Device: TypeAlias = str | torch.device
Precision: TypeAlias = DTypeLike | torch.dtype
