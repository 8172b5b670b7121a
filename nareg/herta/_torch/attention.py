"""Training with attention: edges between unlike nodes count less, the weights found by reweighting again and again.

    E(Z) = lam/2 sum_e w_e rho(||b_e^T Z||^2 / w_e) + 1/2 ||Z - X W||_F^2,      rho concave      (HERTA D.4; TWIRLS)

A concave penalty lies below its tangents: with edge weights ``g_e = rho'(||b_e^T Z||^2 / w_e)`` the energy is bounded by that
of the quadratic penalty ``B^T diag(g) B``, a Laplacian again. So training alternates: weights from Z, a preconditioner and W
for these weights in a handful of iterations, Z from W.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from nareg import _checks
from nareg._arrays import as_numpy
from nareg._operator import Penalty as Operator
from nareg.errors import InputError
from nareg.herta._precondition.leverage import Incidence
from nareg.herta._train.fit import fit
from nareg.herta._train.options import Optimizer, Unfolding
from nareg.herta._train.result import TrainingResult
from nareg.results import Status

#: The weights have settled when they move by less than this share of their sum.
SETTLED = 1e-3


@dataclass(frozen=True)
class AttentionPenalty:
    """``rho'`` of TWIRLS: 1 up to a distance ``tau``, then ``(distance / tau)^(p - 2)``, and 0 from ``cut`` on.

    Parameters
    ----------
    tau : float
        Distance of the outputs at an edge's ends, in units of the outputs, above 0.
    p : float
        From 0 to 2. 1: a group-sparse total variation from tau on (Huber); below that not convex any more; 2: no attention.
    cut : float
        Edges at least that long are left out, above 0; infinity leaves out none.

    Raises
    ------
    InputError
        If a number is outside its range.

    Examples
    --------
    >>> import numpy as np
    >>> from nareg import herta
    >>> herta.AttentionPenalty(tau=0.5, p=1.0, cut=3.0).weights(np.array([0.25, 1.0, 9.0]))  # of squared distances
    array([1. , 0.5, 0. ])
    """

    tau: float = 1.0
    p: float = 1.0
    cut: float = np.inf

    def __post_init__(self) -> None:
        _checks.number("tau", self.tau, low=0, strict=True)
        _checks.number("p", self.p, low=0, high=2)
        if not (isinstance(self.cut, (int, float, np.number)) and self.cut > 0):
            raise InputError(f"cut is {self.cut!r}: a distance above 0 is expected; infinity cuts nothing.")

    def weights(self, squared: np.ndarray) -> np.ndarray:
        """``rho'`` of squared distances."""
        distance = np.sqrt(squared)
        return np.where(distance <= self.tau, 1.0, (np.maximum(distance, self.tau) / self.tau) ** (self.p - 2)) * (
            distance < self.cut
        )


@dataclass(frozen=True, eq=False)
class Attended:
    """What :func:`fit_attention` found.

    Attributes
    ----------
    result : TrainingResult
        Of the last round.
    edges : (2, M) array
        i < j.
    attention : (M,) array
        Factor of every edge's weight, as ``result`` was trained with.
    rounds : list of TrainingResult
        All of them.
    settled : bool
        Whether its outputs ask for the same factors again.

    Examples
    --------
    >>> import numpy as np, nareg
    >>> from nareg import herta
    >>> rng = np.random.default_rng(0)
    >>> found = herta.fit_attention(nareg.graphs.grid((5, 6)), rng.standard_normal((30, 4)), rng.integers(0, 2, 30))
    >>> found.edges.shape, found.attention.shape, found.result is found.rounds[-1]
    ((2, 49), (49,), True)
    """

    result: TrainingResult
    edges: np.ndarray
    attention: np.ndarray
    rounds: list[TrainingResult]
    settled: bool


def fit_attention(
    graph: Any,
    features: Any,
    targets: Any,
    *,
    penalty: AttentionPenalty | None = None,
    rounds: int = 10,
    kind: str = "augmented",
    lam: float = 1.0,
    **options: Any,
) -> Attended:
    """Train weights and edge attention in turns.

    Parameters
    ----------
    graph, features, targets
        As in :func:`nareg.herta.fit`.
    penalty : AttentionPenalty, optional
    rounds : int
        Reweightings at most; each trains W for its weights, with a preconditioner of its own.
    kind : {"augmented", "combinatorial"}
    lam : float
        Strength of the graph.
    **options
        Whatever else :func:`nareg.herta.fit` takes.

    Returns
    -------
    Attended

    Raises
    ------
    InputError

    Examples
    --------
    >>> import numpy as np, nareg
    >>> from nareg import herta
    >>> rng = np.random.default_rng(0)
    >>> g = nareg.graphs.stochastic_block((30, 30), np.array([[0.3, 0.05], [0.05, 0.3]]), rng=rng)
    >>> labels = np.repeat([0, 1], 30)
    >>> X = np.eye(2)[labels] + 0.3 * rng.standard_normal((60, 2))
    >>> found = herta.fit_attention(g, X, labels, penalty=herta.AttentionPenalty(tau=0.1), kind="combinatorial")
    >>> within = labels[found.edges[0]] == labels[found.edges[1]]
    >>> bool(found.attention[within].mean() > 5 * found.attention[~within].mean())
    True
    """
    penalty = AttentionPenalty() if penalty is None else penalty
    if not isinstance(penalty, AttentionPenalty):
        raise InputError(f"penalty is {penalty!r}: a nareg.herta.AttentionPenalty is expected, AttentionPenalty(tau=0.1) say.")
    rounds = _checks.integer("rounds", rounds, low=1)
    optimizer = options.get("optimizer", "auto")
    name = optimizer.name if isinstance(optimizer, Optimizer) else optimizer
    if isinstance(lam, Unfolding) or str(name).startswith("algorithm-1"):
        raise InputError("fit_attention solves its systems, of edges that change: pass lam as a number, and no 'algorithm-1'.")
    incidence = Incidence.of(graph, kind, _rows(features))
    B = incidence.matrix
    attention = following = np.ones(incidence.n_edges)
    solution: list[TrainingResult] = []
    settled = False
    while not settled and len(solution) < rounds:
        L = Operator(incidence.laplacian(following), is_laplacian=kind == "combinatorial", describe_node=_node)
        try:
            result = fit(L, features, targets, lam=Unfolding(lam, "operator"), **options)
        except KeyboardInterrupt:  # before its first step, where a fit has nothing to return: the rounds before are kept
            if not solution:
                raise
            break
        attention = following
        solution.append(result)
        # distances of the scaled ends, without the edge's own weight
        squared = ((B @ as_numpy(result.outputs)) ** 2).sum(axis=1) / incidence.weight
        following = penalty.weights(squared)
        settled = float(np.abs(following - attention).sum()) <= SETTLED * float(attention.sum())
        if result.status in (Status.INTERRUPTED, Status.DIVERGED):
            break
    return Attended(solution[-1], np.stack([incidence.i, incidence.j]), attention, solution, settled)


def _rows(features: Any) -> int | None:
    """How many nodes there are, by the features; what is no matrix is refused where they are read."""
    return int(features.shape[0]) if len(getattr(features, "shape", ())) == 2 else None


def _node(i: int) -> str:
    return f"node {i}"
