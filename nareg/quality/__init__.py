"""Quality control of readings: spikes, stuck, drifting, noisy, dead and swapped sensors, wrong units and clocks.

``check`` flags readings with a model of :mod:`nareg.spacetime`; ``scores`` gives one score per reading.
"""

from __future__ import annotations

from nareg.quality._check import check, scores
from nareg.quality._reference import beside as beside
from nareg.quality._reference import comparable as comparable
from nareg.quality._reference import farther as farther
from nareg.quality._residuals import FEWEST as FEWEST
from nareg.quality._residuals import far_out as far_out
from nareg.quality._results import KINDS as KINDS
from nareg.quality._results import USUAL as USUAL
from nareg.quality._results import Flag, Quality, Suspect
from nareg.quality._results import events as events
from nareg.quality._results import time as time
from nareg.quality._rules import FlagScheme as FlagScheme
from nareg.quality._rules import Rules
from nareg.quality._rules import beyond as beyond
from nareg.quality._rules import dismissals as dismissals
from nareg.quality._rules import muted as muted
from nareg.quality._rules import of_quantity as of_quantity
from nareg.quality._rules import references as references
from nareg.quality._rules import station_of as station_of

__all__ = ["Flag", "Quality", "Rules", "Suspect", "check", "scores"]
