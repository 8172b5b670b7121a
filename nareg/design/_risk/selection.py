"""When a design takes the place of the best single weight: the rules of all designs in one place."""

from __future__ import annotations

#: Exact and blind designs stop early on dense matrices up to so many nodes, and follow penalties on sampled columns beyond.
DENSE_NODES = 500
#: Standard errors by which held-out risk must fall: for early stopping and edge weights,
STANDARD_ERRORS = 1.0
#: and for a penalty, which is chosen on the same columns.
PENALTY_STANDARD_ERRORS = 2.0
