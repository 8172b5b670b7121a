"""Certified graph unlearning: forget edges, nodes and features on request, with a certificate (ScaleGUN, corrected)."""

from __future__ import annotations

from nareg.errors import CertificateError, LedgerError
from nareg.unlearning.calibration import FeatureScale
from nareg.unlearning.certificate import Certificate
from nareg.unlearning.cost import UtilityCost
from nareg.unlearning.model import CertifiedGPR
from nareg.unlearning.propagation.factors import EdgeFactors, edge_factors
from nareg.unlearning.store.ledger import Ledger
from nareg.unlearning.verification import Verification, verify

__all__ = [
    "Certificate",
    "CertificateError",
    "CertifiedGPR",
    "EdgeFactors",
    "FeatureScale",
    "Ledger",
    "LedgerError",
    "UtilityCost",
    "Verification",
    "edge_factors",
    "verify",
]
