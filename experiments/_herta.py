"""Shared parts of the experiments on training."""

from __future__ import annotations

import itertools
import math
import time
from dataclasses import dataclass, fields
from functools import cache
from typing import Any

import numpy as np

import nareg
from experiments._figure import Row
from nareg.errors import NaregError
from nareg.results import Status

try:
    import torch

    from experiments import _algorithm1 as algorithm1
    from nareg import herta
    from nareg.herta import _inputs as inputs
    from nareg.herta._preconditioner import SKETCH, TOLERANCE
except ModuleNotFoundError as missing:
    raise NaregError(f"the herta experiments need torch ({missing}): pip install 'nareg[torch]'.") from missing

#: What the figures of this kind rest on (see Figure).
PARTS: dict[str, Any] = {"helpers": ("_herta", "_algorithm1"), "apart_from": ("design", "baselines"), "versions": ("torch",)}

#: What :class:`nareg.herta.Optimizer` takes beyond a name.
OPTIMIZER_SETTINGS = {field.name for field in fields(herta.Optimizer)} - {"name"}
#: Data sets with "the standard training split" (Section 6); the others have 80 % of their nodes at random.
STANDARD = ("ogbn-arxiv", "flickr")


@dataclass(frozen=True, eq=False)
class Loaded:
    """A data set as the trainer takes it; ``split``: its own training, validation and test nodes, where those are meant."""

    graph: Any
    features: Any
    labels: np.ndarray
    device: str | None = None
    split: tuple[np.ndarray, ...] | None = None

    @property
    def n_classes(self) -> int:
        """Number of classes."""
        return int(self.labels.max()) + 1

    @property
    def n_features(self) -> int:
        """Number of features F."""
        return int(self.features.shape[1])

    def parts(self, shares: tuple[float, ...], rng: np.random.Generator) -> list[np.ndarray]:
        """Random disjoint shares of the labeled nodes; of a data set with a split, the first parts of that."""
        if self.split is not None:
            return [np.sort(part) for part in self.split[: len(shares)]]
        known = rng.permutation(np.flatnonzero(self.labels >= 0))
        ends = [round(share * known.size) for share in np.cumsum((0.0, *shares))]
        return [np.sort(known[a:b]) for a, b in itertools.pairwise(ends)]

    def fit(self, *, optimizer: str = "auto", loss: str = "mse", **options: Any) -> herta.TrainingResult:
        """:func:`nareg.herta.fit`, or Algorithm 1, on this graph; settings of optimizer and model may stand beside."""
        how = {name: options.pop(name) for name in OPTIMIZER_SETTINGS & options.keys()}
        model = {name: options.pop(name) for name in ("lam", "unrolled") if name in options}
        decay = options.pop("weight_decay", 0.0)
        options |= {"lam": herta.Unfolding(**model), "loss": herta.Regularized(loss, decay), "device": self.device}
        data = self.graph, self.features, self.labels
        if optimizer.startswith("algorithm-1"):
            settings = herta.Optimizer("gd", **how)
            return algorithm1.fit(*data, printed=optimizer.endswith("as-printed"), optimizer=settings, **options)
        return herta.fit(*data, optimizer=herta.Optimizer(optimizer, **how), **options)

    def built(self, optimizer: str, *, lam: float, train: np.ndarray, seed: list[int]) -> tuple[herta.Preconditioner, float]:
        """A sketched preconditioner for a grid of learning rates, factorized, and the seconds that it took.

        For "algorithm-1" its own, from a sparsified graph: with it gradient descent is the corrected Algorithm 1.
        """
        rng, began = np.random.default_rng(seed), time.perf_counter()
        if optimizer == "algorithm-1":
            model = self.graph, self.features, self.labels, herta.Unfolding(lam), herta.Regularized()
            problem = inputs.read(*model, train=train, device=self.device)
            _, P = algorithm1.prepare(problem, rows=SKETCH * self.n_features, tol=TOLERANCE, printed=False, rng=rng)
        else:
            P = herta.precondition(self.graph, self.features, lam=lam, train=train, how="sketched", device=self.device, rng=rng)
        factorize = P.root if optimizer == "adam" else P.solve
        factorize(torch.zeros((self.n_features, 1), dtype=P.dtype, device=P.device))
        return P, time.perf_counter() - began

    def optimum(self, *, loss: str, lam: float, train: np.ndarray) -> float:
        """The smallest training loss, by accurate solves; that of separable classes is zero."""
        options: dict[str, Any] = {"loss": loss, "lam": lam, "train": train}
        if loss == "mse":
            return self.fit(**options, optimizer="direct", tol=1e-12, inner_tol=1e-11).loss
        result = self.fit(**options, tol=1e-12, inner_tol=1e-10, max_iterations=5000)
        return 0.0 if result.status is Status.SEPARABLE else result.loss

    def start(self, *, loss: str, train: np.ndarray) -> float:
        """The loss at W = 0."""
        return 0.5 * train.size if loss == "mse" else train.size * math.log(self.n_classes)


@cache
def loaded(name: str, device: str | None = None) -> Loaded:
    """A node classification data set, its adjacency prepared once, for trainings on a device (default: the CPU)."""
    data = nareg.datasets.load(name)
    split = data.splits[0] if name in STANDARD else None
    return Loaded(nareg.gnn.Adjacency(data.graph), data.features, data.labels, device, split)


def median(rows: list[Row], key: str) -> float:
    """Of a column; what a run did not get to counts as infinite."""
    values = [math.inf if row[key] is None else float(row[key]) for row in rows]
    return float(np.median(values)) if values else math.inf


def said(number: float, limit: float) -> str:
    """A count, or that it was not reached within what was allowed."""
    return f"not in {limit:g}" if math.isinf(number) else f"{number:g}"
