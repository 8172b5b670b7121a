"""
Where to put the next sensor
============================

The model says by how much a sensor at each site lowers the expected error, averaged over all stations.
"""

import numpy as np

import nareg

network = nareg.datasets.load("us-weather").complete()
rng = np.random.default_rng(0)
stations = np.flatnonzero(network.graph.coordinates[:, 1] > -100)  # the eastern half
graph = nareg.Graph.from_knn(network.graph.coordinates[stations], 7, metric="haversine")
readings = network.signals[stations, :120] + 2.0 * rng.standard_normal((stations.size, 120))
readings[rng.choice(stations.size, 30, replace=False)] = np.nan  # sites without a sensor so far

model = nareg.spacetime.fit(graph, readings, times=network.times[:120], dynamics="scalar", rng=rng)
sites = nareg.spacetime.placement(model, count=3)
print(sites.summary())

# %%
axes = nareg.plotting.ranking(sites, unit="°C")
axes.figure.tight_layout()
