"""The options of :func:`nareg.herta.fit` that need more than a name: model, loss, optimizer, preconditioner."""

from __future__ import annotations

from dataclasses import dataclass

from nareg._core import checks
from nareg.errors import InputError
from nareg.herta._features import Nodes
from nareg.herta._objective import LOSSES
from nareg.herta._system import OPERATORS, SOLVERS, checked_kind

#: The names of optimizers.
OPTIMIZERS = ("auto", "direct", "pcg", "lbfgs", "gd", "adam")


@dataclass(frozen=True)
class Unfolding:
    """The model ``Z* = (I + lam L)^-1 X W``. Pass it as ``lam`` to choose another L, unrolled steps, or a solver.

    Attributes
    ----------
    lam : float
        Strength of the graph, at least 0 (0: no graph).
    kind : {"augmented", "combinatorial", "operator"}
        ``L = I - D~^-1/2 (A + I) D~^-1/2``, or ``L = D - A``. With "operator", ``graph`` is L itself: a positive semidefinite
        matrix, for example the ``matrix`` of a :class:`~nareg.results.WeightDesign`.
    unrolled : int or None
        Number of gradient steps on the inner problem. They replace its solution, as in TWIRLS, and give another model.
    solver : {"auto", "chebyshev", "cg", "cholesky"}
        How systems with ``I + lam L`` are solved. "chebyshev": by a polynomial, whose degree grows with ``sqrt(lam)``.
        "cholesky": with an approximate Cholesky factor, whose steps hardly grow with lam, but take longer; on the CPU, for an L
        that has no positive entries beside its diagonal and no row sums below zero, or is augmented. "cg": by conjugate
        gradients, the fastest where lam is large and the graph has no bottleneck; features should be of full rank. "auto": the
        polynomial up to degree 150, above it the factor, or conjugate gradients where there is none.

    Raises
    ------
    InputError
        If a value is outside its range.

    Examples
    --------
    >>> import numpy as np, nareg
    >>> from nareg import herta
    >>> g, rng = nareg.graphs.grid((20, 20)), np.random.default_rng(0)
    >>> X, labels = rng.standard_normal((400, 10)), rng.integers(0, 3, 400)
    >>> herta.fit(g, X, labels, lam=herta.Unfolding(2.0, kind="combinatorial")).status.name
    'CONVERGED'
    """

    lam: float = 1.0
    kind: str = "augmented"
    unrolled: int | None = None
    solver: str = "auto"

    def __post_init__(self) -> None:
        checks.number("lam", self.lam, low=0)
        checked_kind(self.kind, OPERATORS)
        checks.choice("solver", self.solver, SOLVERS)
        if self.unrolled is not None:
            checks.integer("unrolled", self.unrolled, low=1)
            if self.solver != "auto":
                raise InputError(f"solver is {self.solver!r}, but unrolled steps solve nothing: leave one of them out.")


@dataclass(frozen=True)
class Regularized:
    """A loss plus ``weight_decay / 2 ||W||_F^2``. Pass it as ``loss``.

    Attributes
    ----------
    loss : {"mse", "ce"}
    weight_decay : float
        At least 0.

    Raises
    ------
    InputError
        If a value is outside its range.

    Examples
    --------
    >>> import numpy as np, nareg
    >>> from nareg import herta
    >>> g, rng = nareg.graphs.grid((20, 20)), np.random.default_rng(0)
    >>> X, labels = rng.standard_normal((400, 10)), rng.integers(0, 3, 400)
    >>> decayed = herta.fit(g, X, labels, loss=herta.Regularized("ce", weight_decay=10.0))
    >>> bool((decayed.weights**2).sum() < (herta.fit(g, X, labels, loss="ce").weights**2).sum())
    True
    """

    loss: str = "mse"
    weight_decay: float = 0.0

    def __post_init__(self) -> None:
        checks.choice("loss", self.loss, LOSSES)
        checks.number("weight_decay", self.weight_decay, low=0)


@dataclass(frozen=True)
class Sketched:
    """A sketched preconditioner with a number of rows.

    Pass it as ``preconditioner`` to ``fit``, or as ``how`` to ``precondition``.

    Attributes
    ----------
    rows : int or None
        Rows of the sketch; default 8 F. Fewer than twice the rank of the features make a poor preconditioner.

    Raises
    ------
    InputError
        If a value is outside its range.

    Examples
    --------
    >>> import numpy as np, nareg
    >>> from nareg import herta
    >>> g, rng = nareg.graphs.grid((20, 20)), np.random.default_rng(0)
    >>> X, labels = rng.standard_normal((400, 10)), rng.integers(0, 3, 400)
    >>> herta.fit(g, X, labels, optimizer="pcg", preconditioner=herta.Sketched(60), rng=rng).preconditioner
    'sketched'
    """

    rows: int | None = None

    def __post_init__(self) -> None:
        if self.rows is not None:
            checks.integer("rows", self.rows, low=1)


@dataclass(frozen=True)
class Optimizer:
    """An optimizer with its settings and its stopping rules. Pass it as ``optimizer``.

    Attributes
    ----------
    name : str
        As in :func:`nareg.herta.fit`.
    learning_rate : float or None
        Of "gd" and "adam", in preconditioned coordinates. Default of "gd": from the estimated ends of the spectrum, or a line
        search where the preconditioner is renewed. Default of "adam": 0.1, and 0.01 without preconditioner.
    dropout : float
        Share of the features that "gd" and "adam" leave out, drawn anew at every step.
    tol : float or None
        In (0, 1); default 1e-8, and 1e-4 in float32. The run converges when the loss is within ``tol`` times itself of its
        minimum. The distance is estimated with a preconditioner (``<g, P^-1 g> / 2``, with a safety factor of ten). A run
        without one builds it when four steps lower the loss by less than that and the gradient, for columns of length one, is
        below ``sqrt(tol)`` times the first. If the distance is still large, training continues, with that preconditioner for
        ``preconditioner="auto"``.
    inner_tol : float or None
        Relative error of the solves behind values and gradients. Default ``sqrt(tol) / (50 kappa max(lam, 1))`` after
        Lemma 5.1, with ``kappa = 10``, or what rounding allows.
    max_iterations : int
        Iterations of "pcg", evaluations of the others.
    stop_below : float or None
        Stop when the loss is at most this.
    validation : (n,) indices or (N,) mask, optional
        Nodes with labels at which the accuracy is measured. The weights with the best accuracy are returned.
    patience : int
        Number of steps without a better validation accuracy after which training stops.

    Raises
    ------
    InputError
        If a value is outside its range.

    Examples
    --------
    >>> import numpy as np, nareg
    >>> from nareg import herta
    >>> g, rng = nareg.graphs.grid((20, 20)), np.random.default_rng(0)
    >>> X, labels = rng.standard_normal((400, 10)), rng.integers(0, 3, 400)
    >>> short = herta.fit(g, X, labels, loss="ce", optimizer=herta.Optimizer("adam", learning_rate=0.05, max_iterations=9))
    >>> short.status.name, short.losses.size
    ('MAX_ITERATIONS', 10)
    """

    name: str = "auto"
    learning_rate: float | None = None
    dropout: float = 0.0
    tol: float | None = None
    inner_tol: float | None = None
    max_iterations: int = 1000
    stop_below: float | None = None
    validation: Nodes | None = None
    patience: int = 20

    def __post_init__(self) -> None:
        checks.choice("optimizer", self.name, OPTIMIZERS)
        if self.learning_rate is not None:
            checks.number("learning_rate", self.learning_rate, low=0, strict=True)
        for name, value in (("tol", self.tol), ("inner_tol", self.inner_tol)):
            if value is not None:
                fraction(name, value)
        if self.stop_below is not None:
            checks.number("stop_below", self.stop_below)
        checks.integer("max_iterations", self.max_iterations, low=1)
        checks.integer("patience", self.patience, low=1)
        if checks.number("dropout", self.dropout, low=0) >= 1:
            raise InputError(f"dropout is {self.dropout!r}: it must be below 1, or no feature is left.")


def fraction(name: str, value: float) -> float:
    """A number in (0, 1)."""
    number = checks.number(name, value)
    if not 0 < number < 1:
        raise InputError(f"{name} is {value!r}, it must be above 0 and below 1.")
    return number
