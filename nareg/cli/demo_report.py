"""The demonstration's report: PNGs, a CSV of the numbers, and one self-contained HTML page."""

from __future__ import annotations

import base64
from dataclasses import astuple, fields
from pathlib import Path
from typing import Any

import matplotlib
import numpy as np
from matplotlib.figure import Figure

from nareg import plotting
from nareg.cleaning import write_page
from nareg.cli.demo_protocol import DemoResult, Score
from nareg.io import write_rows


def write(result: DemoResult, folder: Path) -> Path:
    """Write everything into ``folder`` and return the path of ``report.html``."""
    matplotlib.use("Agg")  # files only: no screen is needed
    import matplotlib.pyplot as plt

    folder.mkdir(parents=True, exist_ok=True)
    pictures: dict[str, str] = {}
    with plt.rc_context(plotting.STYLE):
        for name, draw in _PICTURES.items():
            plotting.save(draw(result), folder / f"{name}.png")
            pictures[name] = base64.b64encode((folder / f"{name}.png").read_bytes()).decode()
    rows = ((*astuple(score), score.needs) for score in result.scores)
    write_rows(folder / "scores.csv", [*(f.name for f in fields(Score)), "needs"], rows)
    write_page(
        folder / "report.html",
        "report.html.j2",
        result=result,
        pictures=pictures,
        equal=table(result, "equal"),
        unequal=table(result, "unequal"),
        best=_best,
        splits={split: table(result, "equal", split) for split in dict.fromkeys(s.split for s in result.scores)},
        compared=("one weight, SURE", "one weight, best", "relaxation (SDR)", "blind", "exact", "edge", "edge from readings"),
    )
    return folder / "report.html"


def table(result: DemoResult, noise: str, split: str = "random days") -> list[Score]:
    """Scores at the reference SNR, worst first."""
    at = result.settings.reference_db
    rows = [s for s in result.scores if s.noise == noise and s.snr_db == at and s.split == split]
    return sorted(rows, key=lambda s: -s.nmse)


def _on_graph(score: Score) -> bool:
    """Whether the filter runs on the graph: the others are for comparison."""
    return score.method not in ("no filter", "kernel ridge (diffusion)", "dense Wiener filter")


def _best(rows: list[Score]) -> Score:
    return min((s for s in rows if _on_graph(s)), key=lambda s: s.nmse)


def _map(result: DemoResult) -> Figure:
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(figsize=(8, 4.8))
    mean = result.network.signals.mean(axis=1)
    plotting.network(result.network.graph, mean, ax=axes, label=f"mean over the year ({result.network.units})", cmap="cividis")
    axes.set_title(f"{result.network.n_nodes} stations, {result.network.graph.n_edges} edges (7 nearest neighbors)")
    return figure


def _day(result: DemoResult) -> Figure:
    """One test day: the truth, the readings and two estimates."""
    import matplotlib.pyplot as plt

    example, units = result.example, result.network.units
    day = _median_day(example)
    panels = {
        "truth": example["truth"][:, day],
        f"readings at {result.settings.reference_db:g} dB": example["noisy"][:, day],
        "one weight, best": example["one weight, best"][:, day],
        "exact node weights": example["exact"][:, day],
    }
    limits = (float(panels["truth"].min()), float(panels["truth"].max()))
    figure, axes = plt.subplots(2, 2, figsize=(10, 5.6), layout="constrained", sharex=True, sharey=True)
    for ax, (name, values) in zip(axes.ravel(), panels.items(), strict=True):
        plotting.network(result.network.graph, values, ax=ax, limits=limits, cmap="cividis", colorbar=False)
        error = np.sqrt(np.mean((values - panels["truth"]) ** 2))
        ax.set_title(name + ("" if name == "truth" else f": error {error:.1f} {units}"), fontsize=10)
        ax.label_outer()
    figure.colorbar(axes[0, 0].collections[-1], ax=axes, label=f"temperature midrange ({units})", shrink=0.7, extend="both")
    figure.suptitle(str(example["days"][day]))
    return figure


def _median_day(example: dict[str, Any]) -> int:
    """The test day on which the exact design's gain over the best single weight is the median one."""
    errors = [np.linalg.norm(example[name] - example["truth"], axis=0) for name in ("exact", "one weight, best")]
    gain = errors[0] / errors[1]
    return int(np.argsort(gain)[gain.size // 2])


def _nmse(result: DemoResult) -> Figure:
    """Left: NMSE on a logarithmic axis. Right: the same over that of the best single weight."""
    import matplotlib.pyplot as plt

    figure, (left, right) = plt.subplots(1, 2, figsize=(10.5, 5.2), layout="constrained")
    levels = list(result.settings.snr_db)
    random = [s for s in result.scores if s.noise == "equal" and s.split == "random days"]
    names = dict.fromkeys(s.method for s in random if s.method != "dense Wiener filter")
    lines: dict[str, Any] = {}
    errors: dict[str, Any] = {}
    for name in names:
        by_level = {s.snr_db: s for s in random if s.method == name}
        lines[name] = [by_level[level].nmse for level in levels]
        errors[name] = [by_level[level].gain_error for level in levels]
    lines["LMMSE limit"] = [result.lmmse["equal", "random days", level] for level in levels]
    plotting.curves(levels, lines, limit="LMMSE limit", ylabel="NMSE on the test days", ax=left)
    reference = np.array(lines["one weight, best"])
    ratios = {name: np.array(values) / reference for name, values in lines.items()}
    label = "NMSE over that of the best single weight"
    plotting.curves(levels, ratios, errors=errors, limit="LMMSE limit", ylabel=label, ax=right)
    right.set_yscale("linear")
    right.set_ylim(0.4, 1.6)  # no filter and kernel ridge lie above at low SNR: see the left panel
    handles, labels = left.get_legend_handles_labels()
    for ax in (left, right):
        ax.set_xticks(levels)
        ax.get_legend().remove()
    figure.legend(handles, labels, loc="outside lower center", ncols=4, frameon=False, fontsize=9)
    return figure


def _bias_variance(result: DemoResult) -> Figure:
    rows = {s.method: (s.bias, s.variance) for s in table(result, "equal") if _on_graph(s)}
    axes = plotting.bias_variance(rows, limit=result.lmmse["equal", "random days", result.settings.reference_db])
    figure = axes.figure
    assert isinstance(figure, Figure)
    return figure


def _weights(result: DemoResult) -> Figure:
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(figsize=(8, 4.8))
    weights = result.designs["exact"].weights
    signed = bool((weights < 0).any())
    plotting.network(
        result.network.graph,
        np.abs(weights),
        ax=axes,
        label="node weight" + (" (magnitude)" if signed else ""),
        cmap="viridis",
    )
    note = f" ({int((weights < 0).sum())} of {weights.size} negative)" if signed else ""
    axes.set_title(f"Exact design at {result.settings.reference_db:g} dB{note}", fontsize=11)
    return figure


def _series(result: DemoResult) -> Figure:
    example, network = result.example, result.network
    station = int(np.argmax(network.signals.std(axis=1)))
    days = example["days"].astype("datetime64[D]")
    lines = {
        f"readings at {result.settings.reference_db:g} dB": example["noisy"][station],
        "truth": example["truth"][station],
        "exact": example["exact"][station],
        "blind": example["blind"][station],
    }
    axes = plotting.series(days, lines, ylabel=f"temperature midrange ({network.units})")
    axes.set_xlabel("test day")
    axes.set_title(network.names[station], loc="left", fontsize=10, pad=24)
    figure = axes.figure
    assert isinstance(figure, Figure)
    return figure


_PICTURES = {
    "network": _map,
    "nmse": _nmse,
    "day": _day,
    "series": _series,
    "bias_variance": _bias_variance,
    "weights": _weights,
}
