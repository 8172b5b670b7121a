"""What one test finds: readings of one station, how bad they are, and why."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from nareg.quality._flags import Flag
from nareg.quality._results import Suspect


@dataclass(frozen=True, eq=False)
class Finding:
    """Readings of one station that a test objects to.

    Attributes
    ----------
    station : int
    kind : str
    score : float
        In standard deviations.
    columns : int array
        Times (columns of the readings) that it is about.
    flag : Flag
    evidence : str
    level : array or float
        Badness of each of these readings; default the score.
    """

    station: int
    kind: str
    score: float
    columns: np.ndarray
    flag: Flag
    evidence: str
    level: np.ndarray | None = None

    def suspect(self, names: tuple[str, ...], times: np.ndarray) -> Suspect:
        """For the user."""
        first, last = (times[self.columns[k]] for k in (0, -1))
        return Suspect(self.station, names[self.station], self.kind, float(self.score), first, last, self.evidence)
