"""Training unfolded graph networks in a handful of iterations: sparsifier, preconditioner, trainers (HERTA).

Needs torch (``pip install 'nareg[torch]'``).
"""

from __future__ import annotations

try:
    import torch as _torch  # noqa: F401
except ModuleNotFoundError as error:
    if error.name != "torch":
        raise
    from nareg.errors import MissingDependencyError

    raise MissingDependencyError("nareg.herta needs torch: pip install 'nareg[torch]'.") from None

from nareg.herta.attention import Attended, Penalty, fit_attention
from nareg.herta.nonlinear import GaussNewton, Unfold
from nareg.herta.preconditioner import Preconditioner
from nareg.herta.sparsifier import Sparsifier, sparsify
from nareg.herta.trainer import fit
from nareg.herta.training import TrainingResult, TrainingStatus
from nareg.herta.wrapping import Preconditioned, precondition

__all__ = [
    "Attended",
    "GaussNewton",
    "Penalty",
    "Preconditioned",
    "Preconditioner",
    "Sparsifier",
    "TrainingResult",
    "TrainingStatus",
    "Unfold",
    "fit",
    "fit_attention",
    "precondition",
    "sparsify",
]
