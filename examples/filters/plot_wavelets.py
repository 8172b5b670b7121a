"""
Where a field is rough
======================

A wavelet bank splits a field into scales. The fine ones show where it is rough; together they give the field back.
"""

import matplotlib.pyplot as plt
import numpy as np

import nareg

rng = np.random.default_rng(0)
graph = nareg.graphs.sensor(1500, rng=rng)
x, y = graph.coordinates.T
smooth = np.sin(4 * x) + np.cos(3 * y)
ripple = np.where(np.hypot(x - 0.7, y - 0.3) < 0.2, np.sin(60 * x), 0.0)  # rough inside a disk
field = smooth + ripple

bank = nareg.spectral.meyer(graph, 5)
parts = bank.analyze(field)
back = bank.synthesize(parts)  # the frame is tight: the synthesis is the inverse
print(f"largest difference after synthesis: {np.abs(back - field).max():.1e}")

# %%
figure, axes = plt.subplot_mosaic([["bank"] * 3, ["field", "coarse", "fine"]], figsize=(11, 7.5), layout="constrained")
nareg.plotting.filter_bank(bank, ax=axes["bank"])
axes["bank"].legend(ncols=6, loc="lower center", bbox_to_anchor=(0.5, 1.0), frameon=False)
shown = {
    "field": (field, "field"),
    "coarse": (parts[:, 0], "coarsest scale"),
    "fine": (np.linalg.norm(parts[:, 2:], axis=1), "size of the fine scales"),
}
for name, (values, title) in shown.items():
    nareg.plotting.network(graph, values, ax=axes[name], cmap="cividis")
    axes[name].set_title(title)
    axes[name].axis("off")
