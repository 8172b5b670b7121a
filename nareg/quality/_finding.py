"""A finding of one test: readings of one station, their badness, and the evidence."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from nareg.quality._flags import Flag
from nareg.quality._results import Suspect


@dataclass(frozen=True, eq=False)
class Finding:
    """Readings of one station that failed a test.

    Attributes
    ----------
    station : int
    kind : str
    score : float
        In standard deviations.
    columns : int array
        Columns of the readings, one per time.
    flag : Flag
    evidence : str
    level : array or float
        Badness of each of these readings; default the score.
    size : float
        How far off they are, in the unit of the readings; NaN where that is not one number.
    """

    station: int
    kind: str
    score: float
    columns: np.ndarray
    flag: Flag
    evidence: str
    level: np.ndarray | None = None
    size: float = math.nan

    def suspect(self, names: tuple[str, ...], times: np.ndarray) -> Suspect:
        """The finding with the station's name and dates, as a user gets it."""
        first, last = (times[self.columns[k]] for k in (0, -1))
        return Suspect(self.station, names[self.station], self.kind, float(self.score), first, last, self.evidence, self.size)
