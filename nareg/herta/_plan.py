"""Choose how to train: accuracy, optimizer and preconditioner, and refuse what does not go together.

The fastest way to train is estimated from sizes before anything is computed. Strategies to the same optimum, with the
propagated features of the training nodes ``F = M H^-1 X``:

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

import torch

from nareg.errors import InputError
from nareg.herta._features import Features
from nareg.herta._inputs import TrainingInputs
from nareg.herta._objective import BLOCK, SquaredError
from nareg.herta._options import Optimizer, Sketched
from nareg.herta._preconditioner import SKETCH, TOLERANCE, Preconditioner
from nareg.herta._system import System

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


PRECONDITIONERS = ("auto", "exact", "blocks", "sketched", "none")
#: Optimizers for the squared error only, and those that take a stochastic loss.
SQUARED_ONLY, STOCHASTIC = ("direct", "pcg"), ("gd", "adam")
#: Fewer training nodes per feature can be separated whatever their labels (Cover 1965). Cross-entropy falls to nearly zero, and
#: plain L-BFGS is faster than building a preconditioner for so many features (to 1e-6 of the start, one core: Cora, lam = 1,
#: 31 evaluations in 0.1 s against 31 in 0.5 s; lam = 20, 84 in 0.4 s against 35 in 0.6 s; Citeseer 3 s more).
SEPARABLE = 2
#: Column lengths within this factor slow plain methods down little.
SIMILAR = 100.0
#: Default relative tolerances of the loss.
TOLERANCES = {torch.float64: 1e-8, torch.float32: 1e-4}
#: Bound of the condition number behind the default accuracy of inner solves.
CONDITION = 10.0


@dataclass(frozen=True)
class Accuracy:
    """Tolerances of the loss and of the inner solves, and the rows of a sketch."""

    tol: float
    inner_tol: float
    rows: int


def choose_accuracy(task: TrainingInputs, options: Optimizer, sketch: Sketched) -> Accuracy:
    """The requested accuracy, or one that suits dtype, size and rounding."""
    tol = TOLERANCES[task.features.dtype] if options.tol is None else options.tol
    d = task.features.shape[1]
    # as many as memory holds, but more than the rank
    fitting = max(2 * d, int(MEMORY // (d * task.features.itemsize)))
    rows = min(SKETCH * d, fitting) if sketch.rows is None else sketch.rows
    floor = task.system.floor
    if options.inner_tol is None:
        return Accuracy(tol, max(math.sqrt(tol) / (50 * CONDITION * max(task.system.lam, 1.0)), floor), rows)
    if options.inner_tol < floor:
        raise InputError(
            f"inner_tol is {options.inner_tol:g} but rounding in {task.features.dtype} allows {floor:.1g} at best: pass more."
        )
    return Accuracy(tol, options.inner_tol, rows)


@dataclass(frozen=True)
class Plan:
    """How to train, and why.

    ``formed``: ``F = M H^-1 X`` is computed to full accuracy. ``by_output``: one preconditioner per output. ``given``: the
    preconditioner was built before.
    """

    optimizer: str
    preconditioner: str
    formed: bool
    reason: str = ""
    by_output: bool = False
    given: bool = False


def choose_plan(task: TrainingInputs, options: Optimizer, preconditioner: str | Preconditioner, accuracy: Accuracy) -> Plan:
    """A plan; what the user left open is chosen by estimated cost."""
    optimizer, dropout = options.name, options.dropout
    squared, d = isinstance(task.loss, SquaredError), task.features.shape[1]
    if optimizer in SQUARED_ONLY and not squared:
        raise InputError(f"optimizer is {optimizer!r}, which needs loss='mse': take 'lbfgs' for cross-entropy.")
    if dropout and optimizer not in STOCHASTIC:
        raise InputError(f"dropout is {dropout!r} but {optimizer!r} needs the same loss at every step: take 'adam' or 'gd'.")
    if optimizer == "direct":
        if preconditioner != "auto":
            value = "a Preconditioner" if isinstance(preconditioner, Preconditioner) else repr(preconditioner)
            raise InputError(f"optimizer={optimizer!r} takes no preconditioner, but preconditioner is {value}: leave it out.")
        return Plan(optimizer, "none", True)
    iterative = optimizer if optimizer != "auto" else ("pcg" if squared else "lbfgs")
    if isinstance(preconditioner, Preconditioner):
        _check_fit(preconditioner, task, iterative)
        return Plan(iterative, preconditioner.kind, False, given=True)
    if preconditioner == "none":
        return Plan(iterative, "none", False)
    few = task.train.numel() < SEPARABLE * d
    if iterative == "lbfgs" and preconditioner == "auto" and not squared and few and _is_easy(task):
        why = "fewer than two training nodes per feature: the loss is nearly zero before a preconditioner is built"
        return Plan(iterative, "none", False, why)
    if preconditioner == "blocks" and squared:
        raise InputError("preconditioner is 'blocks', but with loss='mse' those of all outputs are equal: take 'exact'.")
    strategies = {
        "auto": ("formed", "blocks", "exact", "sketched", "sketched-blocks", "plain"), "exact": ("formed", "exact"),
        "blocks": ("blocks",), "sketched": ("sketched", "sketched-blocks"),
    }[preconditioner]  # fmt: skip
    if squared:
        strategies = tuple(strategy for strategy in strategies if strategy in ("formed", "exact", "sketched"))
    if dropout or (squared and not (optimizer == preconditioner == "auto")):
        # dropout changes F at every step; for the squared error F to full accuracy leaves nothing to iterate
        strategies = tuple(strategy for strategy in strategies if strategy != "formed")
    n_train, n_outputs = task.train.numel(), task.loss.n_outputs
    sizes = Sizes(task.system, task.features, task.loss.name, n_train, n_outputs, rows=accuracy.rows, tight=accuracy.inner_tol)
    strategy, reason = cheapest(sizes, strategies)
    if squared and strategy == "formed":
        return Plan("direct", "none", True, reason)
    name = {"formed": "exact", "plain": "none", "sketched-blocks": "sketched"}.get(strategy, strategy)
    return Plan(
        iterative, name, not dropout and strategy in ("formed", "blocks"), reason, by_output=strategy.endswith("blocks")
    )


def _check_fit(P: Preconditioner, task: TrainingInputs, optimizer: str) -> None:
    """Refuse a preconditioner that was built for other features, or that would have to be renewed."""
    if optimizer == "lbfgs":
        raise InputError(
            "preconditioner is a Preconditioner, but 'lbfgs' builds and renews its own: take optimizer='adam' or 'gd', or "
            "leave preconditioner out."
        )
    own, wanted = (P.n_features, P.dtype, P.device), (task.features.shape[1], task.features.dtype, task.features.device)
    if own != wanted:
        raise InputError(
            f"preconditioner is for {own[0]} features in {own[1]} on {own[2]}, but these are {wanted[0]} in {wanted[1]} on "
            f"{wanted[2]}: build it from the same features, dtype and device."
        )


def _is_easy(task: TrainingInputs) -> bool:
    """Whether a few plain steps separate the classes of a few nodes: no weight decay, columns of similar length."""
    lengths = task.features.lengths()
    lengths = lengths[lengths > 0]
    return task.weight_decay == 0 and (lengths.numel() == 0 or float(lengths.max()) < SIMILAR * float(lengths.min()))
