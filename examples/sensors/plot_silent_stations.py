"""
Estimate silent stations
========================

Forty stations do not report today. Edge weights that were designed for those that do estimate them from their neighbors.
"""

import matplotlib.pyplot as plt
import numpy as np

import nareg

network = nareg.datasets.load("us-weather").complete()
rng = np.random.default_rng(5)
graph, field = network.graph, network.signals - network.signals.mean()
past, today = field[:, :180], field[:, 200]
observed = np.ones(graph.n_nodes, dtype=bool)
observed[rng.choice(graph.n_nodes, 40, replace=False)] = False

design = nareg.design.edge(graph, signals=past, noise=1.0, data_weight=observed.astype(float))
readings = np.where(observed, today + rng.standard_normal(graph.n_nodes), np.nan)  # noise of 1 °C
filled = nareg.filters.interpolate(graph, design, np.nan_to_num(readings), observed).x
print(f"error at silent stations: {np.std(filled[~observed] - today[~observed]):.2f} °C")
print(f"spread of their field: {np.std(today[~observed]):.2f} °C")

# %%
mean = network.signals.mean()
limits = (float(today.min() + mean), float(today.max() + mean))
figure, axes = plt.subplots(1, 2, figsize=(12, 3.6), layout="constrained")
for ax, values, title in zip(axes, (readings, filled), ("readings of today", "estimate"), strict=True):
    nareg.plotting.network(graph, values + mean, ax=ax, label="°C", limits=limits, colorbar=ax is axes[1])
    ax.set_title(title)
