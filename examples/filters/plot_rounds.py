"""
Filter on the devices themselves
================================

A network without a center: each device sends one number to each neighbor per round. How many rounds does the filter take?
"""

import matplotlib.pyplot as plt
import numpy as np

import nareg

network = nareg.datasets.load("us-weather").complete()
graph, field = network.graph, network.signals - network.signals.mean()
y = field[:, 200] + 5.0 * np.random.default_rng(0).standard_normal(graph.n_nodes)

tolerances = 10.0 ** -np.arange(1, 9)
figure, ax = plt.subplots(figsize=(7, 4))
for method, marker in (("jacobi", "o"), ("chebyshev", "s")):
    solutions = [nareg.filters.denoise(graph, 1.0, y, method=method, tol=tol) for tol in tolerances]
    ax.semilogy([s.iterations for s in solutions], tolerances, marker=marker, label=method)
    print(method, solutions[2].iterations, "rounds,", solutions[2].messages, "messages for three digits")
ax.set(xlabel="rounds", ylabel="relative residual")
ax.legend()
figure.tight_layout()
