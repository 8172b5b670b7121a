"""``python benchmarks/readme_picture.py``: the README's picture, from the README's own example.

Each map shows the root mean square error of every station over the new days: of the readings, after one weight, after ``edge``.
"""

from __future__ import annotations

import sys
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
from PIL import Image

import nareg
from nareg import plotting


def main(path: Path) -> None:
    """Draw the three maps side by side, on one color scale."""
    network = nareg.datasets.load("us-weather").complete()
    graph, field = network.graph, network.signals - network.signals.mean()
    month = np.arange(365) // 30 % 2
    past, new = field[:, month == 0], field[:, month == 1]
    noisy = new + 5.0 * np.random.default_rng(0).standard_normal(new.shape)
    one = nareg.design.node_invariant(graph, rule="oracle", signals=past, noise=25.0)
    edge = nareg.design.edge(graph, signals=past, noise=25.0)
    estimates = {
        "readings": noisy,
        "one weight": nareg.filters.denoise(graph, one, noisy).x,
        "edge": nareg.filters.denoise(graph, edge, noisy).x,
    }
    with plt.rc_context(plotting.STYLE):
        figure, axes = plt.subplots(1, 3, figsize=(12, 3.1), sharey=True, layout="constrained")
        for ax, (name, x) in zip(axes, estimates.items(), strict=True):
            error = np.sqrt(np.mean((x - new) ** 2, axis=1))
            plotting.network(graph, error, ax=ax, limits=(1.0, 5.0), cmap="inferno_r", colorbar=False)
            ax.set_title(f"{name}: error {np.std(x - new):.1f} °C")
            ax.set_xlabel("")
            ax.set_ylabel("")
            ax.set_xticks([])
            ax.set_yticks([])
            ax.spines[["left", "bottom"]].set_visible(False)
        figure.colorbar(axes[-1].collections[-1], ax=axes, label="error at a station (°C)", shrink=0.9, pad=0.01, extend="both")
        plotting.save(figure, path)
    with Image.open(path) as picture:  # 256 colors are enough: a third of the size
        picture.convert("RGB").quantize(256).save(path, optimize=True)


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else "docs/images/edge.png"))
