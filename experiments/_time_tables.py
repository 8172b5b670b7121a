"""Tables of the page "From noisy readings alone: who wins where", from the rows of the time experiments."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict
from shlex import quote
from typing import Any

import numpy as np

from experiments import _graphtrss as g
from experiments import _us as u
from experiments import time_aqi36, time_edges, time_learning, time_stream, time_tsi
from experiments._engine import load
from experiments._figure import Row, chosen, column, mean_and_error

#: Who chooses the parameters of a method: no table mixes them in one row.
SAMPLES, TRUTH = "samples alone", "true error"
KINDS = {"time-graphtrss": g.RECONSTRUCTION, "time-snapshots": g.SNAPSHOTS, "time-forecast": g.FORECAST}
Settings = dict[str, Any]


def parts(figures: dict[str, dict[str, Any]], rows: dict[str, list[Row]]) -> dict[str, str]:
    """Name of a mark on the page -> its table; and per experiment how it was run."""
    result: dict[str, str] = {}
    for name, record in figures.items():
        settings = record["settings"]
        result[f"{name}-runs"] = runs(name, record)
        for part, table in TABLES[name](settings, rows[name]).items():
            result[f"{name}-{part}"] = table
    return result


def runs(name: str, record: dict[str, Any]) -> str:
    """The command, and the commit that it was run at."""
    full = asdict(load(name).full)
    changed = {key: value for key, value in record["settings"].items() if value != _listed(full[key])}
    options = "".join(f" --set {quote(f'{key}={_text(value)}')}" for key, value in changed.items())
    rest = " The full protocol leaves the settings out." if changed else ""
    return f"`nareg reproduce {name}{options}` at commit `{record['commit']}`.{rest}"


def _listed(value: Any) -> Any:
    return list(value) if isinstance(value, tuple) else value


def _text(value: Any) -> str:
    return ",".join(str(one) for one in value) if isinstance(value, list) else str(value)


def table(header: Sequence[str], lines: Sequence[Sequence[Any]]) -> str:
    text = ["| " + " | ".join(header) + " |", "|---" * len(header) + "|"]
    return "\n".join(text + ["| " + " | ".join(map(_cell, line)) + " |" for line in lines]) + "\n"


def _cell(value: Any) -> str:
    if not isinstance(value, float):
        return str(value)
    return "" if np.isnan(value) else f"{value:.3g}"


def graph_trss(kind: str) -> Callable[[Settings, list[Row]], dict[str, str]]:
    """A table per data set: published errors, and those of this run."""

    def tables(s: Settings, rows: list[Row]) -> dict[str, str]:
        result = {}
        for dataset in s["datasets"]:
            at = g.levels(dataset, kind, s["every"])
            lines: list[list[Any]] = [
                [f"published: {peer}", TRUTH if peer != "natural-neighbor" else "none",
                 *g.printed(dataset, kind, s["every"], peer), ""]
                for peer in ("natural-neighbor", "Tikhonov", "Qiu et al.", "GraphTRSS")
            ]  # fmt: skip
            for method, who in ((g.ORACLE, TRUTH), (g.LINEAR, "none"), (g.CHOSEN, SAMPLES), (g.OURS, SAMPLES)):
                means = g.means(rows, dataset, method, at)
                seconds = float(np.mean(column(rows, "seconds", dataset=dataset, method=method)))
                name = method.partition(",")[0]
                lines.append([name, who, *means, seconds])
            ours = g.means(rows, dataset, g.OURS, at)
            for what, other in (
                ("published GraphTRSS", g.printed(dataset, kind, s["every"], "GraphTRSS")),
                ("GraphTRSS by the true error, same masks", g.means(g.same_masks(rows, dataset), dataset, g.ORACLE, at)),
                ("the best published", g.best_printed(dataset, kind, s["every"])),
            ):
                lines.append([f"nareg.spacetime over {what}", "", *(ours / other), ""])
            masks = len(set(column(rows, "mask", dataset=dataset, method=g.OURS)))
            peer = len(set(column(rows, "mask", dataset=dataset, method=g.ORACLE)))
            said = f"RMSE; {masks} mask{'s' * (masks > 1)}, of GraphTRSS by the true error {peer}."
            result[dataset] = f"{said}\n\n" + table(
                ["method", "parameters by", *(f"{level:g}" for level in at), "seconds"], lines
            )
        return result

    return tables


def aqi36(s: Settings, rows: list[Row]) -> dict[str, str]:
    del s
    lines = [[row["method"], row["mae"], row["rmse"], row["seconds"]] for row in rows]
    known = [[name, value] for name, value in time_aqi36.PUBLISHED.items()]
    return {
        "errors": table(["method", "MAE, µg/m³", "RMSE", "seconds"], [[m, f"{a:.2f}", f"{b:.2f}", t] for m, a, b, t in lines]),
        "published": table(["published", "MAE, µg/m³"], [[m, f"{a:.2f}"] for m, a in known]),
    }


def tsi(s: Settings, rows: list[Row]) -> dict[str, str]:
    lines = []
    for pattern in s["patterns"]:
        name, best = time_tsi.BEST[pattern]
        means = [mean_and_error(column(rows, "mae", method=m, pattern=pattern))[0] for m in (time_tsi.OURS, time_tsi.LINE)]
        seconds = float(np.mean(column(rows, "seconds", method=time_tsi.OURS, pattern=pattern)))
        lines.append(
            [
                pattern,
                f"{means[0]:.3f}",
                f"{best:.3f} ({name})",
                f"{means[1]:.3f}",
                f"{time_tsi.PUBLISHED_LINE[pattern]:.3f}",
                seconds,
            ]
        )
    apart = [
        [pattern, *(f"{column(rows, key, method=method, pattern=pattern)[0]:.3f}" for method, key in (
            (time_tsi.WHOLE, "mae"), (time_tsi.OURS, "pollutants"), (time_tsi.LINE, "pollutants"), (time_tsi.OURS, "mse")))]
        for pattern in s["patterns"]
    ]  # fmt: skip
    header = ["hidden", "nareg", "best published", "straight line", "line, published", "seconds"]
    return {
        "errors": table(header, lines),
        "apart": table(
            ["hidden", "all ten months at once", "pollutants alone", "straight line, pollutants", "mean square"], apart
        ),
    }


def us(s: Settings, rows: list[Row]) -> dict[str, str]:
    lines = []
    for method in s["methods"]:
        values = [mean_and_error(column(rows, "nmse", method=method, snr_db=snr))[0] for snr in s["snr_db"]]
        noise = [row["noise_ratio"] for row in chosen(rows, method=method) if row.get("noise_ratio") is not None]
        ratio = f"{min(noise):.2f} to {max(noise):.2f}" if noise else ""
        seconds = float(np.mean(column(rows, "seconds", method=method)))
        lines.append([method, u.NEEDS[method], *values, ratio, seconds])
    bands = [covered(rows, snr_db=snr) for snr in s["snr_db"]]
    lines.append([f"{u.OURS}: its 90 % band covers", "", *bands, "", ""])
    header = ["method", "is told", *(f"{snr:g} dB" for snr in s["snr_db"]), "noise found / true", "seconds"]
    return {"nmse": f"{drawn(s)} of the noise.\n\n" + table(header, lines)}


def drawn(s: Settings) -> str:
    return f"{s['draws']} draw{'s' * (s['draws'] > 1)}"


def covered(rows: list[Row], **keys: Any) -> str:
    """Share of the truth inside nareg.spacetime's bands of 90 % for the field."""
    return f"{100 * mean_and_error(column(rows, 'band90', method=u.OURS, **keys))[0]:.0f} %"


def learning(s: Settings, rows: list[Row]) -> dict[str, str]:
    lines = [
        [f"{snr:g} dB", method, *(float(time_learning.ratios(rows, method, snr, days).mean()) for days in s["days"])]
        for snr in s["snr_db"] for method in s["methods"] if method != u.BEST
    ]  # fmt: skip
    lines += [
        [f"{snr:g} dB", f"{u.OURS}: its 90 % band covers", *(covered(rows, snr_db=snr, days=days) for days in s["days"])]
        for snr in s["snr_db"]
    ]
    return {"ratios": f"{drawn(s)}.\n\n" + table(["SNR", "method", *(f"{days} days" for days in s["days"])], lines)}


def stream(s: Settings, rows: list[Row]) -> dict[str, str]:
    names = (time_stream.STREAM, time_stream.STREAM_PLAIN, time_stream.BATCH, time_stream.REFIT)
    lines = []
    for method in names:
        values = [mean_and_error(column(rows, "nmse", method=method, snr_db=snr))[0] for snr in s["snr_db"]]
        updates = [row["median_ms"] for row in chosen(rows, method=method) if row.get("median_ms") is not None]
        lines.append([method, *values, float(np.median(updates)) if updates else ""])
    header = ["method", *(f"{snr:g} dB" for snr in s["snr_db"]), "median ms per update"]
    return {"nmse": f"{drawn(s)} of the noise.\n\n" + table(header, lines)}


def edges(s: Settings, rows: list[Row]) -> dict[str, str]:
    lines = []
    for network in s["networks"]:
        first = chosen(rows, network=network)[0]
        for method in (time_edges.EDGE, time_edges.BLIND, time_edges.SURE, time_edges.CLEAN):
            means = [float(time_edges.ratios(rows, method, network, snr).mean()) for snr in s["snr_db"]]
            seconds = float(np.mean(column(rows, "seconds", method=method, network=network)))
            lines.append([f"{network} ({first['stations']:g} stations, {first['times']:g} times)", method, *means, seconds])
    repeats = f"{s['repeats']} repeat{'s' * (s['repeats'] > 1)}"
    return {
        "ratios": f"{repeats}.\n\n" + table(["network", "design", *(f"{snr:g} dB" for snr in s["snr_db"]), "seconds"], lines)
    }


TABLES: dict[str, Callable[[Settings, list[Row]], dict[str, str]]] = {
    **{name: graph_trss(kind) for name, kind in KINDS.items()},
    "time-aqi36": aqi36,
    "time-tsi": tsi,
    "time-us": us,
    "time-noaa": us,
    "time-learning": learning,
    "time-stream": stream,
    "time-edges": edges,
}
