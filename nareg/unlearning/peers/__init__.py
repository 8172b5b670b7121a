"""Other unlearning methods with the same calls, and their comparison. ``DeepGPR`` needs torch."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from nareg.unlearning.peers.certified import CEU, CGU, Retrained
from nareg.unlearning.peers.comparison import ComparedMethod, compare

if TYPE_CHECKING:
    from nareg.unlearning.peers.deep import DeepGPR

__all__ = ["CEU", "CGU", "ComparedMethod", "DeepGPR", "Retrained", "compare"]


if not TYPE_CHECKING:  # to a type checker a misspelled name is an error

    def __getattr__(name: str) -> Any:
        if name != "DeepGPR":
            raise AttributeError(f"module 'nareg.unlearning.peers' has no attribute {name!r}")
        from nareg.unlearning.peers.deep import DeepGPR

        return DeepGPR
