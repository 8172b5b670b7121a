"""
See what an edge design learned
===============================

``edge`` gives every edge its own weight: a large one joins stations whose fields move together.
"""

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.collections import LineCollection
from matplotlib.colors import LogNorm

import nareg

network = nareg.datasets.load("us-weather").complete()
graph, field = network.graph, network.signals - network.signals.mean()
design = nareg.design.edge(graph, signals=field, noise=25.0, structure="laplacian")

# %%
# The off-diagonal entries of S are minus the weights of the edges.
S = design.matrix.toarray()
i, j = graph.to_edge_index()[0]
i, j = i[i < j], j[i < j]
strength = np.maximum(-S[i, j], 0.0)

figure, ax = plt.subplots(figsize=(9, 4.8))
places = graph.coordinates[:, ::-1]
shown = np.maximum(strength, 1e-3)
lines = LineCollection(
    np.stack([places[i], places[j]], axis=1), array=shown, norm=LogNorm(1e-3, shown.max()), cmap="cividis_r", linewidths=2
)
ax.add_collection(lines)
ax.plot(*places.T, "o", color="black", markersize=2.5)
ax.set(xlabel="longitude (°)", ylabel="latitude (°)", aspect=1 / np.cos(np.radians(38)))
figure.colorbar(lines, label="weight of the edge", shrink=0.8)
figure.tight_layout()
