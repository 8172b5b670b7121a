"""
Classify nodes with noisy features
==================================

A graph convolution is a graph filter and a linear layer. The longer the filter's reach, the more noise it averages away.
"""

import matplotlib.pyplot as plt
import numpy as np

import nareg
from nareg.gnn import networks, training

data = nareg.datasets.node_classification.synthetic(600, 4, rng=np.random.default_rng(0))
models = {
    "perceptron": lambda f, c: networks.FilteredNetwork(f, c, hidden=(16,), dropout=0.5),
    "two neighborhoods": lambda f, c: networks.FilteredNetwork(f, c, hidden=(16,), dropout=0.5, weights=[0.0, 0.0, 1.0]),
    "NGC": nareg.gnn.Candidate(lambda f, c: networks.FilteredNetwork(f, c, lam=32.0), learning_rate=0.1),
}
levels = (0.0, 0.5, 1.0, 2.0)
means = {name: [] for name in models}
for level in levels:

    def noisy(rng, level=level):
        x = data.dense_features() + level * rng.standard_normal((data.n_nodes, data.n_features))
        return x / np.maximum(np.linalg.norm(x, axis=1, keepdims=True), 1e-12)

    protocol = training.Protocol(epochs=80)
    result = nareg.gnn.compare(data, models, draw=noisy, runs=2, protocol=protocol, rng=np.random.default_rng(1))
    for name, summary in result.summary().items():
        means[name].append(summary.mean)

# %%
figure, ax = plt.subplots(figsize=(7, 4))
for (name, accuracy), marker in zip(means.items(), "osD", strict=True):
    ax.plot(levels, accuracy, marker=marker, label=name)
ax.set(xlabel="standard deviation of the noise", ylabel="test accuracy (%)")
ax.legend()
figure.tight_layout()
