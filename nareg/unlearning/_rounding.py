"""How far rounding can take an embedding: a bound from the largest feature that has been in it.

``A 1 = d`` makes ``P D^1/2 1 = D^1/2 1``: where no feature is larger than c in size, no partial sum of a row of ``P^l X`` is
larger than ``c sqrt(d)``, whatever cancels in it. Errors are charged with :data:`SHARE` of that.
"""

from __future__ import annotations

import numpy as np

from nareg.unlearning._rows import extended

#: Of the largest partial sum: rounding of ten thousand additions, and of requests between two recomputations.
SHARE = 1e-12
#: Requests after which an embedding is computed anew.
REQUESTS = 10_000
#: Fall of the largest feature after which it is: what it left behind by rounding goes.
FALL = 10.0


class Rounding:
    """The largest features there are, and have been since everything was last computed.

    Parameters
    ----------
    features : (N, F) array
    """

    def __init__(self, features: np.ndarray) -> None:
        self._largest = _largest(features)
        self.reset()

    def reset(self) -> None:
        """Everything was computed anew."""
        self.peak, self._requests = float(self._largest.max(initial=0)), 0

    def changed(self, nodes: np.ndarray, features: np.ndarray) -> bool:
        """Note a request and new rows of features; whether everything had better be computed anew."""
        self._largest[nodes] = _largest(features)
        now = float(self._largest.max(initial=0))
        self.peak, self._requests = max(self.peak, now), self._requests + 1
        return now * FALL < self.peak or self._requests >= REQUESTS

    def added(self, features: np.ndarray) -> None:
        """Note new nodes."""
        self._largest = extended(self._largest, _largest(features))
        self.peak = max(self.peak, float(self._largest.max(initial=0)))

    def bound(self, degrees: np.ndarray) -> np.ndarray:
        """Of an entry in the rows of nodes with these degrees."""
        found: np.ndarray = SHARE * self.peak * np.sqrt(degrees)
        return found


def _largest(features: np.ndarray) -> np.ndarray:
    """Size of the largest feature of each node."""
    found: np.ndarray = np.abs(features).max(axis=1, initial=0)
    return found
