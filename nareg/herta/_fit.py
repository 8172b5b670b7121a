"""Train the weights of an unfolded graph network ``Z* = (I + lam L)^-1 X W`` to its optimum."""

from __future__ import annotations

import time

import numpy as np

from nareg._core import checks
from nareg.errors import InputError
from nareg.gnn.adjacency import GraphInput
from nareg.herta._features import Device, Matrix, Nodes, Precision
from nareg.herta._inputs import read
from nareg.herta._loop import run
from nareg.herta._method import TrainingMethod
from nareg.herta._options import Optimizer, Regularized, Sketched, Unfolding
from nareg.herta._plan import PRECONDITIONERS, choose_accuracy, choose_plan
from nareg.herta._preconditioner import Preconditioner
from nareg.herta._result import TrainingResult, report
from nareg.io import takes_tables
from nareg.progress import ProgressCallback


@takes_tables(rows=("features", "targets"))
def fit(
    graph: GraphInput,
    features: Matrix,
    targets: Matrix,
    *,
    lam: float | Unfolding = 1.0,
    train: Nodes | None = None,
    loss: str | Regularized = "mse",
    optimizer: str | Optimizer = "auto",
    preconditioner: str | Sketched | Preconditioner = "auto",
    device: Device | None = None,
    dtype: Precision | None = None,
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
        ``loss="mse"`` takes labels as rows of the identity. Nodes outside ``train`` may hold -1 or NaN.
    lam : float or Unfolding
        Strength of the graph, at least 0 (0: no graph). An :class:`Unfolding` also chooses the Laplacian and unrolled steps.
    train : (n,) indices or (N,) mask, optional
        Nodes whose targets count; default all.
    loss : {"mse", "ce"} or Regularized
        ``1/2 ||Z - Y||_F^2`` or softmax cross-entropy, both summed over the training nodes. A :class:`Regularized` adds weight
        decay.
    optimizer : {"auto", "direct", "pcg", "lbfgs", "gd", "adam"} or Optimizer
        "direct" (mse): ``F = M H^-1 X`` and a Cholesky factorization of its Gram matrix. "pcg" (mse): preconditioned conjugate
        gradients. "lbfgs", "gd", "adam": in preconditioned coordinates. "auto": the cheaper of "direct" and "pcg" by estimate
        (mse), or "lbfgs" (ce). An :class:`Optimizer` sets learning rate, dropout, tolerances and validation.
    preconditioner : {"auto", "exact", "blocks", "sketched", "none"}, Sketched or Preconditioner
        "exact": the Gram matrix of F. For cross-entropy it is weighted by the second derivatives, and renewed when these have
        changed (except with dropout). "blocks" (ce): one per output, which takes fewer evaluations but one factorization per
        class. "sketched": from rows of a randomized Hadamard transform of F (mse), or from random rows of it (ce); F itself is
        never stored. A :class:`Sketched` sets the number of rows. "none": a baseline.
        A :class:`Preconditioner` from :func:`precondition` serves many runs of "pcg", "gd" and "adam", for example a grid of
        learning rates. Its distance from the Hessian is not known, so another one judges convergence.
    device : str, optional
        "cpu" or "cuda"; default: the device of the features.
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
        If an argument is wrong, or two do not go together.

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
    if preconditioner is sketch:
        preconditioner = "sketched"
    if not isinstance(preconditioner, Preconditioner):
        preconditioner = checks.choice("preconditioner", preconditioner, PRECONDITIONERS)
    if progress is not None and not callable(progress):
        raise InputError(f"progress is {progress!r}: pass a function of one nareg.progress.Progress.")
    rng = checks.generator(rng)
    task = read(graph, features, targets, unfolding, objective, train=train, device=device, dtype=dtype)
    accuracy = choose_accuracy(task, options, sketch)
    plan = choose_plan(task, options, preconditioner, accuracy)
    validation = None if options.validation is None else task.accuracy_at(options.validation, accuracy.inner_tol)
    checked = time.perf_counter()
    method = TrainingMethod(task, plan, accuracy, options, preconditioner, rng=rng)
    built = time.perf_counter()
    curve = run(method, validation=validation, clock=clock, progress=progress)
    timings = {"checks": checked - clock, "build": built - checked, "steps": time.perf_counter() - built}
    return report(method, curve, timings)
