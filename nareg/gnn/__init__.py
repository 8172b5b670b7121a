"""Graph convolutions as graph filters: propagation, NGC, RNGC and node-adaptive layers, their peers, and a comparison.

:func:`propagate` and :class:`Adjacency` work on NumPy arrays without torch; everything else needs it
(``pip install 'nareg[torch]'``).
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from nareg.errors import MissingDependencyError
from nareg.gnn import series
from nareg.gnn.adjacency import Adjacency
from nareg.gnn.propagation import propagate
from nareg.gnn.solvers import Chebyshev, ConjugateGradients, Neumann, Perturbation

if TYPE_CHECKING:
    from nareg.gnn.layers import NGC, RNGC
    from nareg.gnn.node_adaptive import NodeAdaptiveConv

#: Name -> module: what needs torch is imported when it is asked for.
_WITH_TORCH = {"NGC": "layers", "RNGC": "layers", "NodeAdaptiveConv": "node_adaptive"}

__all__ = [
    "NGC",
    "RNGC",
    "Adjacency",
    "Chebyshev",
    "ConjugateGradients",
    "Neumann",
    "NodeAdaptiveConv",
    "Perturbation",
    "propagate",
    "series",
]


def __getattr__(name: str) -> Any:
    if name not in _WITH_TORCH:
        raise AttributeError(f"module 'nareg.gnn' has no attribute {name!r}")
    try:
        module = importlib.import_module(f"nareg.gnn.{_WITH_TORCH[name]}")
    except ModuleNotFoundError as error:
        if error.name != "torch":
            raise
        raise MissingDependencyError(f"nareg.gnn.{name} needs torch: pip install 'nareg[torch]'.") from None
    return getattr(module, name)


def __dir__() -> list[str]:
    return sorted({*globals(), *_WITH_TORCH})
