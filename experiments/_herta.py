"""What the experiments on training have in common."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np

import nareg
from nareg import herta


@dataclass(frozen=True, eq=False)
class Loaded:
    """A data set as the trainer takes it."""

    graph: Any
    features: Any
    labels: np.ndarray

    @property
    def n_classes(self) -> int:
        """Number of classes."""
        return int(self.labels.max()) + 1

    @property
    def n_features(self) -> int:
        """Number of features F."""
        return int(self.features.shape[1])

    def random_nodes(self, share: float, rng: np.random.Generator) -> np.ndarray:
        """A share of the labelled nodes."""
        known = np.flatnonzero(self.labels >= 0)
        return np.sort(rng.permutation(known)[: round(share * known.size)])

    def fit(self, **told: Any) -> herta.TrainingResult:
        """:func:`nareg.herta.fit` on this graph."""
        return herta.fit(self.graph, self.features, self.labels, **told)


@cache
def loaded(name: str) -> Loaded:
    """A node classification data set, its adjacency prepared once."""
    data = nareg.datasets.load(name)
    return Loaded(nareg.gnn.Adjacency(data.graph), data.features, data.labels)
