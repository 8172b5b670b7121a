"""What the experiments on unlearning have in common."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
import scipy.sparse as sp

import nareg
from experiments._figure import Row, chosen
from nareg.unlearning import Certificate, CertifiedGPR, peers

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


def removed_in_parts(
    data: Loaded, model: CertifiedGPR, what: np.ndarray, remove: Callable[[np.ndarray], Certificate], *, every: int, timed: int
) -> list[Row]:
    """A row before any removal and one after every ``every``: accuracy, mean seconds of a removal by itself, budget.

    ``timed`` of each part are removed one by one, the rest of it at once.
    """
    rows: list[Row] = [{"removed": 0, "accuracy": data.accuracy(model), "total": None, "propagation": None}]
    for first in range(0, len(what), every):
        part = what[first : first + every]
        alone = [remove(part[i : i + 1]) for i in range(min(timed, len(part)))]
        told = alone + ([remove(part[timed:])] if timed < len(part) else [])
        rows.append({
            "removed": first + len(part), "accuracy": data.accuracy(model),
            "total": float(np.mean([sum(one.seconds.values()) for one in alone])),
            "propagation": float(np.mean([one.seconds["propagation"] for one in alone])),
            "spent": max(one.spent / one.budget for one in told), "retrained": sum(one.retrained for one in told),
        })  # fmt: skip
    return rows


def against_published(rows: list[Row], published: tuple[float, ...], every: int, **keys: Any) -> tuple[list[bool], str]:
    """Whether our accuracy after 0, ``every``, ... removals is within 3 points of what is published, where there is any."""
    near, cells = [], []
    for k, known in enumerate(published):
        if chosen(rows, method=OURS, removed=every * k, **keys):
            found = mean(rows, "accuracy", method=OURS, removed=every * k, **keys)
            near.append(abs(found - known) < 3)
            cells.append(f"{found:.1f} ({known:.1f})")
    return near, ", ".join(cells)


def compared_times(rows: list[Row], methods: tuple[str, ...], **keys: Any) -> tuple[bool, str]:
    """Whether a removal, and propagation in it, take us less time than all others; and all the times."""
    total = {m: mean(rows, "total", method=m, **keys) for m in methods}
    share = {m: mean(rows, "propagation", method=m, **keys) for m in methods}
    faster = all(total[OURS] < total[m] and share[OURS] < share[m] for m in methods if m != OURS)
    return faster, ", ".join(f"{m} {1e3 * total[m]:.0f} ms ({1e3 * share[m]:.1f})" for m in methods)
