"""When a design takes the place of the best single weight: the rules of all designs in one place."""

from __future__ import annotations

#: Exact and blind designs stop early on dense matrices up to so many nodes, and follow penalties on sampled columns beyond.
DENSE_NODES = 500
#: Standard errors by which the held-out risk must fall, for every design. On five networks, from -10 to 10 dB and from 12
#: signals on, two keep the single weight where the design pays (``python benchmarks/selection.py``).
STANDARD_ERRORS = 1.0
