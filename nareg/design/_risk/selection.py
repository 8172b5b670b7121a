"""When a design takes the place of the best single weight: the rules of all designs in one place."""

from __future__ import annotations

#: Exact and blind designs use dense matrices up to so many nodes, and sampled columns beyond.
DENSE_NODES = 500
#: Standard errors by which the held-out risk must fall, for every design. Two keep the single weight where designs pay
#: (``python benchmarks/selection.py``).
STANDARD_ERRORS = 1.0
