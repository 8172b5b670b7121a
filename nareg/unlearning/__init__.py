"""Certified graph unlearning: forget edges, nodes and features on request, with a certificate (ScaleGUN, corrected)."""

from __future__ import annotations

from nareg.unlearning.certificate import Certificate, CertificateError
from nareg.unlearning.model import CertifiedGPR

__all__ = ["Certificate", "CertificateError", "CertifiedGPR"]
