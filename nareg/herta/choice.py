"""Which way to train is the cheapest, estimated before anything is computed.

Three ways to the same optimum, ``F = M H^-1 X`` being the propagated features of the training nodes:

- "formed": F to full accuracy, after which no solve is needed any more;
- "exact": F to 1e-2, for its Gram matrix as a preconditioner; values and gradients by solves with C columns;
- "sketched": the same with a sketch of F, which is not held.

Work is counted in seconds of one core; only the ratio of dense to sparse work matters for the choice.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from nareg.herta.system import System
from nareg.herta.unfolded import BLOCK

#: Operations a second of one core: dense products, and Chebyshev steps on many columns.
DENSE, SPARSE = 4e10, 4e9
#: Gradients to 1e-6 that are typical: mse with an exact and a sketched preconditioner, ce with either.
TYPICAL = {("mse", "exact"): 6, ("mse", "sketched"): 12, ("ce", "exact"): 20, ("ce", "sketched"): 90}
#: Times that the weights of cross-entropy's preconditioner are brought up to date.
RENEWALS = 6
#: A product of a sparse matrix with b columns costs like b + NARROW of many.
NARROW = 20
#: Largest F that is held, in bytes.
MEMORY = 4 * 2**30


@dataclass(frozen=True)
class Sizes:
    """What the cost of a training depends on."""

    system: System
    loss: str
    n_train: int
    n_features: int
    n_outputs: int
    rows: int
    loose: float
    tight: float
    itemsize: int

    def columns(self, count: float, tol: float, block: int = BLOCK) -> float:
        """Seconds for ``H^-1 B`` with so many columns, a block at a time."""
        L = self.system.laplacian
        return count * (1 + NARROW / block) * self.system.degree(tol) * (2 * L.nnz + 6 * L.shape[0]) / SPARSE

    def gram(self, rows: int) -> float:
        """Seconds for the smaller Gram matrix of (rows, F), and its factorisation."""
        small, large = sorted((rows, self.n_features))
        return (large * small**2 + small**3 / 3) / DENSE

    def seconds(self, way: str) -> float:
        """Estimated time of a way to train."""
        d, c, factorisations = self.n_features, self.n_outputs, 1 if self.loss == "mse" else RENEWALS * self.n_outputs
        held = min(d, self.n_train)
        if way == "formed":
            dense = 4.0 * self.n_train * d * c * (1 if self.loss == "mse" else TYPICAL["ce", "exact"])
            return self.columns(held, self.tight) + factorisations * self.gram(self.n_train) + dense / DENSE
        gradients = self.columns(2 * c * TYPICAL[self.loss, way], self.tight, c)
        if way == "exact":
            # with fewer rows than columns the preconditioner takes accurate rows as well
            return (
                self.columns(held, self.loose if self.n_train >= d else self.tight)
                + factorisations * self.gram(self.n_train)
                + gradients
            )
        mixed = d * self.n_train * (2 * math.log2(2 * self.n_train)) / SPARSE if self.loss == "mse" else 0.0
        return self.columns(d, self.loose) + mixed + factorisations * self.gram(self.rows) + gradients

    @property
    def held_bytes(self) -> float:
        """Memory of F."""
        return float(self.n_train) * self.n_features * self.itemsize


def cheapest(sizes: Sizes, allowed: tuple[str, ...]) -> tuple[str, str]:
    """The way that is estimated to be the fastest, and why."""
    if sizes.held_bytes > MEMORY and "sketched" in allowed:
        gib = sizes.held_bytes / 2**30
        return "sketched", f"the propagated features would take {gib:.1f} GiB, more than {MEMORY / 2**30:g} GiB"
    estimates = {way: sizes.seconds(way) for way in allowed}
    told = ", ".join(f"{way} {seconds:.2g} s" for way, seconds in estimates.items())
    return min(estimates, key=lambda way: estimates[way]), f"estimated on one core: {told}" if len(estimates) > 1 else ""
