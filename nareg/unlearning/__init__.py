"""Certified graph unlearning: forget edges, nodes and features on request, with a certificate (ScaleGUN, corrected)."""

from typing import TYPE_CHECKING

from nareg._core.imports import names_that_need
from nareg.errors import CertificateError, LedgerError
from nareg.unlearning.calibration import FeatureScale
from nareg.unlearning.certificate import Certificate
from nareg.unlearning.cost import UtilityCost
from nareg.unlearning.evaluation import Evaluation, ForgettingScores, MeasuredCall, evaluate, measured_call
from nareg.unlearning.evaluation_task import ModelScores, UnlearningTask
from nareg.unlearning.model import CertifiedGPR
from nareg.unlearning.propagation.exact import EdgeFactors, edge_factors
from nareg.unlearning.store.ledger import Ledger
from nareg.unlearning.verification import Verification, verify

if TYPE_CHECKING:
    from nareg.unlearning.deep import DeepGPR

__all__ = [
    "Certificate",
    "CertificateError",
    "CertifiedGPR",
    "DeepGPR",
    "EdgeFactors",
    "Evaluation",
    "FeatureScale",
    "ForgettingScores",
    "Ledger",
    "LedgerError",
    "MeasuredCall",
    "ModelScores",
    "UnlearningTask",
    "UtilityCost",
    "Verification",
    "edge_factors",
    "evaluate",
    "measured_call",
    "verify",
]

if not TYPE_CHECKING:  # to a type checker a misspelled name is an error
    __getattr__ = names_that_need("torch", "nareg.unlearning", {"DeepGPR": "deep"}, extra="torch", title="torch")
