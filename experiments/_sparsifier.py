"""A graph with fewer edges whose regularized Laplacian is almost the same, with the measured difference.

Edges are drawn with probabilities in proportion to their ridge leverage scores. Their weights are multiplied by the number of
draws over its mean (HERTA, Algorithm 2, Lemma 5.2):

    (1 - eps) (L~ + I/lam)  <=  L + I/lam  <=  (1 + eps) (L~ + I/lam)

The published number of draws, ``C n_lam ln(n) / eps^2``, leaves C open. With the constant of the matrix Bernstein inequality
it exceeds the number of edges of every citation graph at ``eps = 1/2``. Here the number of draws grows until the measured
inequality holds.
"""

from __future__ import annotations

import math
import time
from dataclasses import dataclass, field

import numpy as np
import scipy.linalg
import scipy.sparse as sp
from scipy.sparse.linalg import ArpackNoConvergence, LinearOperator, eigsh

from experiments._leverage import approximate_scores, effective_dimension, exact_scores, solve_numpy
from nareg._core import checks
from nareg.errors import InputError
from nareg.gnn.adjacency import GraphInput
from nareg.herta._attention import Incidence
from nareg.herta._system import System

SCORES = ("auto", "exact", "approximate", "uniform", "effective-resistance")
#: "effective-resistance" stands for lam -> infinity: this multiple of lam, and its largest value for rounding.
WITHOUT_RIDGE, LARGEST = 1e4, 1e10
#: Most draws.
MAX_DRAWS = 2**40
#: Share of the edges above which the whole graph is returned.
LARGEST_SHARE = 0.98
#: Growth of the number of draws per attempt.
GROWTH = 1.4
#: Most nodes for dense eigenvalues: 0.9 s for 800 where Lanczos takes 2.6 s at lam = 1 and 16 s at lam = 100 on a random graph
#: with 0.4 of all edges, whose extreme eigenvalues are close to one another. On sparse graphs both take 2 s at 1,000.
SMALL = 1000
#: Relative accuracy of the eigenvalues of larger ones, and of the solves behind them.
TIGHT, ACCURACY = 1e-6, 1e-8


@dataclass(frozen=True)
class Sparsifier:
    """A sparsified graph.

    Attributes
    ----------
    laplacian : (N, N) CSR array
        ``L~ = B~^T B~``, of the same kind as that of the graph ("augmented": by the degrees of the whole graph).
    edges : (2, n_edges) array
        Retained edges, i < j.
    factors : (n_edges,) array
        Factors of their weights.
    scores : (M,) array
        Leverage scores of all edges, in proportion to which they were drawn.
    n_edges, n_edges_before : int
    effective_dimension, effective_dimension_error : float
        ``n_lam = tr L (L + I/lam)^-1``, and its standard error (0: exact).
    epsilon : float
        Requested spectral accuracy.
    error : float
        Measured: the smallest eps for which ``(1 - eps) (L~ + I/lam) <= L + I/lam <= (1 + eps) (L~ + I/lam)``.
    draws : int
        Number of draws; 0 if the whole graph is returned.
    lam : float
    kind : str
    timings : dict of seconds

    Examples
    --------
    >>> import numpy as np, nareg
    >>> from experiments._sparsifier import sparsify
    >>> rng = np.random.default_rng(0)
    >>> sparse = sparsify(nareg.graphs.erdos_renyi(300, 0.5, rng=rng), lam=1.0, epsilon=0.5, rng=rng)
    >>> sparse.error <= 0.5, sparse.n_edges < 0.5 * sparse.n_edges_before, sparse.edges.shape[1] == sparse.n_edges
    (True, True, True)
    """

    laplacian: sp.csr_array
    edges: np.ndarray
    factors: np.ndarray
    scores: np.ndarray
    n_edges_before: int
    effective_dimension: float
    effective_dimension_error: float
    epsilon: float
    error: float
    draws: int
    lam: float
    kind: str
    timings: dict[str, float] = field(default_factory=dict)

    @property
    def n_edges(self) -> int:
        """Number of retained edges."""
        return int(self.factors.size)

    def summary(self) -> str:
        """Two lines for a person."""
        interval = f" +- {self.effective_dimension_error:.2g}" if self.effective_dimension_error else ""
        return (
            f"{self.n_edges} of {self.n_edges_before} edges ({self.n_edges / max(self.n_edges_before, 1):.1%}) after "
            f"{self.draws} draws, effective dimension {self.effective_dimension:.4g}{interval}\n"
            f"spectral error {self.error:.3g} measured, {self.epsilon:.3g} requested, at lam = {self.lam:g} ({self.kind})"
        )


def sparsify(
    graph: GraphInput,
    *,
    lam: float,
    epsilon: float,
    rng: np.random.Generator,
    kind: str = "augmented",
    scores: str = "auto",
    draws: int | None = None,
    measure: bool = True,
    n_nodes: int | None = None,
) -> Sparsifier:
    """Drop edges that the regularized Laplacian ``L + I/lam`` of a graph hardly needs.

    Parameters
    ----------
    graph : Graph, Adjacency, SciPy or torch sparse (N, N), or ``edge_index`` (2, E)
    lam : float
        Strength of the denoiser ``(I + lam L)^-1``, above 0. Energies below ``1/lam`` are not preserved.
    epsilon : float
        Spectral accuracy in (0, 1).
    rng : numpy.random.Generator
    kind : {"augmented", "combinatorial"}
        ``I - D~^-1/2 (A + I) D~^-1/2`` or ``D - A``.
    scores : {"auto", "exact", "approximate", "uniform", "effective-resistance"}
        Probabilities of the draws. Ridge leverage scores: "exact", "approximate" (by ``4 ln M`` random projections), or "auto",
        which is exact up to 3,000 nodes. For comparison: "uniform", or the scores without a ridge.
    draws : int, optional
        Number of draws, whatever their error. Default: as many as ``epsilon`` needs, measured. The whole graph is returned
        where these would retain nearly all of it.
    measure : bool
        Whether to measure error and effective dimension. False needs ``draws``, and both are NaN then.
    n_nodes : int, optional
        For an ``edge_index`` whose last nodes have no edge.

    Returns
    -------
    Sparsifier

    Raises
    ------
    InputError

    References
    ----------
    HERTA, Algorithm 2 and Lemma 5.2.

    Examples
    --------
    >>> import numpy as np, nareg
    >>> from experiments._sparsifier import sparsify
    >>> g = nareg.graphs.erdos_renyi(200, 0.5, rng=np.random.default_rng(0))
    >>> sparse = sparsify(g, lam=1.0, epsilon=0.3, rng=np.random.default_rng(1))
    >>> sparse.error <= 0.3, sparse.n_edges < 0.5 * g.n_edges
    (True, True)
    """
    lam = checks.number("lam", lam, low=0, strict=True)
    epsilon = checks.number("epsilon", epsilon, low=0, strict=True)
    if epsilon >= 1:
        raise InputError(f"epsilon is {epsilon:g}, it must be below 1: larger ones allow any graph.")
    rng = checks.generator(rng)
    scores = checks.choice("scores", scores, SCORES)
    if draws is not None:
        draws = checks.integer("draws", draws, low=1)
        if draws > MAX_DRAWS:
            raise InputError(f"draws is {draws}, it must be at most {MAX_DRAWS}: use the whole graph.")
    if not measure and draws is None:
        raise InputError("measure is False but draws is None: pass draws, or measure=True to reach epsilon.")
    clock = time.perf_counter()
    incidence = Incidence.of(graph, kind, n_nodes)
    whole = incidence.laplacian()
    leverage, exact = _scores(incidence, whole, lam, scores, rng)
    timings = {"scores": time.perf_counter() - clock}
    clock = time.perf_counter()
    # exact scores add up to the effective dimension
    n_lam, uncertainty = float(leverage.sum()) if exact else math.nan, 0.0
    if measure and not exact:
        n_lam, uncertainty = effective_dimension(System(whole, lam, scale=1 / incidence.scale), rng=rng)
    timings["effective dimension"] = time.perf_counter() - clock
    clock = time.perf_counter()
    factors, n_draws, error = _draw(incidence, whole, lam, leverage, n_lam, epsilon, draws, measure, rng)
    timings["draws"] = time.perf_counter() - clock
    retained = factors > 0
    return Sparsifier(
        laplacian=incidence.laplacian(factors) if n_draws else whole,
        edges=np.stack([incidence.i[retained], incidence.j[retained]]), factors=factors[retained], scores=leverage,
        n_edges_before=incidence.n_edges, effective_dimension=n_lam, effective_dimension_error=uncertainty,
        epsilon=epsilon, error=error, draws=n_draws, lam=lam, kind=kind, timings=timings,
    )  # fmt: skip


def _scores(
    incidence: Incidence, L: sp.csr_array, lam: float, scores: str, rng: np.random.Generator
) -> tuple[np.ndarray, bool]:
    """Scores in proportion to which edges are drawn, and whether they are the exact ridge leverage scores."""
    if scores == "uniform":
        return np.ones(incidence.n_edges), False
    bare = scores == "effective-resistance"
    system = System(L, max(lam, min(lam * WITHOUT_RIDGE, LARGEST)) if bare else lam, scale=1 / incidence.scale)
    if scores == "exact" or (scores != "approximate" and system.n_nodes <= checks.DENSE_LIMIT):
        return exact_scores(incidence, system), not bare
    return approximate_scores(incidence, system, rng=rng), False


def _draw(
    incidence: Incidence, L: sp.csr_array, lam: float, leverage: np.ndarray, n_lam: float, epsilon: float,
    draws: int | None, measure: bool, rng: np.random.Generator,
) -> tuple[np.ndarray, int, float]:  # fmt: skip
    """Factors of all edges, the number of draws (0: the graph as it is), the measured error."""
    m = incidence.n_edges
    whole = np.ones(m), 0, 0.0
    if m == 0:
        return whole
    p = leverage / leverage.sum()
    # where many terms of norm n_lam / s are averaged, the error is near 2 sqrt(n_lam / s)
    s = draws or math.ceil(4 * max(n_lam, 1.0) / epsilon**2)
    while True:
        # the mean number of edges that are drawn at all
        if draws is None and float(-np.expm1(s * np.log1p(-np.minimum(p, 1 - 1e-16))).sum()) > LARGEST_SHARE * m:
            return whole
        counts = rng.multinomial(s, p)
        factors = counts / (s * p)
        error = spectral_error(L, incidence.laplacian(factors), lam, rng=rng) if measure else math.nan
        if draws is not None or error <= epsilon:
            return factors, s, error
        s = math.ceil(GROWTH * s)


def spectral_error(L: sp.csr_array, sparse: sp.csr_array, lam: float, *, rng: np.random.Generator) -> float:
    """Smallest eps with ``(1 - eps) (L~ + I/lam) <= L + I/lam <= (1 + eps) (L~ + I/lam)``.

    From the largest eigenvalues of the pencils (H, H~) and (H~, H): dense up to 1,000 nodes, else by Lanczos with solves, plus
    its last residual, because it approaches from inside. Infinite where Lanczos does not converge.

    Examples
    --------
    >>> import numpy as np, nareg
    >>> from experiments._sparsifier import spectral_error
    >>> L = nareg.graphs.grid((4,)).laplacian()
    >>> round(spectral_error(L, 2 * L, 1e9, rng=np.random.default_rng(0)), 3)  # L = (2 L) / 2
    0.5
    """
    if L.shape[0] <= SMALL:
        eye = np.eye(L.shape[0])
        values = scipy.linalg.eigvalsh(eye + lam * L.toarray(), eye + lam * sparse.toarray())
        return float(max(values[-1] - 1, 1 - values[0], 0.0))
    change = sp.csr_array(lam * (L - sparse))
    return max(_largest(change, sparse, lam, rng), 1 - 1 / (1 + _largest(-change, L, lam, rng)), 0.0)


def _largest(change: sp.csr_array, L: sp.csr_array, lam: float, rng: np.random.Generator) -> float:
    """Largest eigenvalue of ``change v = theta H v`` with ``H = I + lam L``, plus its residual.

    LOBPCG without a solve stalls far below it where bridges carry little weight and lam is large.
    """
    n, system = L.shape[0], System(L, lam)
    H = sp.csr_array(sp.eye_array(n) + lam * L)

    def solved(b: np.ndarray) -> np.ndarray:
        return solve_numpy(system, b.reshape(-1, 1), ACCURACY)[:, 0]

    inverse = LinearOperator((n, n), matvec=solved, dtype=np.float64)
    try:
        values, vectors = eigsh(change, k=1, M=H, Minv=inverse, which="LA", v0=rng.standard_normal(n), tol=TIGHT)
    except ArpackNoConvergence:
        return math.inf
    v, theta = vectors[:, 0], float(values[0])
    r = change @ v - theta * (H @ v)
    # |theta - an eigenvalue| <= ||r||_{H^-1} / ||v||_H
    return theta + math.sqrt(max(r @ solved(r), 0.0) / (v @ (H @ v)))
