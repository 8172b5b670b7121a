"""What is promised when something has been forgotten, and what the promise rests on.

Certified removal (Guo et al. 2020, Theorem 3): let A return the optimum of ``L(w; D) + b^T w`` with ``b ~ N(0, alpha^2 I)``.
A model w whose gradient ``||grad L(w; D') + b||`` on the remaining data D' is at most a bound known beforehand, the budget,
is (eps, delta)-indistinguishable from A(D').
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from scipy.optimize import brentq
from scipy.special import log_ndtr, ndtr

from nareg.errors import NaregError

#: Rounding, which what is a round number already must not be rounded up for.
SLACK = 1e-9


class CertificateError(NaregError, RuntimeError):
    """What was asked for cannot be certified; nothing was changed.

    Examples
    --------
    >>> import nareg, numpy as np
    >>> from nareg.unlearning import CertificateError, CertifiedGPR
    >>> data = nareg.datasets.node_classification.synthetic(300, 3, rng=np.random.default_rng(0))
    >>> model = CertifiedGPR(alpha=0.0).fit(data.graph, data.features, data.labels, np.arange(200))
    >>> try:
    ...     model.remove_nodes([5])
    ... except CertificateError as error:
    ...     print(error)
    alpha is 0: without a random term nothing is certified; fit with alpha above 0.
    """


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
        """Of the smallest delta at this eps over the one that is asked for."""
        return float(ndtr(shift / 2 - eps / shift) - math.exp(eps + log_ndtr(-shift / 2 - eps / shift))) - delta

    low = high = 1.0
    while excess(high) < 0:
        high *= 2
    while excess(low) > 0:
        low /= 2
    shift: float = brentq(excess, low, high, xtol=1e-14, rtol=1e-12)
    return alpha * shift


def budget(alpha: float, eps: float, delta: float) -> float:
    """How large a gradient may be: the published budget or, for eps above one, the exact one where that is smaller."""
    published = published_budget(alpha, eps, delta)
    return published if eps <= 1 else min(published, exact_budget(alpha, eps, delta))


@dataclass(frozen=True)
class Certificate:
    """That a model is (eps, delta)-indistinguishable from one that was trained on the remaining data only.

    Attributes
    ----------
    request : str
        What it was issued for, without naming what was removed: "fit", "remove_edges", ...
    count : int
        How many edges or nodes that named.
    eps, delta, alpha : float
    budget : float
        The gradient's norm that may not be exceeded.
    spent : float
        ``residual + approximation``, at most the budget.
    residual : float
        Frobenius norm of the gradient of the perturbed loss, all classes jointly, at the model that is returned and on the
        embedding that is held. What training left over is in it.
    approximation : float
        Bound of what the exact embedding would add to that: rounding, and with ``r_max > 0`` the residues.
    retrained : bool
        Whether the model was trained anew, with a new perturbation.
    n_nodes, n_edges, n_train : int
        What remains.
    seconds : dict
        What took how long.

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
    seconds: dict[str, float]

    def kept(self) -> Certificate:
        """What a store keeps of it: nothing by which a guess at what was removed could be checked, the random term being there.

        The residual and what is spent are rounded up to tenths of the budget (training ends below the first), the approximation
        to a power of ten, seconds to one digit.
        """
        return replace(
            self, spent=_tenths(self.spent, self.budget), residual=_tenths(self.residual, self.budget),
            approximation=10.0 ** math.ceil(math.log10(self.approximation) - SLACK) if self.approximation else 0.0,
            seconds={name: float(f"{seconds:.1g}") for name, seconds in self.seconds.items()},
        )  # fmt: skip

    def summary(self) -> str:
        """A few lines for a person."""
        again = ", retrained" if self.retrained else ""
        return "\n".join(
            (
                f"({self.eps:g}, {self.delta:g})-certified: {self.request} of {self.count}{again}",
                f"  gradient {self.residual:.3g} + approximation {self.approximation:.3g} = {self.spent:.3g} "
                f"of {self.budget:.3g} ({self.spent / self.budget:.2%}), perturbation {self.alpha:g}",
                f"  remaining: {self.n_nodes} nodes, {self.n_edges} edges, {self.n_train} training nodes",
                "  " + ", ".join(f"{name} {seconds:.3g} s" for name, seconds in self.seconds.items()),
            )
        )


def _tenths(part: float, whole: float) -> float:
    """Rounded up to tenths of the whole, and no more than it."""
    return min(math.ceil(10 * part / whole - SLACK) / 10 * whole, whole)
