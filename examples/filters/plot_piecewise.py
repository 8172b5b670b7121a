"""
A field with a jump
===================

Smoothing blurs a jump. Total variation keeps it; so do weights that learned from clean fields where the jump lies.
"""

import matplotlib.pyplot as plt
import numpy as np

import nareg

rng = np.random.default_rng(0)
graph = nareg.graphs.grid((30, 30))
rows, columns = np.divmod(np.arange(900), 30)
steps = np.where(rows + 0.5 * columns > 24, 1.0, 0.0)
noisy = steps + 0.4 * rng.standard_normal(900)
past = steps[:, None] * rng.uniform(0.5, 1.5, 60) + 0.1 * rng.standard_normal((1, 60))  # like fields of other days

one = nareg.design.node_invariant(graph, rule="oracle", signals=past, noise=0.16)
edge = nareg.design.edge(graph, signals=past, noise=0.16)
estimates = {
    "readings": noisy,
    "one weight": nareg.filters.denoise(graph, one, noisy).x,
    "total variation": nareg.baselines.total_variation(graph, noisy, weight=0.7),
    "edge": nareg.filters.denoise(graph, edge, noisy).x,
}

# %%
figure, axes = plt.subplots(1, 4, figsize=(12, 3.4), layout="constrained")
for ax, (name, x) in zip(axes, estimates.items(), strict=True):
    picture = ax.imshow(x.reshape(30, 30), vmin=-0.3, vmax=1.3, cmap="cividis")
    ax.set_title(f"{name}: error {np.sqrt(np.mean((x - steps) ** 2)):.2f}")
    ax.axis("off")
figure.colorbar(picture, ax=axes, shrink=0.8)
