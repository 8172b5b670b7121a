"""Models in memory-mapped files beside the same ones in memory."""

from __future__ import annotations

import numpy as np

from nareg.unlearning import CertifiedGPR
from nareg.unlearning.store.folder import open_store
from nareg.unlearning.store.state import SUMS
from tests.unlearning.requests import problem

#: So little memory that every request propagates through the whole graph, one column at a time.
LITTLE = 1


def everything(model):
    parts = model._data
    propagation = parts.propagation
    return [
        model.embedding(), model.coefficients.copy(), model._head.B.copy(), model.labels, np.array(parts.train),
        parts.gone.copy(), propagation.features.copy(), *(q.copy() for q in propagation._reserves),
        parts.graph.adjacency().toarray(),
        propagation._rounding._largest.copy(), propagation._rounding._degrees.copy(),
        np.array([propagation._rounding.peak, propagation._rounding.ratio, propagation._rounding.requests]),
    ]  # fmt: skip


def assert_equal(before, after):
    for one, other in zip(before, after, strict=True):
        np.testing.assert_array_equal(one, other)


def with_new_sums(path):
    """A store whose tables were changed gets checksums of them: anybody can compute these."""
    folder, _ = open_store(path)
    folder.sum_up_files(name for name in folder.tables if name != SUMS)
    folder.write_sums()
    folder.close()


def mapped(rng, folder, *, memory=None, **options):
    graph, X, y = problem(rng)
    model = CertifiedGPR(rng=rng, folder=folder, weights=[0.2, 0.3, 0.5], **options)
    return model.fit(graph, X, y, np.arange(40), memory=memory)


def both(graph, X, y, train, folder, *, seed=1, memory=None, **options):
    """The same model in memory and in a folder, with the same noise term."""
    here = CertifiedGPR(rng=np.random.default_rng(seed), **options).fit(graph, X, y, train)
    there = CertifiedGPR(rng=np.random.default_rng(seed), folder=folder, **options)
    there = there.fit(graph, X, y, train, memory=memory)
    return here, there


def ask_both(here, there, requests):
    """The same requests, and after each one the same bits."""
    for request in requests:
        mine, theirs = request(here), request(there)
        assert mine.spent == theirs.spent
        assert_equal(everything(here), everything(there))
