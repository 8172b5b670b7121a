"""What :func:`nareg.herta.fit` can be told beyond a name: model, loss, optimizer, preconditioner."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from nareg import _checks
from nareg.errors import InputError
from nareg.herta._model.losses import LOSSES
from nareg.herta._model.system import OPERATORS, checked_kind

#: The names of optimizers.
OPTIMIZERS = ("auto", "direct", "pcg", "lbfgs", "gd", "adam", "algorithm-1", "algorithm-1-as-printed")


@dataclass(frozen=True)
class Unfolding:
    """The model ``Z* = (I + lam L)^-1 X W``, in the place of ``lam=`` where its strength alone does not say which.

    Attributes
    ----------
    lam : float
        Strength of the graph, at least 0 (0: no graph).
    kind : {"augmented", "combinatorial", "operator"}
        ``L = I - D~^-1/2 (A + I) D~^-1/2``, or ``D - A``, or ``graph`` is the positive semidefinite matrix L itself: the
        ``matrix`` of a :class:`~nareg.results.WeightDesign`, say.
    unrolled : int or None
        This number of gradient steps of the inner problem in the place of its solution, as TWIRLS is trained: another model.

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

    def __post_init__(self) -> None:
        _checks.number("lam", self.lam, low=0)
        checked_kind(self.kind, OPERATORS)
        if self.unrolled is not None:
            _checks.integer("unrolled", self.unrolled, low=1)


@dataclass(frozen=True)
class Regularized:
    """A loss with ``weight_decay / 2 ||W||_F^2`` added, in the place of its name.

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
        _checks.choice("loss", self.loss, LOSSES)
        _checks.number("weight_decay", self.weight_decay, low=0)


@dataclass(frozen=True)
class Sketched:
    """The sketched preconditioner with a number of rows, in the place of ``"sketched"``, in ``fit`` and in ``precondition``.

    Algorithm 1 takes it too, for its own sketch.

    Attributes
    ----------
    rows : int or None
        Rows of the sketch; default 8 F. With little more than F has rank the preconditioner is a poor one.

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
            _checks.integer("rows", self.rows, low=1)


@dataclass(frozen=True)
class Optimizer:
    """An optimizer and when it stops, in the place of its name.

    Attributes
    ----------
    name : str
        As in :func:`nareg.herta.fit`.
    learning_rate : float or None
        Of "gd" and "adam", in preconditioned coordinates. Default: for "gd" from the estimated ends of the spectrum, or where
        the preconditioner is renewed by a line search; for "adam" 0.1 (0.01 without preconditioner).
    dropout : float
        Share of the features that "gd" and "adam" leave out, others at every step.
    tol : float or None
        In (0, 1), default 1e-8, in float32 1e-4. Converged when the loss is within ``tol`` times itself of its minimum, as the
        preconditioner estimates it (``<g, P^-1 g> / 2``, with a margin of ten). Without one, when four steps lowered the loss
        by less than that and the gradient, for columns of length one, is below ``sqrt(tol)`` times the first, one is made to
        tell. Where it says that much is left to gain, training goes on: with it for ``preconditioner="auto"``.
    inner_tol : float or None
        Error of the solves behind values and gradients, relative. Default ``sqrt(tol) / (50 kappa max(lam, 1))`` after
        Lemma 5.1, with ``kappa = 10``, or what rounding allows.
    max_iterations : int
        Iterations of "pcg", evaluations of the others.
    stop_below : float or None
        Stop once the loss is at most this.
    validation : (n,) indices or (N,) mask, optional
        Nodes with labels at which the accuracy is watched; the weights with the best are returned, however training ended.
    patience : int
        Steps without a better validation accuracy after which training stops.

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
    validation: Any = None
    patience: int = 20

    def __post_init__(self) -> None:
        _checks.choice("optimizer", self.name, OPTIMIZERS)
        if self.learning_rate is not None:
            _checks.number("learning_rate", self.learning_rate, low=0, strict=True)
        for name in ("tol", "inner_tol"):
            if getattr(self, name) is not None:
                fraction(name, getattr(self, name))
        if self.stop_below is not None:
            _checks.number("stop_below", self.stop_below)
        _checks.integer("max_iterations", self.max_iterations, low=1)
        _checks.integer("patience", self.patience, low=1)
        if _checks.number("dropout", self.dropout, low=0) >= 1:
            raise InputError(f"dropout is {self.dropout!r}: it must be below 1, or nothing is left to learn from.")


def fraction(name: str, value: Any) -> float:
    """A number in (0, 1)."""
    number = _checks.number(name, value)
    if not 0 < number < 1:
        raise InputError(f"{name} is {value!r}, it must be above 0 and below 1.")
    return number
