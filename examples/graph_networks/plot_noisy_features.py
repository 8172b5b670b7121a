"""
Classify nodes with noisy features
==================================

A graph convolution is a graph filter and a linear layer. The longer the filter's reach, the more noise it averages away.
"""

import matplotlib.pyplot as plt
import numpy as np

import nareg
from nareg.gnn import comparison, networks, noise, peers, training

data = nareg.datasets.node_classification.synthetic(600, 4, rng=np.random.default_rng(0))
recipes = {
    "perceptron": comparison.Recipe(peers.mlp),
    "GCN": comparison.Recipe(peers.gcn),
    "NGC": comparison.Recipe(lambda f, c: networks.FilteredNetwork(f, c, lam=32.0), learning_rate=0.1),
}
levels = (0.0, 0.5, 1.0, 2.0)
means = {name: [] for name in recipes}
for level in levels:

    def noisy(rng, level=level):
        return noise.normalize_rows(noise.add_gaussian(data.dense_features(), level, rng))

    result = comparison.compare(
        recipes,
        data.graph,
        noisy,
        data.labels,
        data.splits[0],
        runs=2,
        protocol=training.Protocol(epochs=80),
        rng=np.random.default_rng(1),
    )
    for name in recipes:
        means[name].append(result.accuracies(name).mean())

# %%
figure, ax = plt.subplots(figsize=(7, 4))
for (name, accuracy), marker in zip(means.items(), "osD", strict=True):
    ax.plot(levels, accuracy, marker=marker, label=name)
ax.set(xlabel="standard deviation of the noise", ylabel="test accuracy (%)")
ax.legend()
figure.tight_layout()
