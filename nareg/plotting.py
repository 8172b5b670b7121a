"""Pictures: networks on a map, curves against SNR, bias and variance.

Colors are the Okabe-Ito set and maps use perceptually uniform scales, so that color-blind readers can tell them apart. Every
curve also has its own marker and dash. Each function draws on ``ax``, or on new axes, and returns them.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection, PolyCollection
from matplotlib.figure import Figure
from matplotlib.patheffects import withStroke

from nareg.datasets import coast as coastline
from nareg.errors import InputError
from nareg.graph import Graph
from nareg.typing import ArrayLike

if TYPE_CHECKING:
    from nareg.spacetime import SensorRanking
    from nareg.spectral import FilterBank

OKABE_ITO = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000", "#8C8C00", "#7F3C8D", "#A0522D")
MARKERS = "osD^vP*Xh<"
#: Chosen sites that a map's title names.
NAMED = 3
DASHES = ("-", "--", "-.", ":")
STYLE = {
    "font.size": 10,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "grid.alpha": 0.3,
    "axes.axisbelow": True,
    "figure.dpi": 110,
    "savefig.dpi": 150,
}


def network(
    graph: Graph,
    values: ArrayLike | None = None,
    *,
    ax: Axes | None = None,
    label: str = "",
    limits: tuple[float, float] | None = None,
    cmap: str = "viridis",
    colorbar: bool = True,
    coast: bool = True,
) -> Axes:
    """Draw a graph at its coordinates, nodes colored by ``values``.

    A graph with ``metric="haversine"`` is drawn as a map with coastline and borders (Natural Earth), others as (x, y).

    Parameters
    ----------
    graph : Graph with coordinates
    values : (N,) array, optional
        Nodes with NaN become empty rings; the color scale is that of the others.
    ax : matplotlib Axes, optional
    label : str
        Label of the color bar, with the unit.
    limits : (low, high), optional
        Limits of the color scale. Default: the smallest and the largest finite value.
    cmap : str
        Name of a matplotlib color map.
    colorbar : bool
        Whether to draw the color bar.
    coast : bool
        Whether a map shows coastline and borders.

    Examples
    --------
    >>> import numpy as np, nareg
    >>> axes = nareg.plotting.network(nareg.graphs.grid((3, 3)), np.arange(9.0), label="°C")
    """
    if graph.coordinates is None or graph.coordinates.shape[1] != 2:
        raise InputError("graph has no two-dimensional coordinates: pass coordinates= when you build it.")
    axes = _axes(ax)
    first, second = graph.coordinates.T
    geographic = graph.metric == "haversine"
    x, y = (second, first) if geographic else (first, second)
    points = np.column_stack([x, y])
    if geographic and coast:
        _draw_coast(axes, graph.coordinates)
    i, j = graph.to_edge_index()[0]
    half = i < j
    axes.add_collection(
        LineCollection(list(np.stack([points[i[half]], points[j[half]]], axis=1)), colors="0.75", linewidths=0.6, zorder=1)
    )
    if values is None:
        axes.scatter(x, y, s=16, color=OKABE_ITO[0], zorder=2)
    else:
        shown = np.asarray(values, dtype=float)
        finite = np.isfinite(shown)
        if not finite.any():
            raise InputError("values has no finite entry: pass values=None to draw the graph alone.")
        low, high = limits if limits is not None else (float(shown[finite].min()), float(shown[finite].max()))
        if not finite.all():
            axes.scatter(x[~finite], y[~finite], s=26, facecolors="none", edgecolors="0.3", linewidths=0.8, zorder=2)
        style: dict[str, Any] = {"cmap": cmap, "vmin": low, "vmax": high, "edgecolors": "0.3", "linewidths": 0.3, "zorder": 2}
        drawn = axes.scatter(x[finite], y[finite], c=shown[finite], s=26, **style)
        if colorbar:
            axes.figure.colorbar(drawn, ax=axes, label=label, shrink=0.8, pad=0.02)
    if geographic:
        axes.set_aspect(1 / np.cos(np.radians(first.mean())))
        axes.set_xlabel("longitude (°)")
        axes.set_ylabel("latitude (°)")
    else:
        axes.set_aspect("equal")
    axes.grid(visible=False)
    return axes


def _draw_coast(axes: Axes, places: np.ndarray) -> None:
    """Land and borders around (N, 2) places; they do not change the limits."""
    lines = coastline(places)
    shapes = {name: [np.reshape(line, (-1, 2)) for line in flat] for name, flat in lines.items()}
    land = PolyCollection(shapes["land"], facecolors="0.96", edgecolors="0.6", linewidths=0.6, zorder=0)
    borders = LineCollection(shapes["borders"], colors="0.8", linewidths=0.6, linestyles="--", zorder=0)
    for drawn in (land, borders):
        axes.add_collection(drawn, autolim=False)


def ranking(sites: SensorRanking, *, ax: Axes | None = None, unit: str = "") -> Axes:
    """Map of sites for a sensor, colored by what each changes in the mean squared error; those that were chosen are numbered.

    Parameters
    ----------
    sites : SensorRanking
        From :func:`nareg.spacetime.placement` or :func:`nareg.spacetime.removal`.
    ax : matplotlib Axes, optional
    unit : str
        Unit of the readings, for the title.

    Examples
    --------
    >>> import numpy as np, nareg
    >>> network = nareg.datasets.simulated(9, 100, faults=(), rng=np.random.default_rng(0))
    >>> model = nareg.spacetime.fit(network.graph(), network.readings, times=network.times)
    >>> axes = nareg.plotting.ranking(nareg.spacetime.placement(model, count=2), unit="°C")
    """
    if sites.coordinates is None or sites.coordinates.shape[1] != 2:
        raise InputError(
            "the sites have no two-dimensional coordinates: build the graph with Graph.from_knn, or read sites.summary()."
        )
    axes = network(sites.graph, ax=ax if ax is not None else _axes(None, 8, 5.2))
    nodes = axes.collections[-1]
    nodes.set_facecolor([("0.45" if reads else "white") for reads in sites.reads])
    nodes.set_edgecolor("0.45")
    assert sites.graph.coordinates is not None
    x, y = sites.coordinates.T[::-1] if sites.graph.metric == "haversine" else sites.coordinates.T
    adds = sites.action == "add"
    style: dict[str, Any] = {"cmap": "cividis", "edgecolors": "0.2", "linewidths": 0.5, "zorder": 3}
    drawn = axes.scatter(x, y, c=sites.percent if adds else -sites.percent, s=58, **style)
    label = f"{'fall' if adds else 'growth'} of the mean squared error (%)"
    axes.figure.colorbar(drawn, ax=axes, label=label, shrink=0.8, pad=0.02)
    chosen, orange = sites.order, OKABE_ITO[1]
    axes.scatter(x[chosen], y[chosen], s=130, facecolors="none", edgecolors=orange, linewidths=1.8, zorder=4)
    for k, i in enumerate(chosen, 1):
        axes.annotate(
            str(k), (x[i], y[i]), xytext=(7, 5), textcoords="offset points", color=orange, weight="bold", zorder=5,
            path_effects=[withStroke(linewidth=2, foreground="white")],
        )  # fmt: skip
    title = "Sites for a new sensor" if adds else "Stations that may stop reading"
    names = ", ".join(f"{k} {sites.names[i]}" for k, i in enumerate(chosen[:NAMED], 1))
    more = f" and {chosen.size - NAMED} more" if chosen.size > NAMED else ""
    error = f"{np.sqrt(sites.mse):.3g} {unit}".rstrip()
    axes.set_title(f"{title}; expected error today {error}\n{names}{more}", fontsize=9)
    return axes


def curves(
    x: Sequence[float],
    lines: Mapping[str, Sequence[float]],
    *,
    errors: Mapping[str, Sequence[float]] | None = None,
    limit: str | None = None,
    xlabel: str = "SNR (dB)",
    ylabel: str = "NMSE",
    ax: Axes | None = None,
) -> Axes:
    """One curve per method on a logarithmic axis, with error bars where given.

    Parameters
    ----------
    x : sequence of T numbers
    lines : mapping of str to T numbers
        One curve per name.
    errors : mapping of str to T numbers, optional
        Half lengths of error bars.
    limit : str, optional
        Name of the line that is a lower bound, drawn dotted.
    xlabel, ylabel : str
    ax : matplotlib Axes, optional

    Examples
    --------
    >>> import nareg
    >>> axes = nareg.plotting.curves([-5, 0, 5], {"exact": [0.3, 0.1, 0.05], "limit": [0.2, 0.1, 0.04]}, limit="limit")
    """
    axes = _axes(ax, 7, 4.6)
    for k, (name, values) in enumerate(lines.items()):
        if name == limit:
            axes.plot(x, values, color="0.35", linewidth=2.2, linestyle=(0, (1, 1)), label=name)
            continue
        bars = None if errors is None else errors.get(name)
        color, marker = OKABE_ITO[k % len(OKABE_ITO)], MARKERS[k % len(MARKERS)]
        dash = DASHES[k // len(OKABE_ITO) % len(DASHES)] if k >= len(OKABE_ITO) else DASHES[k % 2]
        axes.errorbar(
            x, values, yerr=bars, color=color, marker=marker, markersize=5, linewidth=1.4, linestyle=dash, capsize=2, label=name
        )
    axes.set_yscale("log")
    axes.set_xlabel(xlabel)
    axes.set_ylabel(ylabel)
    axes.legend(fontsize=8, frameon=False, loc="center left", bbox_to_anchor=(1.01, 0.5))
    return axes


def filter_bank(bank: FilterBank, *, ax: Axes | None = None) -> Axes:
    """Responses of a filter bank over the graph's frequencies, and the sum of their squares, which is flat for a tight frame.

    Parameters
    ----------
    bank : FilterBank
        From :mod:`nareg.spectral`.
    ax : matplotlib Axes, optional

    Examples
    --------
    >>> import nareg
    >>> axes = nareg.plotting.filter_bank(nareg.spectral.meyer(nareg.graphs.grid((5, 5))))
    """
    axes = _axes(ax, 7, 3.6)
    x = np.linspace(0, bank.largest_frequency, 500)
    responses = bank.evaluate(x)
    named = len(bank) <= len(OKABE_ITO)
    for f, response in enumerate(responses):
        dash = DASHES[f % len(DASHES)]
        axes.plot(x, response, color=OKABE_ITO[f % len(OKABE_ITO)], linestyle=dash, label=f"filter {f}" if named else None)
    axes.plot(x, np.sum(responses**2, axis=0), color="black", linewidth=2, alpha=0.6, label="sum of squares")
    axes.set_xlabel("graph frequency")
    axes.set_ylabel("response")
    axes.legend(fontsize=8, frameon=False, loc="center left", bbox_to_anchor=(1.01, 0.5))
    return axes


def bias_variance(rows: Mapping[str, tuple[float, float]], *, limit: float | None = None, ax: Axes | None = None) -> Axes:
    """Stacked bars of normalized bias and variance, one per method.

    Parameters
    ----------
    rows : mapping of str to (bias, variance)
        Squared bias and variance over the signal power, one pair per method.
    limit : float, optional
        A lower bound, drawn as a line.
    ax : matplotlib Axes, optional

    Examples
    --------
    >>> import nareg
    >>> axes = nareg.plotting.bias_variance({"exact": (0.02, 0.05), "one weight": (0.04, 0.06)}, limit=0.06)
    """
    axes = _axes(ax, 7, 0.42 * len(rows) + 1.4)
    names = list(rows)
    bias = np.array([rows[name][0] for name in names])
    variance = np.array([rows[name][1] for name in names])
    place = np.arange(len(names))[::-1]
    axes.barh(place, bias, color=OKABE_ITO[0], label="bias²")
    axes.barh(place, variance, left=bias, color=OKABE_ITO[4], hatch="///", edgecolor="white", linewidth=0, label="variance")
    for y, total in zip(place, bias + variance, strict=True):
        axes.text(total, y, f" {total:.3f}", va="center", fontsize=8)
    if limit is not None:
        axes.axvline(limit, color="0.35", linestyle=(0, (1, 1)), linewidth=2, label="LMMSE limit")
    axes.set_yticks(place, names)
    axes.set_xlabel("share of the signal power (NMSE = bias² + variance)")
    axes.set_xlim(0, float((bias + variance).max()) * 1.12)
    axes.grid(visible=False, axis="y")
    _legend_above(axes, 3)
    return axes


def series(times: ArrayLike, lines: Mapping[str, np.ndarray], *, ylabel: str, ax: Axes | None = None) -> Axes:
    """Readings of one station over time: the first line as dots (the noisy readings), the rest as curves.

    Parameters
    ----------
    times : (T,) array of numbers, datetime64 or ISO texts
    lines : mapping of str to (T,) array
    ylabel : str
    ax : matplotlib Axes, optional

    Examples
    --------
    >>> import numpy as np, nareg
    >>> axes = nareg.plotting.series(np.arange(3), {"readings": np.ones(3), "exact": np.ones(3)}, ylabel="°C")
    """
    axes = _axes(ax, 9, 3.4)
    places = np.asarray(times)
    if places.dtype.kind in "UO":  # matplotlib would draw a label for every text
        places = places.astype("datetime64[s]")
    for k, (name, values) in enumerate(lines.items()):
        if k == 0:
            axes.plot(places, values, ".", color="0.6", markersize=4, label=name)
        else:
            color, dash = ("0", *OKABE_ITO)[k - 1], ("-", "-", "--")[(k - 1) % 3]
            axes.plot(places, values, color=color, linewidth=1.3, linestyle=dash, label=name)
    axes.set_ylabel(ylabel)
    _legend_above(axes, 4)
    return axes


def _axes(ax: Axes | None, *size: float) -> Axes:
    """The axes to draw on, or new ones of this size in inches."""
    if ax is not None:
        return ax
    import matplotlib.pyplot as plt  # imported when first needed: the report draws on figures of its own

    axes: Axes = plt.subplots(figsize=size or None)[1]
    return axes


def _legend_above(axes: Axes, columns: int) -> None:
    axes.legend(fontsize=8, frameon=False, loc="lower center", bbox_to_anchor=(0.5, 1.0), ncols=columns)


def save(figure: Figure, path: str | os.PathLike[str]) -> None:
    """Write a figure as PNG, whole or not at all, and close it.

    Parameters
    ----------
    figure : matplotlib Figure
    path : path

    Examples
    --------
    >>> import tempfile, pathlib, nareg
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "network.png"
    >>> nareg.plotting.save(nareg.plotting.network(nareg.graphs.grid((3, 3))).figure, path)
    >>> path.exists()
    True
    """
    import matplotlib.pyplot as plt

    from nareg.results import atomic_write

    with atomic_write(path) as handle:
        figure.savefig(handle, format="png", bbox_inches="tight")
    plt.close(figure)
