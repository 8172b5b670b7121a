"""``python benchmarks/readme_picture.py``: the README's picture and its table of errors, from the README's own example.

Each map shows the root mean square error of every station over the new days: of the readings, after one weight, after ``edge``.
The space-time model reads the noisy year, all others one day at a time.
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
    """Print the errors, and draw three maps side by side, on one color scale."""
    network = nareg.datasets.load("us-weather").complete()
    graph, field = network.graph, network.signals - network.signals.mean()
    month = np.arange(365) // 30 % 2
    past, new = field[:, month == 0], field[:, month == 1]
    noisy = new + 5.0 * np.random.default_rng(0).standard_normal(new.shape)
    year = field + 5.0 * np.random.default_rng(1).standard_normal(field.shape)
    year[:, month == 1] = noisy
    designs = {
        "one weight": nareg.design.node_invariant(graph, rule="oracle", signals=past, noise=25.0),
        "one weight, gcv": nareg.design.node_invariant(graph, rule="gcv", measurements=noisy),
        "blind": nareg.design.blind(graph, measurements=noisy, noise=25.0),
        "edge, from readings": nareg.design.edge(graph, measurements=noisy, noise=25.0),
        "edge": nareg.design.edge(graph, signals=past, noise=25.0),
    }
    estimates = {"readings": noisy} | {name: nareg.filters.denoise(graph, d, noisy).x for name, d in designs.items()}
    estimates["space-time model"] = nareg.spacetime.fit(graph, year).smooth().x[:, month == 1]
    for name, x in estimates.items():
        print(f"{name}: error {np.std(x - new):.2f} °C")
    with plt.rc_context(plotting.STYLE):
        figure, axes = plt.subplots(1, 3, figsize=(12, 3.1), sharey=True, layout="constrained")
        for ax, name in zip(axes, ("readings", "one weight", "edge"), strict=True):
            x = estimates[name]
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
