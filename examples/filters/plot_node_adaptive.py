"""
One weight per node, from noisy signals alone
=============================================

A field that is a hundred times stronger in one part of the network than in another needs another weight there. ``blind``
learns the weights from noisy signals alone; ``exact`` knows clean ones.
"""

import matplotlib.pyplot as plt
import numpy as np

import nareg

rng = np.random.default_rng(0)
graph = nareg.graphs.sensor(80, rng=rng)
scale = np.exp(2.5 * np.cos(3 * graph.coordinates[:, 0]))  # how strong the field is at a node
smooth = nareg.filters.denoise(graph, 4.0, rng.standard_normal((80, 200))).x
signals = scale[:, None] * smooth
noise = 0.1 * np.mean(signals**2)  # a variance: 10 dB
noisy = signals + np.sqrt(noise) * rng.standard_normal(signals.shape)

designs = {
    "one weight": nareg.design.node_invariant(graph, rule="oracle", signals=signals, noise=noise),
    "blind": nareg.design.blind(graph, measurements=noisy, noise=noise),
    "exact": nareg.design.exact(graph, signals=signals, noise=noise),
}
for name, design in designs.items():
    print(f"{name}: NMSE {nareg.design.risk(graph, design, signals=signals, noise=noise).nmse:.4f}")

# %%
figure, axes = plt.subplots(1, 2, figsize=(11, 4.6), layout="constrained")
nareg.plotting.network(graph, np.log10(scale), ax=axes[0], label="log10 of the field's strength")
nareg.plotting.network(graph, np.log10(designs["blind"].weights), ax=axes[1], label="log10 of the weight", cmap="cividis")
axes[0].set_title("the field")
axes[1].set_title("weights of blind")
