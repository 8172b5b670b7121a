"""Training with attention: edges between unlike nodes count less, by iterative reweighting.

    E(Z) = lam/2 sum_e w_e rho(||b_e^T Z||^2 / w_e) + 1/2 ||Z - X W||_F^2,      rho concave      (HERTA D.4; TWIRLS)

A concave penalty lies below its tangents. With edge weights ``g_e = rho'(||b_e^T Z||^2 / w_e)`` the energy is bounded by that
of the quadratic penalty ``B^T diag(g) B``, which is a Laplacian. Training alternates: weights from Z, then W for these weights
with a new preconditioner in a few iterations, then Z from W.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp

from nareg._core import checks
from nareg._core.arrays import as_numpy, briefly_shown
from nareg._solvers.system import Penalty as Operator
from nareg.errors import InputError
from nareg.gnn.adjacency import GraphInput
from nareg.herta._features import Matrix
from nareg.herta._fit import fit
from nareg.herta._options import Unfolding
from nareg.herta._result import TrainingResult
from nareg.herta._system import adjacency_of, checked_kind
from nareg.io import takes_tables
from nareg.results import Status

#: The attention has converged when it changes by less than this share of its sum.
TOLERANCE = 1e-3


@dataclass(frozen=True)
class Incidence:
    """B by its edges: nodes i and j (i < j), weight per edge, scale per node."""

    i: np.ndarray
    j: np.ndarray
    weight: np.ndarray
    scale: np.ndarray

    @classmethod
    def of(cls, graph: GraphInput, kind: str, n_nodes: int | None = None) -> Incidence:
        """Of a graph in any form that :class:`~nareg.gnn.Adjacency` takes; self-loops count in the degrees only."""
        kind = checked_kind(kind)
        adjacency = adjacency_of(graph, n_nodes)
        upper = sp.coo_array(sp.triu(adjacency.raw, k=1))
        scale = 1 / np.sqrt(adjacency.degrees) if kind == "augmented" else np.ones(adjacency.n_nodes)
        return cls(upper.coords[0].astype(np.int64), upper.coords[1].astype(np.int64), upper.data, scale)

    @property
    def n_edges(self) -> int:
        """Number of edges M."""
        return int(self.weight.size)

    @property
    def matrix(self) -> sp.csr_array:
        """B, (M, N)."""
        root, edges = np.sqrt(self.weight), np.arange(self.n_edges)
        values = np.concatenate([root * self.scale[self.i], -root * self.scale[self.j]])
        at = (np.concatenate([edges, edges]), np.concatenate([self.i, self.j]))
        return sp.csr_array((values, at), shape=(self.n_edges, self.scale.size))

    def laplacian(self, factors: np.ndarray | None = None) -> sp.csr_array:
        """``B^T diag(factors) B`` without edges of factor zero."""
        weight = self.weight if factors is None else self.weight * factors
        retained = weight > 0
        i, j, weight, n = self.i[retained], self.j[retained], weight[retained], self.scale.size
        off = sp.csr_array((weight, (i, j)), shape=(n, n))
        off = sp.csr_array(off + off.T)
        scale = sp.diags_array(self.scale)
        return sp.csr_array(scale @ (sp.diags_array(np.asarray(off.sum(axis=1)).ravel()) - off) @ scale)


@dataclass(frozen=True)
class AttentionPenalty:
    """``rho'`` of TWIRLS: 1 up to a distance ``tau``, then ``(distance / tau)^(p - 2)``, and 0 from ``cut`` on.

    Provisional: no experiment uses it yet; arguments and results may change.

    Parameters
    ----------
    tau : float
        Distance of the outputs at an edge's ends up to which the edge keeps its weight, in units of the outputs, above 0.
    p : float
        From 0 to 2. With 1 the penalty is a group-sparse total variation from tau on (Huber). Below 1 it is not convex. With 2
        there is no attention.
    cut : float
        Edges with at least this distance are dropped, above 0; infinity drops none.

    Raises
    ------
    InputError
        If a value is outside its range.

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
        checks.number("tau", self.tau, low=0, strict=True)
        checks.number("p", self.p, low=0, high=2)
        if not (isinstance(self.cut, (int, float, np.number)) and self.cut > 0):
            raise InputError(f"cut is {self.cut!r}: a distance above 0 is expected; infinity drops no edge.")

    def weights(self, squared: np.ndarray) -> np.ndarray:
        """``rho'`` of squared distances."""
        distance = np.sqrt(squared)
        return np.where(distance <= self.tau, 1.0, (np.maximum(distance, self.tau) / self.tau) ** (self.p - 2)) * (
            distance < self.cut
        )


@briefly_shown
@dataclass(frozen=True, eq=False)
class AttentionResult:
    """The result of :func:`fit_attention`.

    Provisional: no experiment uses it yet; arguments and results may change.

    Attributes
    ----------
    result : TrainingResult
        Of the last round.
    edges : (2, M) array
        i < j.
    attention : (M,) array
        Factor of every edge's weight in the training of ``result``.
    rounds : list of TrainingResult
        Of all rounds.
    converged : bool
        Whether the outputs of ``result`` give the same factors again.

    Examples
    --------
    >>> import numpy as np, nareg
    >>> from nareg import herta
    >>> rng = np.random.default_rng(0)
    >>> fitted = herta.fit_attention(nareg.graphs.grid((5, 6)), rng.standard_normal((30, 4)), rng.integers(0, 2, 30))
    >>> fitted.edges.shape, fitted.attention.shape, fitted.result is fitted.rounds[-1]
    ((2, 49), (49,), True)
    """

    result: TrainingResult
    edges: np.ndarray
    attention: np.ndarray
    rounds: list[TrainingResult]
    converged: bool


@takes_tables(rows=("features", "targets"))
def fit_attention(
    graph: GraphInput,
    features: Matrix,
    targets: Matrix,
    *,
    penalty: AttentionPenalty | None = None,
    rounds: int = 10,
    kind: str = "augmented",
    lam: float = 1.0,
    **options: Any,
) -> AttentionResult:
    """Train weights and edge attention alternately.

    Provisional: no experiment uses it yet; arguments and results may change.

    Parameters
    ----------
    graph, features, targets
        As in :func:`nareg.herta.fit`.
    penalty : AttentionPenalty, optional
    rounds : int
        Most reweightings. Each trains W for its weights, with its own preconditioner.
    kind : {"augmented", "combinatorial"}
    lam : float
        Strength of the graph, at least 0.
    **options
        Further arguments of :func:`nareg.herta.fit`.

    Returns
    -------
    AttentionResult

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
    >>> fitted = herta.fit_attention(g, X, labels, penalty=herta.AttentionPenalty(tau=0.1), kind="combinatorial")
    >>> within = labels[fitted.edges[0]] == labels[fitted.edges[1]]
    >>> bool(fitted.attention[within].mean() > 5 * fitted.attention[~within].mean())
    True
    """
    penalty = AttentionPenalty() if penalty is None else penalty
    if not isinstance(penalty, AttentionPenalty):
        raise InputError(f"penalty is {penalty!r}: pass a nareg.herta.AttentionPenalty, for example AttentionPenalty(tau=0.1).")
    rounds = checks.integer("rounds", rounds, low=1)
    if isinstance(lam, Unfolding):
        raise InputError(f"lam is {lam!r}, but fit_attention chooses the operator of every round itself: pass lam as a number.")
    # the number of nodes, where features are a matrix; anything else is refused where features are read
    shape: tuple[int, ...] = getattr(features, "shape", ())
    incidence = Incidence.of(graph, kind, int(shape[0]) if len(shape) == 2 else None)
    B = incidence.matrix
    attention = next_attention = np.ones(incidence.n_edges)
    results: list[TrainingResult] = []
    converged = False
    while not converged and len(results) < rounds:
        L: Any = Operator(incidence.laplacian(next_attention), kind == "combinatorial", "node {}".format)
        try:
            result = fit(L, features, targets, lam=Unfolding(lam, "operator"), **options)
        except KeyboardInterrupt:  # before its first step: the earlier rounds are returned
            if not results:
                raise
            break
        attention = next_attention
        results.append(result)
        # distances of the scaled ends, without the edge's own weight
        squared = ((B @ as_numpy(result.outputs)) ** 2).sum(axis=1) / incidence.weight
        next_attention = penalty.weights(squared)
        converged = float(np.abs(next_attention - attention).sum()) <= TOLERANCE * float(attention.sum())
        if result.status in (Status.INTERRUPTED, Status.DIVERGED):
            break
    return AttentionResult(results[-1], np.stack([incidence.i, incidence.j]), attention, results, converged)
