"""
The best single weight
======================

The denoiser is :math:`(I + w^2 L)^{-1} y`. A small weight leaves the noise, a large one flattens the field. Cross-validation
finds a weight near the best one without knowing the truth.
"""

import matplotlib.pyplot as plt
import numpy as np

import nareg

network = nareg.datasets.load("us-weather").complete()
graph, field = network.graph, network.signals - network.signals.mean()
noisy = field + 5.0 * np.random.default_rng(0).standard_normal(field.shape)  # noise of 5 °C

weights = np.geomspace(0.05, 5, 40)
risks = [nareg.design.risk(graph, w, signals=field, noise=25.0) for w in weights]
chosen = nareg.design.node_invariant(graph, rule="gcv", measurements=noisy)

# %%
figure, ax = plt.subplots(figsize=(7, 4))
power = np.mean(np.sum(field**2, axis=0))
ax.loglog(weights, [r.mse / power for r in risks], color="black", label="NMSE")
ax.loglog(weights, [r.bias / power for r in risks], "--", color="#0072B2", label="squared bias")
ax.loglog(weights, [r.variance / power for r in risks], "-.", color="#D55E00", label="variance")
ax.axvline(float(np.ravel(chosen.weights)[0]), color="0.6", label="chosen by cross-validation")
ax.set(xlabel="weight w", ylabel="share of the field's power", ylim=(1e-3, 2))
ax.legend()
figure.tight_layout()
