"""Small problems with their dense float64 answers."""

from __future__ import annotations

import numpy as np
import scipy.optimize
from scipy.special import logsumexp, softmax

import nareg
from experiments import _algorithm1 as algorithm1
from nareg import herta
from nareg.gnn import Adjacency

ONE_HOT = np.eye(3)
#: Ways to train that columns in different units must not disturb.
UNITS = [
    {"optimizer": "direct"},
    {"optimizer": "pcg", "preconditioner": "exact"},
    {"optimizer": "pcg", "preconditioner": "sketched"},
    {"optimizer": "lbfgs", "preconditioner": "exact"},
    {"optimizer": "gd", "preconditioner": "exact"},
]


def laplacian(graph, kind="augmented"):
    adjacency = Adjacency(graph)
    return (adjacency.augmented_laplacian if kind == "augmented" else adjacency.laplacian).toarray()


def propagated(graph, X, lam, kind="augmented"):
    """``F = H^-1 X`` at all nodes."""
    L = laplacian(graph, kind)
    return np.linalg.solve(np.eye(len(L)) + lam * L, X)


def problem(rng, n=60, d=8, classes=3):
    graph = nareg.graphs.erdos_renyi(n, 0.1, rng=rng)
    return graph, rng.standard_normal((n, d)), rng.integers(0, classes, n), np.sort(rng.permutation(n)[: 3 * n // 4])


def best_squared(F, Y, weight_decay=0.0):
    """Smallest ``1/2 ||F W - Y||^2 + weight_decay/2 ||W||^2``."""
    d = F.shape[1]
    stacked = np.vstack([F, np.sqrt(weight_decay) * np.eye(d)])
    W = np.linalg.lstsq(stacked, np.vstack([Y, np.zeros((d, Y.shape[1]))]), rcond=None)[0]
    return 0.5 * ((F @ W - Y) ** 2).sum() + 0.5 * weight_decay * (W**2).sum()


def cross_entropy(F, labels, W, weight_decay=0.0):
    Z = F @ W
    rows = np.arange(len(labels))
    value = (logsumexp(Z, axis=1) - Z[rows, labels]).sum() + 0.5 * weight_decay * (W**2).sum()
    P = softmax(Z, axis=1)
    P[rows, labels] -= 1
    return value, F.T @ P + weight_decay * W


def best_cross_entropy(F, labels, classes, weight_decay=0.0):
    shape = (F.shape[1], classes)

    def flat(w):
        value, gradient = cross_entropy(F, labels, w.reshape(shape), weight_decay)
        return value, gradient.ravel()

    options = {"maxiter": 5000, "maxfun": 10**5, "ftol": 0, "gtol": 1e-9}
    return scipy.optimize.minimize(flat, np.zeros(shape[0] * classes), jac=True, method="L-BFGS-B", options=options).fun


OPTIMIZER = {"learning_rate", "dropout", "tol", "inner_tol", "max_iterations", "stop_below", "validation", "patience"}


def grouped(*, optimizer="auto", loss="mse", **options):
    """Arguments of ``herta.fit`` from a flat list of settings."""
    how = {name: options.pop(name) for name in OPTIMIZER & options.keys()}
    model = {name: options.pop(name) for name in ("lam", "kind", "unrolled") if name in options}
    if "rows" in options:
        assert options.get("preconditioner") == "sketched"
        options["preconditioner"] = herta.Sketched(options.pop("rows"))
    if "weight_decay" in options:
        loss = herta.Regularized(loss, options.pop("weight_decay"))
    return options | {
        "optimizer": herta.Optimizer(optimizer, **how) if how else optimizer,
        "loss": loss,
        "lam": herta.Unfolding(**model) if model.keys() - {"lam"} else model.get("lam", 1.0),
    }


def fit(graph, features, targets, *, optimizer="auto", **settings):
    """``herta.fit`` or Algorithm 1 with its settings in one flat list."""
    if not str(optimizer).startswith("algorithm-1"):
        return herta.fit(graph, features, targets, **grouped(optimizer=optimizer, **settings))
    if "rows" in settings:
        settings["preconditioner"] = "sketched"
    printed = optimizer.endswith("as-printed")
    return algorithm1.fit(graph, features, targets, printed=printed, **grouped(optimizer="gd", **settings))
