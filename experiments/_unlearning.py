"""What the experiments on unlearning have in common."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
import scipy.sparse as sp

import nareg
from experiments._figure import Row, chosen
from nareg.unlearning import CertifiedGPR, peers

#: What the figures of this kind rest on (see Figure).
PARTS: dict[str, Any] = {"helpers": ("_unlearning",), "apart_from": ("design", "baselines", "gnn")}
OURS, RETRAINED, CGU, CEU = "nareg", "retrained", "CGU", "CEU"
METHODS: dict[str, type[CertifiedGPR]] = {OURS: CertifiedGPR, RETRAINED: peers.Retrained, CGU: peers.CGU, CEU: peers.CEU}
#: lam and alpha of the paper's Table 5.
PUBLISHED = {"cora": (1e-2, 0.1), "citeseer": (1e-2, 0.1), "amazon-photo": (1e-4, 3.0)}


@dataclass(frozen=True, eq=False)
class Loaded:
    """A data set as the paper has it: features as published, everything trained on but for validation and test."""

    name: str
    graph: Any
    features: np.ndarray
    labels: np.ndarray
    train: np.ndarray
    test: np.ndarray

    def fitted(self, method: str, rng: np.random.Generator, **told: Any) -> CertifiedGPR:
        """A model with the published settings, those apart that are told."""
        lam, alpha = PUBLISHED[self.name]
        return METHODS[method](**{"lam": lam, "alpha": alpha, "rng": rng, **told}).fit(
            self.graph, self.features, self.labels, self.train
        )

    def accuracy(self, model: CertifiedGPR) -> float:
        """In per cent, at the test nodes."""
        return 100 * float((model.predict(self.test) == self.labels[self.test]).mean())

    def edges(self, rng: np.random.Generator) -> np.ndarray:
        """All edges in a random order."""
        return rng.permutation(np.argwhere(sp.triu(self.graph.adjacency).toarray()))


@cache
def loaded(name: str) -> Loaded:
    """500 nodes for validation, 1,000 to test: the public ones of Cora and Citeseer, random ones (always the same) of Photo."""
    data = nareg.datasets.load(name)
    known = np.flatnonzero(data.labels >= 0)
    if data.splits:
        _, val, test = data.splits[0]
    else:
        val, test = np.split(np.random.default_rng(0).permutation(known)[:1500], [500])
    train = np.setdiff1d(known, np.concatenate([val, test]))
    return Loaded(name, data.graph, data.dense_features().astype(float), data.labels, train, test)


def mean(rows: list[Row], key: str, **keys: Any) -> float:
    """Of a column, rows without a value left out."""
    values = [row[key] for row in chosen(rows, **keys) if row[key] is not None]
    return float(np.mean(values)) if values else float("nan")
