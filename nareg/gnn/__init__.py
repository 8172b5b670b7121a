"""Graph convolutions as graph filters: propagation, NGC, RNGC and node-adaptive layers, and a comparison.

:func:`propagate` and :class:`Adjacency` work on NumPy arrays without torch; everything else needs it
(``pip install 'nareg[torch]'``).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from nareg._core.imports import names_that_need
from nareg.gnn import series
from nareg.gnn.adjacency import Adjacency
from nareg.gnn.propagation import propagate
from nareg.gnn.similarity import similarity_weighted
from nareg.gnn.solvers import Chebyshev, ConjugateGradients, Neumann, Perturbation

if TYPE_CHECKING:
    from nareg.gnn.comparison import Candidate, compare
    from nareg.gnn.layers import NGC, RNGC
    from nareg.gnn.node_adaptive import NodeAdaptiveConv

#: Name -> module: what needs torch is imported when it is asked for.
_WITH_TORCH = {
    "NGC": "layers", "RNGC": "layers", "NodeAdaptiveConv": "node_adaptive", "Candidate": "comparison", "compare": "comparison",
}  # fmt: skip

__all__ = [
    "NGC",
    "RNGC",
    "Adjacency",
    "Candidate",
    "Chebyshev",
    "ConjugateGradients",
    "Neumann",
    "NodeAdaptiveConv",
    "Perturbation",
    "compare",
    "propagate",
    "series",
    "similarity_weighted",
]


if not TYPE_CHECKING:  # to a type checker a misspelled name is an error
    __getattr__ = names_that_need("torch", __name__, _WITH_TORCH, extra="torch", title="torch")


def __dir__() -> list[str]:
    return sorted({*globals(), *_WITH_TORCH})
