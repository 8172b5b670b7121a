"""
How noisy is each station?
==========================

Stations differ in quality. Their noise variances can be estimated from noisy readings alone, and then weigh the readings.
"""

import matplotlib.pyplot as plt
import numpy as np

import nareg

network = nareg.datasets.load("us-weather").complete()
rng = np.random.default_rng(0)
graph, field = network.graph, network.signals - network.signals.mean()
std = rng.uniform(0.5, 6.0, graph.n_nodes)  # °C
readings = field + std[:, None] * rng.standard_normal(field.shape)
estimated = nareg.design.estimate_noise(graph, readings)

for data_weight in (None, "noise"):
    weight = nareg.design.node_invariant(graph, rule="sure", measurements=readings, noise=estimated, data_weight=data_weight)
    x = nareg.filters.denoise(graph, weight, readings).x
    print(f"data_weight={data_weight!r}: error {np.sqrt(np.mean((x - field) ** 2)):.2f} °C")

# %%
figure, ax = plt.subplots(figsize=(5, 4.6))
ax.plot([0, 7], [0, 7], color="0.7", linewidth=1)
ax.plot(std, np.sqrt(estimated), "o", color="#0072B2", markersize=4)
ax.set(xlabel="true standard deviation of the noise (°C)", ylabel="estimated (°C)", xlim=(0, 7), ylim=(0, 7))
ax.set_aspect("equal")
figure.tight_layout()
