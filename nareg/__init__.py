"""nareg: design and apply graph filters for noisy signals on networks.

The one idea is the denoiser ``(I + S)^-1 y`` with ``S = diag(w) L diag(w)``: see :mod:`nareg.design` for the
weights, :mod:`nareg.filters` for applying them, :mod:`nareg.gnn` and :mod:`nareg.herta` for learning with them,
:mod:`nareg.unlearning` for removing data on request, :mod:`nareg.spacetime` for readings over time, :mod:`nareg.quality` for
finding faulty sensors, :mod:`nareg.estimators` for scikit-learn, :mod:`nareg.datasets` for real networks,
:mod:`nareg.spectral` for Fourier transforms and filter banks, :mod:`nareg.plotting` for pictures.
:func:`nareg.clean` cleans a table of readings in one call, :func:`nareg.explore` writes a page to explore them in a browser.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from nareg._version import __version__

if TYPE_CHECKING:
    from nareg import baselines as baselines
    from nareg import cleaning as cleaning
    from nareg import datasets as datasets
    from nareg import design as design
    from nareg import errors as errors
    from nareg import estimators as estimators
    from nareg import explorer as explorer
    from nareg import filters as filters
    from nareg import gnn as gnn
    from nareg import graph as graph
    from nareg import graphs as graphs
    from nareg import herta as herta
    from nareg import io as io
    from nareg import plotting as plotting
    from nareg import progress as progress
    from nareg import quality as quality
    from nareg import spacetime as spacetime
    from nareg import spectral as spectral
    from nareg import typing as typing
    from nareg import unlearning as unlearning
    from nareg.cleaning import clean as clean
    from nareg.explorer import explore as explore
    from nareg.graph import Graph as Graph

#: Loaded when first used, so that ``import nareg`` stays fast.
_SUBMODULES = (
    "baselines",
    "cleaning",
    "datasets",
    "design",
    "errors",
    "estimators",
    "explorer",
    "filters",
    "gnn",
    "graph",
    "graphs",
    "herta",
    "io",
    "plotting",
    "progress",
    "quality",
    "spacetime",
    "spectral",
    "typing",
    "unlearning",
)
#: Names at the top, and where they are.
_NAMES = {"Graph": "graph", "clean": "cleaning", "explore": "explorer"}

__all__ = ["__version__", *_NAMES, *_SUBMODULES]


if not TYPE_CHECKING:  # to a type checker a misspelled name is an error

    def __getattr__(name: str) -> Any:
        if name in _SUBMODULES:
            return importlib.import_module(f"nareg.{name}")
        if name in _NAMES:
            return getattr(importlib.import_module(f"nareg.{_NAMES[name]}"), name)
        raise AttributeError(f"module 'nareg' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *_NAMES, *_SUBMODULES})
