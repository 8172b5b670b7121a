"""How designs draw random probes and hold out data."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from nareg._core import checks

#: Fewer signals or readings than this are not worth holding some out.
FEWEST = 8


@dataclass(frozen=True)
class Sampling:
    """How :func:`exact`, :func:`blind` and :func:`redesign` draw probes of the noise and hold out data.

    Attributes
    ----------
    n_probes : int
        Random probes for the noise term of the sampled solver, the same ones at every step; at least 2.
    hold_out : bool, optional
        For exact designs: hold out signals to find the penalty on differences between weights, or minimize the risk of all
        signals without one. Default: hold out where there are at least 8 signals but fewer than nodes, so that R is
        singular and its minimizer fits accidents.
    folds : int, optional
        Each fold of the signals or readings in turn is held out while a design is fitted to the others. The penalty that
        is best on average is the one of the final fit to all of them. One fold is a quarter, held out once. Default: 4
        on dense matrices, 1 for the sampled solver, where a network has more numbers to judge by.
    rng : numpy.random.Generator, optional
        Draws the probes and what is held out; default ``numpy.random.default_rng(0)``.

    Raises
    ------
    InputError
        If a number is too small, or rng is not a Generator.

    Examples
    --------
    >>> import numpy as np, nareg
    >>> sampling = nareg.design.Sampling(n_probes=48, rng=np.random.default_rng(1))
    >>> g = nareg.graphs.grid((4, 4))
    >>> nareg.design.exact(g, signals=np.ones(16), noise=1.0, sampling=sampling).n_nodes
    16
    """

    n_probes: int = 24
    hold_out: bool | None = None
    folds: int | None = None
    rng: np.random.Generator | None = None

    def __post_init__(self) -> None:
        checks.integer("n_probes", self.n_probes, low=2)
        if self.folds is not None:
            checks.integer("folds", self.folds, low=1)
        checks.generator(self.rng)

    def started(self) -> Sampling:
        """The same with a generator, from which draws may begin."""
        return replace(self, rng=checks.generator(self.rng))

    def split(self, n_columns: int, default_folds: int) -> list[tuple[np.ndarray, np.ndarray]]:
        """Training and held-out columns of every fold; none where there are too few columns."""
        if n_columns < FEWEST:
            return []
        order, folds = self.generator.permutation(n_columns), self.folds or default_folds
        if folds == 1:
            return [(order[n_columns // 4 :], order[: n_columns // 4])]
        parts = np.array_split(order, min(folds, n_columns // 2))
        return [(np.setdiff1d(order, part), part) for part in parts]

    @property
    def generator(self) -> np.random.Generator:
        """The generator of a started sampling."""
        assert self.rng is not None
        return self.rng
