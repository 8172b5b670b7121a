"""Choose how to train: accuracy, optimizer and preconditioner, and refuse what does not go together."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch

from nareg.errors import InputError
from nareg.herta._model.losses import SquaredError
from nareg.herta._precondition.preconditioner import SKETCH, Preconditioner
from nareg.herta._train import cost_model
from nareg.herta._train.inputs import TrainingInputs
from nareg.herta._train.options import Optimizer, Sketched

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
    fitting = max(2 * d, int(cost_model.MEMORY // (d * task.features.itemsize)))
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
    sizes = cost_model.Sizes(
        task.system, task.features, task.loss.name, n_train, n_outputs, rows=accuracy.rows, tight=accuracy.inner_tol
    )
    strategy, reason = cost_model.cheapest(sizes, strategies)
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
