"""
Use time as well as space
=========================

A filter of one day's readings knows the neighbors. A model of space and time knows the days before and after too.
Both learn from the noisy readings alone.
"""

import numpy as np

import nareg

network = nareg.datasets.load("us-weather").complete()
rng = np.random.default_rng(0)
graph, truth = network.graph, network.signals[:, :100]
readings = truth + 5.0 * rng.standard_normal(truth.shape)  # noise of 5 °C

# %%
# One weight for all stations, chosen by cross-validation; one mean is removed and put back.
mean = readings.mean()
weight = nareg.design.node_invariant(graph, rule="gcv", measurements=readings - mean)
daily = nareg.filters.denoise(graph, weight, readings - mean).x + mean

# %%
# The state-space model.
model = nareg.spacetime.fit(graph, readings, times=network.times[:100], dynamics="scalar", rng=rng)
smoothed = model.smooth()

for name, x in (("readings", readings), ("one day", daily), ("space and time", smoothed.x)):
    print(f"{name}: error {np.sqrt(np.mean((x - truth) ** 2)):.2f} °C")

# %%
i = 40
lines = {"readings": readings[i], "truth": truth[i], "one day": daily[i], "space and time": smoothed.x[i]}
axes = nareg.plotting.series(network.times[:100], lines, ylabel=f"{network.names[i]} (°C)")
axes.figure.tight_layout()
