"""
Learn the graph from the signals
================================

No positions, no edges: stations whose readings move together become neighbors.
"""

import matplotlib.pyplot as plt

import nareg

network = nareg.datasets.load("us-weather").complete()
field = network.signals - network.signals.mean(axis=1, keepdims=True)  # each station around its own mean
learned = nareg.graphs.learn(field, neighbors=5, coordinates=network.graph.coordinates, metric="haversine")
print(f"{learned.status.name} in {learned.iterations} steps, duality gap {learned.gap:.1e}")

# %%
# Positions were used for the picture only. They show that neighbors by weather are mostly neighbors on the map.
figure, axes = plt.subplots(1, 2, figsize=(12, 3.6), layout="constrained")
for ax, graph, title in zip(axes, (network.graph, learned.graph), ("nearest neighbors", "learned from readings"), strict=True):
    nareg.plotting.network(graph, network.signals[:, 0], ax=ax, label="°C")
    ax.set_title(f"{title}: {graph.n_edges} edges")
