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

from typing import TYPE_CHECKING

from nareg._core.imports import names_that_need

if TYPE_CHECKING:
    from nareg.estimators._cycle import SeasonalCycleRemover, SeasonallyAdjusted
    from nareg.estimators._denoisers import EdgeDenoiser, NodeAdaptiveDenoiser
    from nareg.estimators._filtered import GraphInterpolator
    from nareg.estimators._smoother import SpaceTimeSmoother
    from nareg.estimators._validation import HeldOutStations, TimeBlockSplit

#: Name -> module: all need scikit-learn, and are imported when first used.
_MODULES = {
    "EdgeDenoiser": "_denoisers",
    "GraphInterpolator": "_filtered",
    "HeldOutStations": "_validation",
    "NodeAdaptiveDenoiser": "_denoisers",
    "SeasonalCycleRemover": "_cycle",
    "SeasonallyAdjusted": "_cycle",
    "SpaceTimeSmoother": "_smoother",
    "TimeBlockSplit": "_validation",
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


if not TYPE_CHECKING:  # to a type checker a misspelled name is an error
    __getattr__ = names_that_need("sklearn", __name__, _MODULES, extra="sklearn", title="scikit-learn")


def __dir__() -> list[str]:
    return sorted({*globals(), *_MODULES})
