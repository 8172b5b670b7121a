"""
How certain is a denoised reading?
==================================

The filter averages over neighbors. A station with many good neighbors keeps less of the noise than one at the border.
"""

import nareg

network = nareg.datasets.load("us-weather").complete()
graph, field = network.graph, network.signals - network.signals.mean()
design = nareg.design.exact(graph, signals=field[:, :180], noise=25.0)
std = nareg.filters.uncertainty(graph, design, noise=25.0)
print(f"noise 5.0 °C; left in the estimates: {std.min():.2f} to {std.max():.2f} °C")

# %%
axes = nareg.plotting.network(graph, std, label="noise left in the estimate (°C)", cmap="cividis")
axes.figure.tight_layout()
