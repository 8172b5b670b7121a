"""
Design for the worst case
=========================

You know only a lowest and a highest value per station. A min-max design bounds the error of every smooth field between them,
with a certificate.
"""

import matplotlib.pyplot as plt
import numpy as np

import nareg

network = nareg.datasets.load("us-weather").complete()
graph, field = network.graph, network.signals - network.signals.mean()
low, high = field.min(axis=1), field.max(axis=1)
smoothness = float(np.max(np.einsum("nt,nt->t", field, graph.laplacian() @ field)))  # of the roughest day

weights = np.geomspace(0.1, 3, 12)
kind = nareg.design.SmoothBox(smoothness)
worst = [
    nareg.design.worst_case(graph, w, signal_low=low, signal_high=high, noise=25.0, uncertainty=kind).upper for w in weights
]
typical = [nareg.design.risk(graph, w, signals=field, noise=25.0).mse for w in weights]

# %%
figure, ax = plt.subplots(figsize=(7, 4))
n = graph.n_nodes
ax.loglog(weights, np.sqrt(np.array(worst) / n), "o-", color="#D55E00", label="worst field, proven")
ax.loglog(weights, np.sqrt(np.array(typical) / n), "s-", color="#0072B2", label="mean over a year")
ax.set(xlabel="weight w", ylabel="error per station (°C)")
ax.legend()
figure.tight_layout()
