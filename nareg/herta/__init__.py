"""Training unfolded graph networks in a handful of iterations: preconditioner, trainers (HERTA).

Needs torch (``pip install 'nareg[torch]'``).
"""

from nareg._core.imports import needed as _needed

with _needed("torch", "nareg.herta needs torch", extra="torch"):
    import torch as _torch  # noqa: F401

from nareg.herta._attention import AttentionPenalty, AttentionResult, fit_attention
from nareg.herta._fit import fit
from nareg.herta._gauss_newton import GaussNewton, Unfold
from nareg.herta._options import Optimizer, Regularized, Sketched, Unfolding
from nareg.herta._preconditioned import Preconditioned, precondition
from nareg.herta._preconditioner import Preconditioner
from nareg.herta._result import TrainingResult

__all__ = [
    "AttentionPenalty",
    "AttentionResult",
    "GaussNewton",
    "Optimizer",
    "Preconditioned",
    "Preconditioner",
    "Regularized",
    "Sketched",
    "TrainingResult",
    "Unfold",
    "Unfolding",
    "fit",
    "fit_attention",
    "precondition",
]
