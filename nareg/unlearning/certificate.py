"""The certificate of a removal, and the budget that it rests on.

Certified removal (Guo et al. 2020, Theorem 3): let A return the optimum of ``L(w; D) + b^T w`` with ``b ~ N(0, alpha^2 I)``.
A model w whose gradient ``||grad L(w; D') + b||`` on the remaining data D' is at most a bound known beforehand, the budget,
is (eps, delta)-indistinguishable from A(D').
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from scipy.optimize import brentq
from scipy.special import log_ndtr, ndtr

#: Tolerance for rounding: a number that is round already is not rounded up.
SLACK = 1e-9


def published_budget(alpha: float, eps: float, delta: float) -> float:
    """``alpha eps / sqrt(2 log(1.5 / delta))``: proved for eps up to one.

    Examples
    --------
    >>> round(published_budget(0.1, 1.0, 1e-4), 4)
    0.0228
    """
    return alpha * eps / math.sqrt(2 * (math.log(1.5) - math.log(delta)))


def exact_budget(alpha: float, eps: float, delta: float) -> float:
    """The largest shift of a Gaussian of deviation ``alpha`` that is (eps, delta)-indistinguishable (Balle, Wang 2018).

    Examples
    --------
    >>> exact_budget(0.1, 1.0, 1e-4) > published_budget(0.1, 1.0, 1e-4)
    True
    >>> exact_budget(0.1, 10.0, 1e-4) < published_budget(0.1, 10.0, 1e-4)
    True
    """

    def excess(shift: float) -> float:
        """Smallest delta at this eps, minus the requested one."""
        return float(ndtr(shift / 2 - eps / shift) - math.exp(eps + log_ndtr(-shift / 2 - eps / shift))) - delta

    low = high = 1.0
    while excess(high) < 0:
        high *= 2
    while excess(low) > 0:
        low /= 2
    shift: float = brentq(excess, low, high, xtol=1e-14, rtol=1e-12)
    return alpha * shift


def budget(alpha: float, eps: float, delta: float) -> float:
    """Largest gradient norm: the published budget or, for eps above one, the exact one if that is smaller."""
    published = published_budget(alpha, eps, delta)
    return published if eps <= 1 else min(published, exact_budget(alpha, eps, delta))


@dataclass(frozen=True)
class Certificate:
    """States that a model is (eps, delta)-indistinguishable from one trained on the remaining data only.

    Attributes
    ----------
    request : str
        Name of the request, without what was removed: "fit", "remove_edges", ...
    count : int
        Number of edges or nodes in the request.
    eps : float
        Privacy loss that the certificate guarantees, of the coefficients given ``lam`` and ``alpha``.
    delta : float
        Probability that the guarantee fails.
    alpha : float
        Standard deviation of the noise term.
    budget : float
        Largest gradient norm that the guarantee allows.
    spent : float
        ``residual + approximation``, at most the budget.
    residual : float
        Frobenius norm of the gradient of the perturbed loss, all classes jointly, at the returned model and on the stored
        embedding.
    approximation : float
        Bound on what the exact embedding would add to that: rounding and, with ``r_max > 0``, the residues.
    retrained : bool
        Whether the model was trained from nothing, with a new noise term.
    n_nodes, n_edges, n_train : int
        Remaining nodes, edges and training nodes.
    timings : dict of float
        Seconds per stage: "propagation" and "training".
    eps_scale : float
        What the choice of ``lam`` and ``alpha`` by a private scale of the features adds to ``eps``, per row of features that
        was removed since ``fit``: coefficients, ``lam`` and ``alpha`` together are (eps + k eps_scale, delta)-indistinguishable
        for k rows. 0 where both do not depend on the data, and nothing for edges.

    Examples
    --------
    >>> import nareg, numpy as np
    >>> from nareg.unlearning import CertifiedGPR
    >>> data = nareg.datasets.node_classification.synthetic(300, 3, rng=np.random.default_rng(0))
    >>> model = CertifiedGPR(rng=np.random.default_rng(1)).fit(data.graph, data.features, data.labels, np.arange(200))
    >>> certificate = model.remove_nodes([5, 7])
    >>> certificate.request, certificate.count, certificate.n_nodes, certificate.residual <= certificate.budget
    ('remove_nodes', 2, 298, True)
    """

    request: str
    count: int
    eps: float
    delta: float
    alpha: float
    budget: float
    spent: float
    residual: float
    approximation: float
    retrained: bool
    n_nodes: int
    n_edges: int
    n_train: int
    timings: dict[str, float]
    eps_scale: float = 0.0

    def rounded(self) -> Certificate:
        """The certificate as a store keeps it, too coarse to check a guess at what was removed.

        ``residual`` and ``spent`` are rounded up to tenths of the budget (training ends below the first), ``approximation`` to
        a power of ten, ``timings`` to one digit.
        """
        return replace(
            self, spent=_tenths(self.spent, self.budget), residual=_tenths(self.residual, self.budget),
            approximation=10.0 ** math.ceil(math.log10(self.approximation) - SLACK) if self.approximation else 0.0,
            timings={stage: float(f"{seconds:.1g}") for stage, seconds in self.timings.items()},
        )  # fmt: skip

    def summary(self) -> str:
        """The certificate in four lines of text."""
        retrained = ", retrained" if self.retrained else ""
        scale = f" (eps + {self.eps_scale:.2g} per removed row for the features' scale)" if self.eps_scale else ""
        return "\n".join(
            (
                f"({self.eps:g}, {self.delta:g})-certified: {self.request} of {self.count}{retrained}{scale}",
                f"  gradient {self.residual:.3g} + approximation {self.approximation:.3g} = {self.spent:.3g} "
                f"of {self.budget:.3g} ({self.spent / self.budget:.2%}), noise {self.alpha:.3g}",
                f"  remaining: {self.n_nodes} nodes, {self.n_edges} edges, {self.n_train} training nodes",
                "  " + ", ".join(f"{stage} {seconds:.3g} s" for stage, seconds in self.timings.items()),
            )
        )


def _tenths(part: float, whole: float) -> float:
    """The part rounded up to tenths of the whole, and at most the whole."""
    return min(math.ceil(10 * part / whole - SLACK) / 10 * whole, whole)
