"""scikit-learn estimators: rows of X are times (samples), columns are stations (features).

That is the transpose of everywhere else in nareg, where rows are stations. The module needs scikit-learn
(``pip install 'nareg[sklearn]'``).

======================  ===================================================================================
NodeAdaptiveDenoiser    one weight per station
EdgeDenoiser            one weight per edge and station
GraphInterpolator       fills gaps from the neighbors and keeps every reading
SpaceTimeSmoother       the state-space model of :mod:`nareg.spacetime`
SeasonalCycleRemover    removes and restores station means and a seasonal cycle
SeasonallyAdjusted      any estimator, run without station means and cycle
TimeBlockSplit          cross-validation by blocks of time
HeldOutStations         scorer: the error at stations whose readings are hidden
======================  ===================================================================================
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from nareg.errors import MissingDependencyError

if TYPE_CHECKING:
    from nareg.estimators._adjusted import SeasonallyAdjusted
    from nareg.estimators._cycle import SeasonalCycleRemover
    from nareg.estimators._denoisers import EdgeDenoiser, NodeAdaptiveDenoiser
    from nareg.estimators._hold_out import HeldOutStations
    from nareg.estimators._interpolator import GraphInterpolator
    from nareg.estimators._smoother import SpaceTimeSmoother
    from nareg.estimators._splits import TimeBlockSplit

#: Name -> module: all need scikit-learn, and are imported when first used.
_MODULES = {
    "EdgeDenoiser": "_denoisers",
    "GraphInterpolator": "_interpolator",
    "HeldOutStations": "_hold_out",
    "NodeAdaptiveDenoiser": "_denoisers",
    "SeasonalCycleRemover": "_cycle",
    "SeasonallyAdjusted": "_adjusted",
    "SpaceTimeSmoother": "_smoother",
    "TimeBlockSplit": "_splits",
}

__all__ = [
    "EdgeDenoiser",
    "GraphInterpolator",
    "HeldOutStations",
    "NodeAdaptiveDenoiser",
    "SeasonalCycleRemover",
    "SeasonallyAdjusted",
    "SpaceTimeSmoother",
    "TimeBlockSplit",
]


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module 'nareg.estimators' has no attribute {name!r}")
    try:
        module = importlib.import_module(f"nareg.estimators.{_MODULES[name]}")
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] != "sklearn":
            raise
        raise MissingDependencyError(f"nareg.estimators.{name} needs scikit-learn: pip install 'nareg[sklearn]'.") from None
    return getattr(module, name)


def __dir__() -> list[str]:
    return sorted({*globals(), *_MODULES})
