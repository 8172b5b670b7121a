"""Quality control of readings: spikes, stuck, drifting, noisy, dead and swapped sensors, wrong units and clocks.

``check`` flags readings with a model of :mod:`nareg.spacetime`; ``scores`` gives one score per reading.
"""

from __future__ import annotations

from nareg.quality._check import check, scores
from nareg.quality._residuals import far_out as far_out
from nareg.quality._results import Flag, Quality, Suspect
from nareg.quality._results import events as events
from nareg.quality._results import time as time

__all__ = ["Flag", "Quality", "Suspect", "check", "scores"]
