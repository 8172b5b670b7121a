"""Train the weights of an unfolded graph network ``Z* = (I + lam L)^-1 X W`` to its optimum."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch

from nareg import _checks
from nareg.errors import InputError
from nareg.herta._model.losses import SquaredError
from nareg.herta._model.unfolded import Dropped, Formed, Implicit, form
from nareg.herta._precondition import build
from nareg.herta._precondition.preconditioner import SKETCH, GramFactor, Preconditioner
from nareg.herta._train import algorithm1, cost_model, optimizers
from nareg.herta._train.inputs import TrainingInputs, node_index, read
from nareg.herta._train.loop import SAFETY, Curve, Rules, run
from nareg.herta._train.objective import TrainingProblem
from nareg.herta._train.optimizers import Refresh, Step
from nareg.herta._train.options import Optimizer, Regularized, Sketched, Unfolding
from nareg.herta._train.plan import PRECONDITIONERS, Plan, choose_plan
from nareg.herta._train.remaining_gap import Proof
from nareg.herta._train.result import TrainingResult
from nareg.herta._train.spectrum import Ritz, bent, spectrum
from nareg.progress import ProgressCallback
from nareg.results import Status

#: Those whose loss falls with every step.
MONOTONE = ("direct", "pcg", "lbfgs")
#: Learning rates where none is given: Adam's in W', plain Adam's, and the share of 2 / (L + mu) of gradient descent.
ADAM, PLAIN_ADAM, SAFE = 0.1, 0.01, 0.95
#: A converged run whose gap, by accurate solves, is above so many times its tolerance was stopped by its inner solves.
UNNOTICED = 10.0
#: Directions in which a formed F is shorter than this times eps are rounding.
ROUNDED = 100.0
#: Of the loss, relative, where none is given.
TOLERANCES = {torch.float64: 1e-8, torch.float32: 1e-4}
#: Outputs are equal to targets to within so many times the accuracy of the inner solves.
REACHED = 5.0
#: Bound of the condition number behind the accuracy of inner solves where it is not estimated.
CONDITION = 10.0


def fit(
    graph: Any,
    features: Any,
    targets: Any,
    *,
    lam: float | Unfolding = 1.0,
    train: Any = None,
    loss: str | Regularized = "mse",
    optimizer: str | Optimizer = "auto",
    preconditioner: str | Sketched | Preconditioner = "auto",
    device: Any = None,
    dtype: Any = None,
    rng: np.random.Generator | None = None,
    progress: ProgressCallback | None = None,
) -> TrainingResult:
    """Minimize ``loss(Z*, targets)`` at the training nodes over W, with ``Z* = (I + lam L)^-1 X W``.

    Parameters
    ----------
    graph : Graph, Adjacency, SciPy or torch sparse (N, N), or ``edge_index`` (2, E)
    features : (N, F) SciPy sparse, NumPy array or torch tensor
        X.
    targets : (N,) integer labels, or for ``loss="mse"`` also (N, C) numbers
        Labels count as rows of the identity for ``loss="mse"``. What is not trained on may hold -1, or NaN.
    lam : float or Unfolding
        Strength of the graph, at least 0 (0: no graph). An :class:`Unfolding` says which Laplacian too, and how many steps.
    train : (n,) indices or (N,) mask, optional
        Nodes whose targets count; default all.
    loss : {"mse", "ce"} or Regularized
        ``1/2 ||Z - Y||_F^2`` or softmax cross-entropy, both summed over the training nodes. A :class:`Regularized` adds weight
        decay.
    optimizer : {"auto", "direct", "pcg", "lbfgs", "gd", "adam", "algorithm-1", "algorithm-1-as-printed"} or Optimizer
        "direct" (mse): ``F = M H^-1 X`` and a Cholesky factorization of its Gram matrix. "pcg" (mse): preconditioned conjugate
        gradients. "lbfgs", "gd", "adam": in preconditioned coordinates. "auto": the cheaper of "direct" and "pcg" by estimate
        (mse), or "lbfgs" (ce). "algorithm-1" (mse): the paper's, corrected or as printed, with its sparsifier, its sketch and
        gradient descent. An :class:`Optimizer` has learning rate, dropout, tolerances and validation, too.
    preconditioner : {"auto", "exact", "blocks", "sketched", "none"}, Sketched or Preconditioner
        "exact": the Gram matrix of F. For cross-entropy it is weighted by the second derivatives, and renewed when these have
        changed (not with dropout, where they are not known). "blocks" (ce): one per output. It takes fewer evaluations but one
        factorization per class. "sketched": from rows of a randomized Hadamard transform of F (mse), or from random rows of it
        (ce); F itself is never stored. A :class:`Sketched` says how many rows. "none": a baseline.
        One that :func:`precondition` built serves many runs with "pcg", "gd" and "adam", those of a grid of learning rates for
        example. How near it is to the loss at hand is not known, and convergence is judged by another.
    device : str, optional
        "cpu" or "cuda"; default: where the features are.
    dtype : optional
        float64 (default) or float32.
    rng : numpy.random.Generator, optional
        For sketches and the estimated spectrum; default ``numpy.random.default_rng(0)``.
    progress : callable, optional
        Called with a :class:`~nareg.progress.Progress` per step, with the loss.

    Returns
    -------
    TrainingResult

    Raises
    ------
    InputError

    References
    ----------
    HERTA, Algorithm 1 with the corrections of the errata; D.11 for cross-entropy.

    Examples
    --------
    >>> import numpy as np, nareg
    >>> from nareg import herta
    >>> rng = np.random.default_rng(0)
    >>> g = nareg.graphs.grid((20, 20))
    >>> X, labels = rng.standard_normal((400, 10)), rng.integers(0, 3, 400)
    >>> result = herta.fit(g, X, labels, train=np.arange(300), loss="ce")
    >>> result.status.name, result.losses.size - 1, round(result.loss, 3)  # steps, loss
    ('CONVERGED', 6, 319.831)
    """
    clock = time.perf_counter()
    unfolding = lam if isinstance(lam, Unfolding) else Unfolding(lam)
    objective = loss if isinstance(loss, Regularized) else Regularized(loss)
    options = optimizer if isinstance(optimizer, Optimizer) else Optimizer(optimizer)
    sketch = preconditioner if isinstance(preconditioner, Sketched) else Sketched()
    if preconditioner is sketch:  # Algorithm 1 is always sketched, and takes no other preconditioner
        preconditioner = "auto" if options.name.startswith("algorithm-1") else "sketched"
    if not isinstance(preconditioner, Preconditioner):
        preconditioner = _checks.choice("preconditioner", preconditioner, PRECONDITIONERS)
    if progress is not None and not callable(progress):
        raise InputError(f"progress is {progress!r}: a function of one nareg.progress.Progress is expected.")
    rng = np.random.default_rng(0) if rng is None else _checks.generator(rng)
    task = read(
        graph, features, targets, loss=objective.loss, weight_decay=objective.weight_decay, lam=unfolding.lam,
        kind=unfolding.kind, unrolled=unfolding.unrolled, train=train, device=device, dtype=dtype,
    )  # fmt: skip
    accuracy = _accuracy(task, options, sketch)
    plan = choose_plan(
        task, options.name, preconditioner, dropout=options.dropout, rows=accuracy.rows, inner_tol=accuracy.inner_tol
    )
    timings = {"checks": time.perf_counter() - clock}
    return _train(task, plan, preconditioner, options, accuracy, rng, clock, timings, progress)


@dataclass(frozen=True)
class _Accuracy:
    """Tolerances of the loss and of the inner solves, and the rows of a sketch."""

    tol: float
    inner_tol: float
    rows: int


def _accuracy(task: TrainingInputs, options: Optimizer, sketch: Sketched) -> _Accuracy:
    """What was asked for, or what suits dtype, size and rounding."""
    tol = TOLERANCES[task.features.dtype] if options.tol is None else options.tol
    d = task.features.shape[1]
    # as many as fit, but more than the rank
    fitting = max(2 * d, int(cost_model.MEMORY // (d * task.like.element_size())))
    rows = min(SKETCH * d, fitting) if sketch.rows is None else _checks.integer("rows", sketch.rows, low=1)
    floor = task.system.floor
    if options.inner_tol is None:
        return _Accuracy(tol, max(math.sqrt(tol) / (50 * CONDITION * max(task.system.lam, 1.0)), floor), rows)
    if options.inner_tol < floor:
        raise InputError(
            f"inner_tol is {options.inner_tol:g} but rounding in {task.features.dtype} allows {floor:.1g} at best here."
        )
    return _Accuracy(tol, options.inner_tol, rows)


def _train(
    task: TrainingInputs, plan: Plan, preconditioner: str | Preconditioner, options: Optimizer, accuracy: _Accuracy,
    rng: np.random.Generator, clock: float, timings: dict[str, float], progress: ProgressCallback | None,
) -> TrainingResult:  # fmt: skip
    """Build, step until a rule ends it, and report."""
    rows, inner_tol, dropout = accuracy.rows, accuracy.inner_tol, options.dropout
    built = time.perf_counter()
    refresh: build.WeightedGram | None = None
    model: Implicit | Formed
    P: Preconditioner
    if plan.optimizer.startswith("algorithm-1"):
        printed = plan.optimizer.endswith("as-printed")
        problem, P = algorithm1.prepare(task, rows=rows, tol=inner_tol, printed=printed, rng=rng)
    else:
        if isinstance(preconditioner, Preconditioner):
            model, P = Implicit(task.system, task.features, task.train), preconditioner
        else:
            model, P, refresh = _build(task, plan, rows, inner_tol, rng)
        if dropout and isinstance(model, Implicit):
            model = Dropped(model, dropout, torch.Generator().manual_seed(int(rng.integers(2**63 - 1))))
        problem = TrainingProblem(model, task.loss, task.features, weight_decay=task.weight_decay, tol=inner_tol)
    timings["build"] = time.perf_counter() - built
    proof = Proof(task, rows, inner_tol, go_on=preconditioner == "auto", rng=rng)
    follows = proof if plan.preconditioner == "none" and plan.optimizer == "lbfgs" else refresh
    # outputs without some of the features tell nothing of the curvature at W
    steps, condition = _method(problem, plan, P, None if dropout else follows, task, options.learning_rate, rng)
    steps = (_with_proof(step, problem, proof, accuracy.tol, given=plan.given) for step in steps)
    watched = None if options.validation is None else _watched(task, options.validation, inner_tol)
    rules = Rules(
        loss=task.loss, tol=accuracy.tol, zero=max(accuracy.tol, REACHED * inner_tol), max_steps=options.max_iterations,
        stop_below=options.stop_below, patience=options.patience, bounded=task.weight_decay > 0,
        monotone=plan.optimizer in MONOTONE, random=dropout > 0,
    )  # fmt: skip
    curve = run(steps, rules, watched=watched, clock=clock, progress=progress)
    timings["steps"] = time.perf_counter() - built - timings["build"]
    return _result(task, plan, problem, P, refresh, proof, curve, condition(), rules, timings)


def _with_proof(step: Step, problem: TrainingProblem, proof: Proof, tol: float, *, given: bool) -> Step:
    """A step whose gap is asked for where its method does not know it."""
    if step.gap is not None and not given:
        return step

    def confirmed() -> float | None:
        loss, gradient, Z = problem.evaluate(step.W)
        return proof.gap(Z, gradient, tol * loss / SAFETY)

    return replace(step, gap=None, confirmed=confirmed)


def _build(
    task: TrainingInputs, plan: Plan, rows: int, tol: float, rng: np.random.Generator
) -> tuple[Implicit | Formed, Preconditioner, build.WeightedGram | None]:
    """The map J, the preconditioner at the start, and how it is kept fresh."""
    model = Implicit(task.system, task.features, task.train)
    if plan.preconditioner == "none" and not plan.formed:
        return model, Preconditioner(), None
    n_train, decay = task.train.numel(), task.weight_decay
    sketch = plan.preconditioner == "sketched"
    if plan.optimizer == "direct":
        F = form(task.system, task.features, task.train, tol=tol)
        # conjugate gradients with a preconditioner next to exact: one step, and refinement of what the ridge took
        factor = GramFactor(F, ridge=(ROUNDED * torch.finfo(F.dtype).eps) ** 2, weight_decay=decay)
        return Formed(F), Preconditioner([factor], "none", F.shape[0], within=True), None
    if isinstance(task.loss, SquaredError):
        P = build.squared(
            task.system, task.features, task.train, rows=rows if sketch else None, tight=tol, weight_decay=decay, rng=rng
        )
        return model, P, None
    size = min(rows, n_train) if sketch else n_train
    part = torch.as_tensor(np.sort(rng.choice(n_train, size, replace=False)), device=task.train.device)
    if plan.formed:
        F = form(task.system, task.features, task.train, tol=tol)
    else:
        F = build.propagated(task.system, task.features, task.train[part], tight=tol)
        build.check_sketch(task.system, task.features, task.train, F, rng=rng)
    renew = build.WeightedGram(
        F, part, n_train, task.loss, weight_decay=decay, kind=plan.preconditioner, by_output=plan.by_output
    )
    first = renew(torch.zeros((n_train, task.loss.n_outputs), dtype=F.dtype, device=F.device))
    return Formed(F) if plan.formed else model, first, renew


def _method(
    problem: TrainingProblem,
    plan: Plan,
    P: Preconditioner,
    refresh: Refresh | None,
    task: TrainingInputs,
    learning_rate: float | None,
    rng: np.random.Generator,
) -> tuple[Iterator[Step], Callable[[], float | None]]:
    """The optimizer's steps, and the condition number where they tell it."""
    W = problem.zeros(task.like)
    if plan.optimizer in ("pcg", "direct"):
        ritz = Ritz()
        steps = optimizers.conjugate_gradients(problem, P, W, ritz, fresh=plan.optimizer == "direct")
        return steps, ritz.condition if plan.optimizer == "pcg" else _unknown
    if plan.optimizer == "lbfgs":
        return optimizers.lbfgs(problem, P, W, refresh=refresh), _unknown
    if plan.optimizer == "adam":
        rate = learning_rate or (ADAM if P.factors else PLAIN_ADAM)
        return optimizers.adam(problem, P, W, lr=rate, refresh=refresh), _unknown
    if learning_rate is not None:
        return optimizers.gradient_descent(problem, P, W, step=learning_rate, refresh=refresh), _unknown
    if refresh is not None:
        return optimizers.searched_descent(problem, P, W, refresh=refresh), _unknown
    seed = torch.Generator().manual_seed(int(rng.integers(2**63 - 1)))
    Z = torch.zeros((task.train.numel(), task.loss.n_outputs), dtype=W.dtype, device=W.device)
    values = bent(spectrum(problem, Z, P, generator=seed), W.dtype)
    if values.numel() == 0:  # features that are zero wherever it matters: any step does
        return optimizers.gradient_descent(problem, P, W, step=1.0), _unknown
    low, high = float(values.min()), float(values.max())
    # the squared error's spectrum stays what it is; cross-entropy's second derivative is (I - 1 1^T / C) / C at W = 0 and
    # never above (I - 1 1^T / C) / 2 (Bohning 1992)
    squared = isinstance(task.loss, SquaredError)
    step = SAFE * 2 / (low + high) if squared else SAFE * 2 / (task.loss.n_outputs * high)
    return optimizers.gradient_descent(problem, P, W, step=step), lambda: high / low


def _unknown() -> None:
    """No condition number is available."""


def _watched(task: TrainingInputs, validation: Any, tol: float) -> Callable[[torch.Tensor], float]:
    """Accuracy at the validation nodes, as a function of W."""
    nodes = torch.as_tensor(node_index("validation", validation, task.system.n_nodes), device=task.train.device)
    if task.labels is None:
        raise InputError("validation needs classes: pass labels, or one-hot rows, as targets.")
    if bool((task.labels[nodes] < 0).any()):
        raise InputError("validation names a node whose label is not known (-1): leave it out.")
    model, labels = Implicit(task.system, task.features, nodes), task.labels[nodes]
    return lambda W: float((model.apply(W, max(tol, 1e-4), again=True).argmax(1) == labels).double().mean())


def _result(
    task: TrainingInputs,
    plan: Plan,
    problem: TrainingProblem,
    P: Preconditioner,
    refresh: build.WeightedGram | None,
    proof: Proof,
    curve: Curve,
    condition: float | None,
    rules: Rules,
    timings: dict[str, float],
) -> TrainingResult:
    """Everything that is reported; loss, gradient and gap computed anew from the returned weights, by accurate solves.

    In double precision, whatever the training was in.
    """
    began = time.perf_counter()
    system, features, W = task.system.doubled(), task.features.doubled(), curve.W.double()
    before, tight = system.products, max(problem.tol * 1e-2, system.floor)
    Z = system.solve(features.times(W), tol=tight)
    outputs = Z[task.train]
    value = task.loss.value(outputs) + 0.5 * task.weight_decay * float((W**2).sum())
    pulled = Implicit(system, features, task.train).adjoint(task.loss.gradient(outputs), tight)
    gradient = pulled + task.weight_decay * W
    rank = None if plan.given or task.weight_decay or plan.optimizer.startswith("algorithm-1") else P.rank
    if refresh is not None:
        P = refresh.anew(outputs.to(curve.W.dtype))
    known = bool(P.factors) and not plan.given
    estimate = P.gap(gradient) if known else None
    if not known and curve.status is Status.CONVERGED:
        estimate = proof.gap(outputs.to(curve.W.dtype), gradient, rules.tol * value)
    gap = None if estimate is None else min(estimate, value)  # no loss is below zero
    status = curve.status
    if not rules.random and (curve.W_is_last or curve.validation is None):
        status = _borne_out(status, value, gap, task.loss.separated(outputs), curve, rules)
    elsewhere = problem.elsewhere + (system.products - before if system is not task.system else 0)
    timings["outputs"] = time.perf_counter() - began
    losses = np.array(curve.losses)
    if curve.W_is_last:
        losses[-1] = value
    return TrainingResult(
        weights=task.returned(curve.W),
        outputs=task.returned(Z.to(curve.W.dtype)),
        loss=value,
        losses=losses,
        seconds=np.array(curve.seconds),
        status=status,
        optimizer=plan.optimizer,
        preconditioner=plan.preconditioner,
        reason=plan.reason + ("; then the exact one, because the gradient said too little" if proof.taken else ""),
        condition=condition,
        gap=gap,
        gradient_norm=float(gradient.norm()),
        rank=rank,
        evaluations=problem.evaluations,
        hessian_products=problem.hessian_products,
        products=task.system.products + elsewhere,
        validation=None if curve.validation is None else np.array(curve.validation),
        lam=task.system.lam,
        timings=timings,
    )


def _borne_out(
    status: Status,
    value: float,
    gap: float | None,
    separated: bool,
    curve: Curve,
    rules: Rules,
) -> Status:
    """The status, or that training stalled where accurate solves say that it is not at its end."""
    holds = True
    if status is Status.ZERO_LOSS:
        holds = value <= rules.tol * curve.losses[0]
    elif status is Status.SEPARABLE:
        holds = separated and value <= UNNOTICED * rules.tol * curve.losses[0]
    elif status is Status.TARGET_REACHED and rules.stop_below is not None:
        holds = value <= rules.stop_below + UNNOTICED * rules.tol * abs(value)
    elif status is Status.CONVERGED:
        holds = gap is not None and gap <= UNNOTICED * rules.tol * value
    return status if holds else Status.STALLED
