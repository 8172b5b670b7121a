"""What certificates cost in accuracy: against ridge, (eps, delta) and number of requests on Cora; defaults on three data sets.

    python benchmarks/unlearning_utility.py [docs/images/unlearning-utility.png]

1,208 random nodes are trained on, all other labeled ones are tested. "Before" is lam = 0.01 and alpha = 0.1, the defaults of
earlier versions.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt
import numpy as np

import nareg
from nareg.datasets.node_classification import NodeClassification
from nareg.errors import UtilityWarning
from nareg.unlearning import CertifiedGPR, FeatureScale
from nareg.unlearning.certificate import budget

TRAIN, SPLITS, REQUESTS = 1208, 3, 300
BEFORE: dict[str, Any] = {"lam": 1e-2, "alpha": 0.1}
PUBLISHED, ONE = "as published", "rows of length one"


def forms(data: NodeClassification) -> dict[str, np.ndarray]:
    """Features as published, and with rows of length one."""
    X = data.dense_features().astype(float)
    lengths = np.linalg.norm(X, axis=1, keepdims=True)
    return {PUBLISHED: X, ONE: X / np.where(lengths > 0, lengths, 1)}


def fitted(data: NodeClassification, X: np.ndarray, split: int, **options: Any) -> tuple[CertifiedGPR, np.ndarray]:
    """A model, and its test nodes."""
    order = np.random.default_rng(split).permutation(np.flatnonzero(data.labels >= 0))
    model = CertifiedGPR(rng=np.random.default_rng([split, 1]), **options)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UtilityWarning)
        model.fit(data.graph, X, data.labels, order[:TRAIN])
    return model, order[TRAIN:]


def accuracy(model: CertifiedGPR, data: NodeClassification, test: np.ndarray) -> float:
    test = np.intersect1d(test, model.remaining)
    return float(100 * (model.predict(test) == data.labels[test]).mean())


def mean_accuracy(data: NodeClassification, X: np.ndarray, *, splits: int = SPLITS, **options: Any) -> float:
    """Over the first splits."""
    models = (fitted(data, X, split, **options) for split in range(splits))
    return float(np.mean([accuracy(model, data, test) for model, test in models]))


def table(names: Sequence[str]) -> None:
    """Both defaults: accuracy, charge, budget that 100 removed nodes used, and how many retrained."""
    heads = f"{'lam':>9}{'alpha':>9}{'accuracy':>10}{'eps_scale':>11}{'used':>7}{'retrained':>11}"
    print(f"{'data':14}{'features':20}{'default':9}{heads}")
    for name in names:
        data = nareg.datasets.load(name)
        for form, X in forms(data).items():
            for default, options in (("before", BEFORE), ("now", {})):
                model, _ = fitted(data, X, 0, **options)
                lam, alpha, charge = model.lam, model.alpha, model.eps_scale
                nodes = np.random.default_rng(2).permutation(data.n_nodes)[:100]
                done = [model.remove_nodes([node]) for node in nodes]
                used, again = max(one.spent / one.budget for one in done), sum(one.retrained for one in done)
                mean = mean_accuracy(data, X, **options)
                print(f"{name:14}{form:20}{default:9}{lam:9.2g}{alpha:9.2g}{mean:9.1f}%{charge:11.2g}{used:7.1%}{again:11}")


def picture(path: Path) -> None:
    """Accuracy on Cora against ridge, (eps, delta) and number of requests, for one split."""
    data = nareg.datasets.load("cora")
    features = forms(data)
    figure, (ridge, privacy, requests) = plt.subplots(1, 3, figsize=(13, 4), layout="constrained", sharey=True)
    ridges = 10.0 ** np.arange(-5, 0.1, 0.5)
    colors = {PUBLISHED: "#0072B2", ONE: "#D55E00"}
    for form, X in features.items():
        values = [mean_accuracy(data, X, splits=1, lam=lam, alpha="auto") for lam in ridges]
        ridge.semilogx(ridges, values, color=colors[form], label=form)
        now, _ = fitted(data, X, 0)
        ridge.plot(now.lam, mean_accuracy(data, X, splits=1), "o", color=colors[form], label=f"default, {form}")
    ridge.axvline(BEFORE["lam"], color="gray", linestyle=":", label="default before")
    ridge.set(xlabel="ridge per training node lam", ylabel="accuracy on other nodes (%)", title="Ridge")

    X = features[ONE]
    now, _ = fitted(data, X, 0, lam=FeatureScale(norm=1.0))
    epsilons = 10.0 ** np.arange(-3, 1.1, 0.5)
    for delta, color in ((1e-4, "#0072B2"), (1e-10, "#009E73")):
        for size, style in ((1, "-"), (100, "--")):
            alphas = [size * now.budget / budget(1.0, eps, delta) for eps in epsilons]
            values = [mean_accuracy(data, X, splits=1, lam=now.lam, alpha=alpha) for alpha in alphas]
            label = f"delta {delta:g}, gradient of {size * now.budget:.2g}"
            privacy.semilogx(epsilons, values, style, color=color, label=label)
    privacy.set(xlabel="privacy loss eps", title="Noise that hides a gradient")

    nodes = np.random.default_rng(3).permutation(data.n_nodes)[:REQUESTS]
    for name, options, color in (("default", {"lam": FeatureScale(norm=1.0)}, "#D55E00"), ("default before", BEFORE, "gray")):
        model, test = fitted(data, X, 0, **options)
        counts, values, used, again = [0], [accuracy(model, data, test)], 0.0, 0
        for count, node in enumerate(nodes, start=1):
            certificate = model.remove_nodes([node])
            used, again = max(used, certificate.spent / certificate.budget), again + certificate.retrained
            if count % 50 == 0:
                counts.append(count)
                values.append(accuracy(model, data, test))
        print(f"{name}: {REQUESTS} requests used at most {used:.1%} of the budget, {again} retrained")
        requests.plot(counts, values, color=color, label=f"{name}: at most {used:.0%} of the budget, {again} retrained")
    requests.set(xlabel="nodes removed, one per request", title="Number of requests", ylim=(25, 95))
    for axes in (ridge, privacy, requests):
        axes.grid(alpha=0.3)
        axes.legend(fontsize=7, loc="lower left" if axes is not privacy else "lower right")
    figure.savefig(path, dpi=110)
    print(f"written: {path}")


if __name__ == "__main__":
    table(["cora", "citeseer", "amazon-photo"])
    picture(Path(sys.argv[1] if len(sys.argv) > 1 else "docs/images/unlearning-utility.png"))
