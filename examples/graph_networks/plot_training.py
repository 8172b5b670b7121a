"""
Train an unfolded network in a few iterations
=============================================

An unfolded network smooths a linear model over the graph. A preconditioner from the graph makes its training converge in a
handful of iterations.
"""

import matplotlib.pyplot as plt
import numpy as np

import nareg
from nareg import herta

data = nareg.datasets.node_classification.synthetic(1500, 5, rng=np.random.default_rng(0))
train = np.arange(1000)
figure, ax = plt.subplots(figsize=(7, 4))
best = herta.fit(data.graph, data.features, data.labels, lam=5.0, train=train, optimizer="direct").loss
for name, marker in (("gd", "o"), ("pcg", "s")):
    result = herta.fit(data.graph, data.features, data.labels, lam=5.0, train=train, optimizer=name)
    print(name, result.status.value, result.losses.size, "losses")
    ax.semilogy(np.maximum(result.losses / best - 1, 1e-16), marker=marker, label=name)
ax.set(xlabel="iteration", ylabel="loss above its minimum, relative")
ax.legend()
figure.tight_layout()
