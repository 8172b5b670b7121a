"""Types that public signatures share."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike as ArrayLike

from nareg.graph import Graph
from nareg.results import WeightDesign

if TYPE_CHECKING:
    import torch

#: Any SciPy sparse matrix or array.
Sparse: TypeAlias = sp.spmatrix | sp.sparray

#: A graph, or a symmetric positive semidefinite (N, N) operator in its place.
GraphLike: TypeAlias = Graph | Sparse | np.ndarray

#: Node weights (N,), one weight for all nodes, a matrix S, or a design that carries them.
WeightsLike: TypeAlias = ArrayLike | Sparse | WeightDesign

#: A NumPy array or a torch tensor; what is returned is of the kind that was passed.
Features: TypeAlias = "np.ndarray | torch.Tensor"
