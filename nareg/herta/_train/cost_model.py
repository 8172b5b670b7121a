"""Which way to train is the cheapest, estimated before anything is computed.

Ways to the same optimum, ``F = M H^-1 X`` being the propagated features of the training nodes:

- "formed": F to full accuracy, after which no solve is needed any more; for cross-entropy preconditioned by its Gram matrix;
- "blocks": the same with a Gram matrix an output;
- "exact": F to 1e-2, for its Gram matrix as a preconditioner; values and gradients by solves with C columns;
- "sketched", "sketched-blocks": the same with a sketch of F, which is not held;
- "plain": no preconditioner.

Work is counted in seconds of one core; only the ratio of dense to sparse work matters for the choice.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from nareg.herta._model.system import System
from nareg.herta._model.unfolded import BLOCK

#: Operations a second of one core: dense products, and Chebyshev steps on many columns.
DENSE, SPARSE = 4e10, 4e9
#: Gradients to 1e-6 that are typical, where a preconditioner is worth while: of the squared error, and of cross-entropy.
SQUARED = {"exact": 6, "sketched": 12}
CROSS = {"formed": 35, "blocks": 15, "exact": 35, "sketched": 120, "sketched-blocks": 60, "plain": 200}
#: Times that the weights of cross-entropy's preconditioner are brought up to date.
RENEWALS = 6
#: A product of a sparse matrix with b columns costs like b + NARROW of many.
NARROW = 20
#: Largest F that is held, in bytes.
MEMORY = 4 * 2**30
#: What a user calls a way where that is another name: what "optimizer" or "preconditioner" would have to be.
NAMES = {
    "mse": {"formed": "direct"},
    "ce": {
        "formed": "exact (F held)", "blocks": "blocks (F held)", "exact": "exact (by solves)", "plain": "none",
        "sketched-blocks": "a sketch an output",
    },
}  # fmt: skip


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
    nonzeros: float

    def columns(self, count: float, tol: float, block: int = BLOCK) -> float:
        """Seconds for ``H^-1 B`` with so many columns, a block at a time."""
        L = self.system.laplacian
        return count * (1 + NARROW / block) * self.system.degree(tol) * (2 * L.nnz + 6 * L.shape[0]) / SPARSE

    def gram(self, rows: int) -> float:
        """Seconds for the smaller Gram matrix of (rows, F), and its factorization."""
        small, large = sorted((rows, self.n_features))
        return (large * small**2 + small**3 / 3) / DENSE

    def seconds(self, way: str) -> float:
        """Estimated time of a way to train."""
        squared, d, c = self.loss == "mse", self.n_features, self.n_outputs
        stored = min(d, self.n_train)
        factorizations = (1 if squared else RENEWALS) * (c if way.endswith("blocks") else 1)
        if way in ("formed", "blocks"):
            dense = 4.0 * self.n_train * d * c * (1 if squared else CROSS[way])
            return self.columns(stored, self.tight) + factorizations * self.gram(self.n_train) + dense / DENSE
        count = (SQUARED if squared else CROSS)[way]
        # products with X and solves with H
        gradients = self.columns(2 * c * count, self.tight, c) + 4.0 * self.nonzeros * c * count / DENSE
        if way == "plain":
            return gradients
        if way == "exact":
            # with fewer rows than columns the preconditioner takes accurate rows as well
            accuracy = self.loose if self.n_train >= d else self.tight
            return self.columns(stored, accuracy) + factorizations * self.gram(self.n_train) + gradients
        mixed = d * self.n_train * (2 * math.log2(2 * self.n_train)) / SPARSE if squared else 0.0
        return self.columns(d, self.loose) + mixed + factorizations * self.gram(self.rows) + gradients

    @property
    def held_bytes(self) -> float:
        """Memory of F."""
        return float(self.n_train) * self.n_features * self.itemsize


def cheapest(sizes: Sizes, allowed: tuple[str, ...]) -> tuple[str, str]:
    """The way that is estimated to be the fastest, and why, in the words of who asks for one."""
    why = []
    if sizes.held_bytes > MEMORY and {"sketched", "plain"} & set(allowed):
        allowed = tuple(way for way in allowed if way.startswith(("sketched", "plain")))
        why.append(f"the propagated features would take {sizes.held_bytes / 2**30:.1f} GiB, more than {MEMORY / 2**30:g} GiB")
    estimates = {way: sizes.seconds(way) for way in allowed}
    best, *others = sorted(allowed, key=lambda way: estimates[way])
    if others:
        options = {way: f"{NAMES[sizes.loss].get(way, way)} {seconds:.2g} s" for way, seconds in estimates.items()}
        why.append(f"estimated on one core: {options[best]}; slower: {', '.join(options[way] for way in others)}")
    return best, "; ".join(why)
