"""Graph state-space models of sensor networks, learned from noisy readings with gaps.

``fit`` learns a model. Its ``smooth`` fills gaps and gives a standard deviation for every station and time; its ``stream``
takes in new readings time by time. ``placement`` and ``removal`` rank sites and stations by the error that they save.
"""

from __future__ import annotations

from nareg.spacetime._model.dense import SpaceTimeModel
from nareg.spacetime._model.fit import fit
from nareg.spacetime._model.loading import load, load_stream
from nareg.spacetime._model.placement import SensorRanking, placement, removal
from nareg.spacetime._model.results import Smoothed, Update
from nareg.spacetime._model.sparse import SparseSpaceTimeModel
from nareg.spacetime._model.stream import SparseStream, Stream

__all__ = [
    "SensorRanking",
    "Smoothed",
    "SpaceTimeModel",
    "SparseSpaceTimeModel",
    "SparseStream",
    "Stream",
    "Update",
    "fit",
    "load",
    "load_stream",
    "placement",
    "removal",
]
