"""Other unlearning methods with the same calls, and their comparison. Networks need torch."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from nareg.unlearning.peers.certified import CEU, CGU, Retrained
from nareg.unlearning.peers.comparison import ComparedMethod, compare

if TYPE_CHECKING:
    from nareg.unlearning.peers.deep import DeepGPR
    from nareg.unlearning.peers.influence import GIF, IDEA
    from nareg.unlearning.peers.mutual import MEGU
    from nareg.unlearning.peers.network import RetrainedGCN

__all__ = ["CEU", "CGU", "GIF", "IDEA", "MEGU", "ComparedMethod", "DeepGPR", "Retrained", "RetrainedGCN", "compare"]

#: Networks -> their modules, which need torch.
NETWORKS = {"DeepGPR": "deep", "GIF": "influence", "IDEA": "influence", "MEGU": "mutual", "RetrainedGCN": "network"}


if not TYPE_CHECKING:  # to a type checker a misspelled name is an error

    def __getattr__(name: str) -> Any:
        if name not in NETWORKS:
            raise AttributeError(f"module 'nareg.unlearning.peers' has no attribute {name!r}")
        from importlib import import_module

        return getattr(import_module(f"nareg.unlearning.peers.{NETWORKS[name]}"), name)
