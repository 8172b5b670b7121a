"""Follow a network in time: a graph state-space model from noisy, gappy readings alone.

``fit`` learns the model; ``smooth`` fills gaps and gives a standard deviation for every station and time; ``stream`` follows
new readings one time after the other.
"""

from __future__ import annotations

from nareg.spacetime._fit import fit
from nareg.spacetime._model import SpaceTimeModel
from nareg.spacetime._results import Smoothed, Update
from nareg.spacetime._store import load, load_stream
from nareg.spacetime._stream import Stream

__all__ = ["Smoothed", "SpaceTimeModel", "Stream", "Update", "fit", "load", "load_stream"]
