"""Check readings: spikes, stuck, drifting, noisy, dead and swapped sensors and wrong units, each with the evidence.

``check`` judges readings with a model of :mod:`nareg.spacetime`; ``scores`` ranks them.
"""

from __future__ import annotations

from nareg.quality._check import check, scores
from nareg.quality._flags import Flag
from nareg.quality._results import Quality, Suspect

__all__ = ["Flag", "Quality", "Suspect", "check", "scores"]
