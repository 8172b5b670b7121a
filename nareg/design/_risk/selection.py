"""When a design takes the place of the best single weight: the rules of all designs in one place."""

from __future__ import annotations

#: Exact and blind designs stop early on dense matrices up to so many nodes, and follow penalties on sampled columns beyond.
DENSE_NODES = 500
#: Standard errors by which the held-out risk must fall, for every design. Two keep the single weight where designs pay
#: (``python benchmarks/selection.py``: blind by penalties 0.968 of its risk with one, 0.980 with two).
STANDARD_ERRORS = 1.0
