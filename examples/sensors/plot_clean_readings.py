"""
Clean noisy readings with gaps
==============================

Thirty stations read every ten minutes. Some are broken, readings are noisy, and a part of them is missing.
One call estimates the field, fills the gaps and names the bad sensors.
"""

import tempfile

import matplotlib.pyplot as plt
import numpy as np

import nareg

network = nareg.datasets.simulated(30, 288, rng=np.random.default_rng(3))
folder = network.to_csv(tempfile.mkdtemp())  # stations.csv and readings.csv, as yours
cleaned = nareg.clean(folder / "readings.csv", folder / "stations.csv", unit="°C", rng=np.random.default_rng(0))
print(cleaned.headline())
for suspect in cleaned.suspects:
    print(suspect)

# %%
# A gap of a station, and the band that holds the true value with a probability of 90 %.
station = cleaned.x.columns[4]
i = list(network.names).index(station)
low, high = cleaned.band(0.9)
hours = (network.times - network.times[0]) / np.timedelta64(1, "h")

figure, ax = plt.subplots(figsize=(9, 4))
ax.plot(hours, network.readings[i], ".", color="0.6", label="readings")
k = list(cleaned.x.columns).index(station)
ax.fill_between(hours, low[k], high[k], color="#0072B2", alpha=0.25, linewidth=0, label="90 % band")
ax.plot(hours, cleaned.x[station], color="#0072B2", label="estimate")
ax.plot(hours, network.truth[i], "--", color="black", linewidth=1, label="truth")
ax.set(xlabel="hours", ylabel=f"{station} (°C)")
ax.legend(ncols=4, loc="lower center", bbox_to_anchor=(0.5, 1))
figure.tight_layout()
