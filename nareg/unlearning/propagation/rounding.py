"""A bound on the rounding errors of an embedding, from the largest feature and the degrees so far.

``A D^-1 d = d``: where no feature is larger than c in size, no partial sum of a row of ``q_l = D^1/2 P^l X`` is larger than
``c d``, whatever cancels in it, and each level's own errors are charged with :data:`SHARE` of that. They were made when degrees
were what they were then: with rho the largest ratio of a node's degree at any time since everything was computed to what it is
now, those of a level are at most ``SHARE c rho d``. What a level sends on, ``A D^-1`` of its errors, keeps such a bound. So
after L levels errors are at most ``L SHARE c rho d``, in a row of ``Z = D^-1/2 sum_l w_l q_l`` by ``sqrt(d)`` less.
"""

from __future__ import annotations

import numpy as np

from nareg.unlearning.propagation.dynamic_graph import extended

#: Of the largest partial sum: rounding of ten thousand additions, and of requests between two recomputations.
SHARE = 1e-12
#: Requests after which an embedding is computed anew.
REQUESTS = 10_000
#: Fall of the largest feature after which it is: what it left behind by rounding goes.
FALL = 10.0
#: Fall of a node's degree after which it is: a hub's errors are large for one that is none any more.
SHRUNK = 1000.0


class Rounding:
    """The largest features and degrees, now and since everything was last computed.

    Parameters
    ----------
    features : (N, F) array
    degrees : (N,) array
        With the loop at every node.
    order : int
        L.
    """

    def __init__(self, features: np.ndarray, degrees: np.ndarray, order: int) -> None:
        self._largest, self._order = largest_of(features), max(order, 1)
        #: Nodes and peak before the last nodes were added, until these are dropped.
        self._before: tuple[int, float] | None = None
        self.reset(degrees)

    def reset(self, degrees: np.ndarray) -> None:
        """Note that everything was computed again."""
        #: Requests since everything was computed.
        self.requests = 0
        self.peak = float(self._largest.max(initial=0))
        self._degrees, self.ratio = degrees.copy(), 1.0

    def changed(self, nodes: np.ndarray, features: np.ndarray, touched: np.ndarray, degrees: np.ndarray) -> bool:
        """Note a request, new rows of features, and degrees; return whether everything should be computed again."""
        self._largest[nodes] = largest_of(features)
        now = float(self._largest.max(initial=0))
        self.peak, self.requests = max(self.peak, now), self.requests + 1
        self._degrees[touched] = np.maximum(self._degrees[touched], degrees)
        self.ratio = max(self.ratio, float((self._degrees[touched] / degrees).max(initial=1)))
        return now * FALL < self.peak or self.requests >= REQUESTS or self.ratio > SHRUNK

    def cleared(self, nodes: np.ndarray) -> None:
        """Note nodes without edges whose rows are exact."""
        self._degrees[nodes] = 1.0

    def added(self, features: np.ndarray) -> None:
        """Note new nodes, without edges."""
        self._before = (len(self._largest), self.peak)
        self._largest = extended(self._largest, largest_of(features))
        self._degrees = extended(self._degrees, np.ones(len(features)))
        self.peak = max(self.peak, float(self._largest.max(initial=0)))

    def dropped(self, n_nodes: int) -> None:
        """Note that the last added nodes were removed; nothing else was computed from them."""
        self._largest, self._degrees = self._largest[:n_nodes], self._degrees[:n_nodes]
        if self._before is not None and self._before[0] == n_nodes:  # or they were not noted yet
            self.peak = self._before[1]
        self._before = None

    def bound(self, degrees: np.ndarray) -> np.ndarray:
        """The bound for an entry in the rows of nodes with these degrees."""
        return self._order * SHARE * self.peak * self.ratio * np.sqrt(degrees)


def largest_of(features: np.ndarray) -> np.ndarray:
    """Size of the largest feature of each node."""
    return np.maximum(features.max(axis=1, initial=0), -features.min(axis=1, initial=0))
