"""Random numbers of a model, which no copy of it draws again."""

from __future__ import annotations

import numpy as np

from nareg._core.process import process


class Noise:
    """The generator of a model.

    Two versions of a model that share a noise term reveal, together, what was removed between them. So a copy of the model,
    deep or pickled, and a forked process go on with a generator that the operating system seeds. Only the original in its own
    process keeps the one that the user passed.

    Parameters
    ----------
    rng : numpy.random.Generator, optional
        By default the operating system seeds one.
    """

    def __init__(self, rng: np.random.Generator | None = None) -> None:
        self._rng = np.random.default_rng() if rng is None else rng
        self._process = process()

    @property
    def generator(self) -> np.random.Generator:
        """The generator of this copy in this process."""
        if self._process != process():
            self._rng, self._process = np.random.default_rng(), process()
        return self._rng

    def __reduce__(self) -> tuple[type[Noise], tuple[()]]:
        return Noise, ()
