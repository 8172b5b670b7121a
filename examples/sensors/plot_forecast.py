"""
Forecast with a band
====================

The model that smooths also forecasts. Its band grows with the step, and returns to the station's own spread.
"""

import matplotlib.pyplot as plt
import numpy as np

import nareg

network = nareg.datasets.simulated(20, 432, faults=(), rng=np.random.default_rng(2))
past = slice(0, 360)
model = nareg.spacetime.fit(network.graph(), network.readings[:, past], times=network.times[past], rng=np.random.default_rng(0))
ahead = model.forecast(72)
low, high = ahead.interval(0.9)
inside = (low < network.truth[:, 360:]) & (network.truth[:, 360:] < high)
print(f"The 90 % band holds {inside.mean():.0%} of the truth.")

# %%
hours = np.arange(432) / 6
i = 3
figure, ax = plt.subplots(figsize=(9, 3.8))
ax.plot(hours[past], network.readings[i, past], ".", color="0.6", markersize=4, label="readings")
ax.plot(hours, network.truth[i], color="black", linewidth=1, label="truth")
ax.fill_between(hours[360:], low[i], high[i], color="#D55E00", alpha=0.25, linewidth=0, label="90 % band")
ax.plot(hours[360:], ahead.x[i], color="#D55E00", label="forecast")
ax.set(xlabel="hours", ylabel="station 3 (°C)", xlim=(30, 72))
ax.legend(ncols=4, loc="lower center", bbox_to_anchor=(0.5, 1))
figure.tight_layout()
