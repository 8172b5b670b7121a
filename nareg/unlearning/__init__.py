"""Certified graph unlearning: forget edges, nodes and features on request, with a certificate (ScaleGUN, corrected)."""

from __future__ import annotations

from nareg.unlearning.certificate import Certificate, CertificateError
from nareg.unlearning.entries import LedgerError
from nareg.unlearning.ledger import Ledger
from nareg.unlearning.model import CertifiedGPR
from nareg.unlearning.verification import Verification, verify

__all__ = ["Certificate", "CertificateError", "CertifiedGPR", "Ledger", "LedgerError", "Verification", "verify"]
