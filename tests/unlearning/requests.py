"""Models that unlearn, all kinds of requests, and a machine that checks any mixture of them."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

import nareg
from nareg.errors import InputError
from nareg.unlearning import CertifiedGPR
from tests.unlearning import reference


def problem(rng, n=60, classes=3):
    data = nareg.datasets.node_classification.synthetic(n, classes, n_features=6, rng=rng)
    return data.graph, data.features.astype(float), data.labels.copy()


def fitted(rng, *, classes=3, **settings):
    graph, X, y = problem(rng, classes=classes)
    settings = {"lam": 1e-2, "alpha": 0.1} | settings
    return CertifiedGPR(rng=rng, **settings).fit(graph, X, y, np.arange(40)), graph, X, y


def true_gradient(model, A, X, y, train):
    """Norm of the perturbed gradient at the model's coefficients on what remains."""
    Z = reference.embedding(A, X, model.weights)[train]
    signs = reference.signs(y[train], model.classes)
    return np.linalg.norm(reference.gradient(Z, signs, model.coefficients, model._head.B, model.lam, model.loss.name))


class Requests(RuleBasedStateMachine):
    """Any mixture of requests: embedding and gradient are those of the raw data that remain."""

    r_max = 0.0
    memory: int | None = None

    @initialize(seed=st.integers(0, 2**16), loss=st.sampled_from(["logistic", "squared"]), classes=st.integers(2, 3))
    def start(self, seed, loss, classes):
        self.rng = np.random.default_rng(seed)
        graph, self.X, self.y = problem(self.rng, n=24, classes=classes)
        self.A = graph.adjacency.toarray()
        self.train = set(range(16))
        self.gone = set()
        stated = {"weights": [0.1, 0.3, 0.6], "loss": loss, "r_max": self.r_max, "alpha": 5.0 if self.r_max else 0.1}
        model = CertifiedGPR(rng=self.rng, **stated, **self.options())
        self.model = model.fit(graph, self.X, self.y, sorted(self.train), memory=self.memory)
        self.certificate = self.model.certificate()
        self.begun()

    def options(self):
        """More arguments of the model."""
        return {}

    def begun(self):
        """For machines with more to start."""

    def some(self, candidates, most):
        picked = self.rng.permutation(np.asarray(candidates))
        return picked[: self.rng.integers(1, most + 1)]

    def keeps_classes(self, nodes):
        left = self.train - set(nodes)
        return {int(self.y[i]) for i in left} == set(self.model.classes.tolist())

    @precondition(lambda self: self.A.any())
    @rule()
    def remove_edges(self):
        pairs = self.some(np.argwhere(np.triu(self.A)), 4)
        self.certificate = self.model.remove_edges(pairs)
        self.A[pairs[:, 0], pairs[:, 1]] = self.A[pairs[:, 1], pairs[:, 0]] = 0

    @rule()
    def add_edges(self):
        here = [i for i in range(len(self.X)) if i not in self.gone]
        free = [(u, v) for u in here for v in here if u < v and not self.A[u, v]]
        if free:
            pairs = self.some(free, 4)
            self.certificate = self.model.add_edges(pairs)
            self.A[pairs[:, 0], pairs[:, 1]] = self.A[pairs[:, 1], pairs[:, 0]] = 1

    @rule()
    def remove_nodes(self):
        nodes = self.some([i for i in range(len(self.X)) if i not in self.gone] or [0], 2)
        if self.gone.intersection(nodes.tolist()) or not self.keeps_classes(nodes.tolist()):
            with pytest.raises(InputError):
                self.model.remove_nodes(nodes)
            return
        self.certificate = self.model.remove_nodes(nodes)
        self.A[nodes] = self.A[:, nodes] = self.X[nodes] = 0
        self.gone |= set(nodes.tolist())
        self.train -= self.gone

    @rule(labels=st.booleans())
    def remove_features(self, labels):
        nodes = self.some([i for i in range(len(self.X)) if i not in self.gone] or [0], 2)
        if self.gone.intersection(nodes.tolist()) or (labels and not self.keeps_classes(nodes.tolist())):
            with pytest.raises(InputError):
                self.model.remove_features(nodes, labels=labels)
            return
        self.certificate = self.model.remove_features(nodes, labels=labels)
        self.X[nodes] = 0
        if labels:
            self.train -= set(nodes.tolist())

    @rule()
    def add_nodes(self):
        count, n = int(self.rng.integers(1, 3)), len(self.X)
        new, labels = self.rng.standard_normal((count, 6)), self.rng.choice([-1, *self.model.classes], count)
        self.certificate = self.model.add_nodes(new, labels=labels)
        self.X, self.y = np.concatenate([self.X, new]), np.concatenate([self.y, labels])
        self.A = np.pad(self.A, (0, count))
        self.train |= {n + k for k in range(count) if labels[k] >= 0}

    @rule()
    def renew(self):
        before = self.model._head.B
        self.certificate = self.model.renew()
        assert self.certificate.retrained
        assert np.abs(self.model._head.B - before).min() > 0

    @invariant()
    def what_is_promised_holds(self):
        model, stated = self.model, self.certificate
        Z = reference.embedding(self.A, self.X, model.weights)
        train = sorted(self.train)
        assert model.train.tolist() == train
        if not self.r_max:
            np.testing.assert_allclose(model.embedding(), Z, atol=1e-12)
        assert true_gradient(model, self.A, self.X, self.y, train) <= stated.spent <= stated.budget
        assert stated.spent == stated.residual + stated.approximation
        assert (stated.n_nodes, stated.n_edges, stated.n_train) == (len(self.X) - len(self.gone), self.A.sum() / 2, len(train))


def state(model):
    live = model._data.graph.adjacency()
    embedding = model.embedding(), model.labels, model.train, model.coefficients, model._data.gone, live.toarray()
    return [part.copy() for part in embedding]


def assert_same(before, after):
    for one, other in zip(before, after, strict=True):
        np.testing.assert_allclose(one, other, atol=1e-12)


def pairs(model, present):
    return np.argwhere(np.triu(model._data.graph.adjacency().toarray() == present, 1))[:3]


REQUESTS = {
    "remove_edges": lambda model: model.remove_edges(pairs(model, 1)),
    "remove_nodes": lambda model: model.remove_nodes([0, 50]),
    "remove_features": lambda model: model.remove_features([1, 51], labels=True),
    "add_edges": lambda model: model.add_edges(np.argwhere(np.triu(model._data.graph.adjacency().toarray() == 0, 1))[:3]),
    "add_nodes": lambda model: model.add_nodes(np.ones((2, 6)), labels=[1, -1]),
    "renew": lambda model: model.renew(),
}
