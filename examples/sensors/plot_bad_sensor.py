"""
Find a bad sensor
=================

One of twenty sensors begins to drift. The model predicts every reading from all others, and the quality check names the
sensor with the evidence.
"""

import matplotlib.pyplot as plt
import numpy as np

import nareg

rng = np.random.default_rng(1)
network = nareg.datasets.simulated(20, 336, step_minutes=60, faults=(), rng=rng)  # two weeks of hours
readings, bad = nareg.datasets.inject(network.readings, "drift", 5, rng=rng, size=2.0)

model = nareg.spacetime.fit(network.graph(), readings, times=network.times, dynamics="scalar", rng=rng)
quality = nareg.quality.check(model)
print(quality.summary())

# %%
# What the sensor read, since when it drifts, and since when the check says so.
days = (network.times - network.times[0]) / np.timedelta64(1, "D")
figure, ax = plt.subplots(figsize=(9, 3.6))
ax.plot(days, readings[5], ".", color="0.6", label="readings")
ax.plot(days, network.truth[5], color="black", linewidth=1, label="truth")
ax.axvspan(days[bad[5].argmax()], days[-1], color="#D55E00", alpha=0.12, label="drift")
for suspect in quality.suspects:
    if suspect.station == 5:
        start = (suspect.start - network.times[0]) / np.timedelta64(1, "D")
        ax.axvline(start, color="#D55E00", label="found from here on")
ax.set(xlabel="days", ylabel="station 5 (°C)")
ax.legend(ncols=4, loc="lower center", bbox_to_anchor=(0.5, 1))
figure.tight_layout()
