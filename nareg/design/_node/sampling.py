"""How designs draw random probes and hold out data."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from nareg import _checks


@dataclass(frozen=True)
class Sampling:
    """How :func:`exact`, :func:`blind` and :func:`redesign` draw probes of the noise and hold out data.

    Attributes
    ----------
    n_probes : int
        Random probes for the noise term of the sampled solver, the same ones at every step; at least 2.
    early_stopping : bool, optional
        For exact designs: hold out some of the signals and stop at the step with the smallest risk on them. Default:
        where there are at least 8 signals but fewer than nodes, so that R is singular and its minimizer fits accidents.
    folds : int
        On dense matrices, at least 2: each fold of the signals or readings in turn is held out to find how many descent
        steps pay, and the final descent on all of them takes the number that was best on average. The sampled solver
        holds out one quarter only, and takes the penalty that was best there.
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
    early_stopping: bool | None = None
    folds: int = 4
    rng: np.random.Generator | None = None

    def __post_init__(self) -> None:
        _checks.integer("n_probes", self.n_probes, low=2)
        _checks.integer("folds", self.folds, low=2)
        _checks.generator(self.rng)

    def started(self) -> Sampling:
        """The same with a generator, from which draws may begin."""
        return replace(self, rng=_checks.generator(self.rng))

    @property
    def generator(self) -> np.random.Generator:
        """The generator of a started sampling."""
        assert self.rng is not None
        return self.rng
