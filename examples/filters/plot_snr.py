"""
Compare designs over the noise level
====================================

The picture of the literature: NMSE over the signal-to-noise ratio, one curve per design, with the Wiener filter as the limit.
"""

import numpy as np

import nareg

network = nareg.datasets.load("us-weather").complete()
graph, field = network.graph, network.signals - network.signals.mean()
month = np.arange(365) // 30 % 2  # blocks of 30 days, in turn: past and new
past, new = field[:, month == 0], field[:, month == 1]

levels = (-10, -5, 0, 5, 10)
curves = {name: [] for name in ("one weight", "exact", "edge", "Wiener filter")}
for snr in levels:
    noise = np.mean(past**2) / 10 ** (snr / 10)
    designs = {
        "one weight": nareg.design.node_invariant(graph, rule="oracle", signals=past, noise=noise),
        "exact": nareg.design.exact(graph, signals=past, noise=noise),
        "edge": nareg.design.edge(graph, signals=past, noise=noise),
    }
    for name, design in designs.items():
        curves[name].append(nareg.design.risk(graph, design, signals=new, noise=noise).nmse)
    noisy = new + np.sqrt(noise) * np.random.default_rng(0).standard_normal(new.shape)
    wiener = nareg.baselines.lmmse(graph, noisy, signals=past, noise=noise)
    curves["Wiener filter"].append(float(np.sum((wiener - new) ** 2) / np.sum(new**2)))

# %%
axes = nareg.plotting.curves(levels, curves, limit="Wiener filter")
axes.figure.tight_layout()
