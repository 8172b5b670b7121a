"""
Follow readings as they arrive
==============================

A stream takes one time after the other. It corrects its estimate, and scores each reading before it uses it.
"""

import matplotlib.pyplot as plt
import numpy as np

import nareg

rng = np.random.default_rng(4)
network = nareg.datasets.simulated(20, 432, faults=(), rng=rng)
model = nareg.spacetime.fit(network.graph(), network.readings[:, :288], times=network.times[:288], rng=rng)

stream = model.stream()
live = network.readings[:, 288:].copy()
live[7, 60] += 12.0  # a spike
estimate, score = [], []
for reading in live.T:
    now = stream.update(reading)
    estimate.append(now.x[7])
    score.append(now.scores[7])

# %%
hours = np.arange(live.shape[1]) / 6
figure, (top, bottom) = plt.subplots(2, 1, figsize=(9, 5), sharex=True, height_ratios=[2, 1])
top.plot(hours, live[7], ".", color="0.6", label="readings")
top.plot(hours, estimate, color="#0072B2", label="estimate so far")
top.plot(hours, network.truth[7, 288:], "--", color="black", linewidth=1, label="truth")
top.set_ylabel("station 7 (°C)")
top.legend(ncols=3, loc="lower center", bbox_to_anchor=(0.5, 1))
bottom.plot(hours, score, ".", color="#D55E00")
bottom.axhspan(-4, 4, color="0.9", zorder=0)
bottom.set(xlabel="hours", ylabel="score (std)")
figure.tight_layout()
