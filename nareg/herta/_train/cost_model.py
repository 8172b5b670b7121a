"""The fastest way to train, estimated from sizes before anything is computed.

Strategies to the same optimum, with the propagated features of the training nodes ``F = M H^-1 X``:

- "formed": F to full accuracy, and no solve after it; for cross-entropy preconditioned by its Gram matrix;
- "blocks": the same with a Gram matrix per output;
- "exact": F to 1e-2, for its Gram matrix as a preconditioner; values and gradients by solves with C columns;
- "sketched", "sketched-blocks": the same with a sketch of F, which is not stored;
- "plain": no preconditioner.

Work is counted in seconds of one core; only the ratio of dense to sparse work matters for the choice.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from nareg.herta._model.features import Features
from nareg.herta._model.system import System
from nareg.herta._model.unfolded import BLOCK
from nareg.herta._precondition.preconditioner import TOLERANCE

#: Operations per second of one core: dense products, and Chebyshev steps on many columns.
DENSE, SPARSE = 4e10, 4e9
#: Typical numbers of gradients to 1e-6 where a preconditioner is worthwhile: of the squared error, and of cross-entropy.
SQUARED = {"exact": 6, "sketched": 12}
CROSS = {"formed": 35, "blocks": 15, "exact": 35, "sketched": 120, "sketched-blocks": 60, "plain": 200}
#: Times that cross-entropy's preconditioner is renewed.
RENEWALS = 6
#: A sparse product with b columns takes as long as b + NARROW columns of a wide one.
NARROW = 20
#: Largest F that is stored, in bytes.
MEMORY = 4 * 2**30
#: The value of "optimizer" or "preconditioner" for a strategy, where its name differs.
NAMES = {
    "mse": {"formed": "direct"},
    "ce": {
        "formed": "exact (F stored)", "blocks": "blocks (F stored)", "exact": "exact (by solves)", "plain": "none",
        "sketched-blocks": "sketched (per output)",
    },
}  # fmt: skip


@dataclass(frozen=True)
class Sizes:
    """The sizes that the cost of a training depends on."""

    system: System
    features: Features
    loss: str
    n_train: int
    n_outputs: int
    rows: int
    tight: float

    def columns(self, count: float, tol: float, block: int = BLOCK) -> float:
        """Seconds for ``H^-1 B`` with so many columns, block by block."""
        L = self.system.laplacian
        return count * (1 + NARROW / block) * self.system.degree(tol) * (2 * L.nnz + 6 * L.shape[0]) / SPARSE

    def gram(self, rows: int) -> float:
        """Seconds for the smaller Gram matrix of (rows, F), and its factorization."""
        small, large = sorted((rows, self.features.shape[1]))
        return (large * small**2 + small**3 / 3) / DENSE

    def seconds(self, strategy: str) -> float:
        """Estimated time of a strategy."""
        squared, d, c = self.loss == "mse", self.features.shape[1], self.n_outputs
        stored = min(d, self.n_train)
        factorizations = (1 if squared else RENEWALS) * (c if strategy.endswith("blocks") else 1)
        if strategy in ("formed", "blocks"):
            dense = 4.0 * self.n_train * d * c * (1 if squared else CROSS[strategy])
            return self.columns(stored, self.tight) + factorizations * self.gram(self.n_train) + dense / DENSE
        count = (SQUARED if squared else CROSS)[strategy]
        # products with X and solves with H
        gradients = self.columns(2 * c * count, self.tight, c) + 4.0 * self.features.nonzeros * c * count / DENSE
        if strategy == "plain":
            return gradients
        if strategy == "exact":
            # with fewer rows than columns the preconditioner needs accurate rows
            accuracy = TOLERANCE if self.n_train >= d else self.tight
            return self.columns(stored, accuracy) + factorizations * self.gram(self.n_train) + gradients
        mixed = d * self.n_train * (2 * math.log2(2 * self.n_train)) / SPARSE if squared else 0.0
        return self.columns(d, TOLERANCE) + mixed + factorizations * self.gram(self.rows) + gradients


def cheapest(sizes: Sizes, allowed: tuple[str, ...]) -> tuple[str, str]:
    """The strategy that is estimated to be the fastest, and why, in the names of the user's arguments."""
    why, n_bytes = [], float(sizes.n_train) * sizes.features.shape[1] * sizes.features.itemsize
    if n_bytes > MEMORY and {"sketched", "plain"} & set(allowed):
        allowed = tuple(strategy for strategy in allowed if strategy.startswith(("sketched", "plain")))
        why.append(f"the propagated features would take {n_bytes / 2**30:.1f} GiB, more than {MEMORY / 2**30:g} GiB")
    estimates = {strategy: sizes.seconds(strategy) for strategy in allowed}
    best, *others = sorted(allowed, key=lambda strategy: estimates[strategy])
    if others:
        options = {
            strategy: f"{NAMES[sizes.loss].get(strategy, strategy)} {seconds:.2g} s" for strategy, seconds in estimates.items()
        }
        why.append(f"estimated on one core: {options[best]}; slower: {', '.join(options[strategy] for strategy in others)}")
    return best, "; ".join(why)
