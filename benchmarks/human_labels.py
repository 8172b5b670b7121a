"""Quality control judged by human labels: what nareg and other packages flag, beside what technicians labeled.

    python benchmarks/human_labels.py                                 nareg alone, ten minutes
    python benchmarks/human_labels.py --peers PYTHON [PYTHON ...]     beside the packages that these interpreters have
    python benchmarks/human_labels.py --quick                         January to March only
    python benchmarks/human_labels.py --only do pecos-pv --record     these sets; what is recorded of them is made anew

The sets are water temperature (temp), specific conductance (cond), pH (ph) and dissolved oxygen (do) of the Logan River,
``metobs-breaking`` and ``pecos-pv``. Peers are ioos_qc, SaQC and pyhydroqc, which need environments of their own. NAREG_DATA
names the folder of the data sets. ``--record`` writes the tables of docs/results/human-labels.md.

An event is a run of labeled readings, widened by one reading on each side; so are flagged runs. Where both overlap, that is one
event found. This is the windowing of pyhydroqc (``anomaly_events``, ``compare_events``, ``event_metrics``; Jones et al. 2022).
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

import nareg  # noqa: E402

DATA = Path(os.environ.get("NAREG_DATA", ROOT.parent / "shared" / "data")) / "files"
RECORD = ROOT / "experiments" / "recorded" / "human-labels.json"
#: Marks for no reading in the raw files.
NO_READING = -9999
#: Names of the quantities, and per site (low, high, spike, repeats): what pyhydroqc publishes in its ``parameters`` for
#: range, smallest threshold of a residual, and repeated readings.
QUANTITIES = {"temp": "water temperature", "cond": "specific conductance", "ph": "pH", "do": "dissolved oxygen"}
SITES: dict[str, dict[str, tuple[float, float, float, int]]] = {
    "TonyGrove": {"temp": (-2, 20, 0.4, 30), "cond": (175, 500, 5, 30), "ph": (8, 9, 0.02, 45), "do": (7, 14, 0.15, 45)},
    "WaterLab": {"temp": (-2, 18, 0.4, 30), "cond": (200, 450, 5, 30), "ph": (8, 9.2, 0.02, 45), "do": (7, 14, 0.15, 45)},
    "MainStreet": {"temp": (-2, 20, 0.4, 30), "cond": (150, 2700, 5, 30), "ph": (7.5, 9.5, 0.03, 45), "do": (5, 15, 0.25, 45)},
    "Mendon": {"temp": (-2, 28, 0.4, 30), "cond": (200, 800, 5, 30), "ph": (7.4, 9, 0.03, 45), "do": (3, 15, 0.15, 45)},
    "BlackSmithFork": {"temp": (-2, 28, 0.4, 30), "cond": (200, 900, 4, 30), "ph": (7.2, 9.2, 0.03, 45),
                       "do": (2, 14, 0.15, 45)},
}  # fmt: skip
#: MetObs' own default settings: range, step, repetitions.
METOBS = {"low": -15, "high": 39, "spike": 4, "repeats": 5}
#: Names of two sites in pyhydroqc.
RENAMED = {"WaterLab": "Waterlab", "BlackSmithFork": "BlacksmithFork"}
SETS = (*QUANTITIES, "metobs-breaking", "pecos-pv")
#: Order of the methods in tables.
METHODS = ("nareg", "nareg, same range", "pyhydroqc", "SaQC", "ioos_qc, all three", "range", "spike", "persistence")


@dataclass(frozen=True)
class Labeled:
    """Readings (times, series), NaN where there is none, and which of them a human calls wrong."""

    readings: pd.DataFrame
    labels: pd.DataFrame
    stations: pd.DataFrame | None = None
    limits: dict[str, dict[str, Any]] = field(default_factory=dict)


def river(variable: str, quick: bool) -> Labeled:
    """A quantity at the five sites of the river."""
    folder = DATA / "logan-river-2019"
    raw, labels, limits = {}, {}, {}
    for site, known in SITES.items():
        table = pd.read_csv(folder / f"{site}2019.csv", index_col=0, parse_dates=True)
        raw[site] = table[variable].where(table[variable] != NO_READING)
        labels[site] = table[f"{variable}_qual"].notna()
        named = dict(zip(("low", "high", "spike", "repeats"), known[variable], strict=True))
        limits[site] = named | {"site": RENAMED.get(site, site), "variable": variable}
    last = "2019-03" if quick else None
    readings = pd.DataFrame(raw).rename_axis("time").loc[:last]
    marks = pd.DataFrame(labels).reindex(readings.index).eq(True)
    places = pd.read_csv(folder / "stations.csv")
    return Labeled(readings, marks, places[places["station"].isin(raw)], limits)


def metobs() -> Labeled:
    """Air temperature with a label per row; times that occur twice are left out."""
    table = pd.read_csv(DATA / "metobs-breaking" / "testdata_breaking.csv")
    table["time"] = pd.to_datetime(table["date"] + " " + table["time"])
    table["value"] = pd.to_numeric(table["temperature"], errors="coerce")
    table["wrong"] = ~table["qc_flags"].isin(["ok", "gap"])
    table = table[~table.duplicated(["station", "time"], keep=False)]
    readings, wrong = (table.pivot(index="time", columns="station", values=what) for what in ("value", "wrong"))
    return Labeled(readings, wrong.eq(True), limits={name: dict(METOBS) for name in readings})


def pecos() -> Labeled:
    """Four series with the faults that the package's documentation lists."""
    table = pd.read_csv(DATA / "pecos-pv" / "simple.csv", index_col=0)
    table.index = pd.to_datetime(table.index, format="%m/%d/%Y %H:%M").rename("time")
    table = table[~table.index.duplicated()].sort_index()
    hour = (table.index - table.index[0]) / pd.Timedelta("1h")
    wrong = {
        "A": (hour >= 12) & (hour <= 14.5),
        "B": (hour == 6.5) | (hour == 15.5),
        "C": ((hour >= 7.5) & (hour <= 9.5)) | ((hour >= 13) & (hour <= 16.25)),
        "D": (table["D"].abs() > 1).to_numpy(),
    }
    ends = {"A": (0, 1), "B": (0, 1), "C": (-1, 1), "D": (-1, 1)}
    limits = {name: {"low": low, "high": high, "spike": 0.6, "repeats": 4} for name, (low, high) in ends.items()}
    return Labeled(table, pd.DataFrame(wrong, index=table.index), limits=limits)


def own_flags(case: Labeled, ranges: list[str]) -> np.ndarray:
    """Readings that nareg flags suspect or bad, and those that it takes for a number that means missing."""
    cleaned = nareg.clean(case.readings, case.stations, quality={"ranges": ranges})
    flags = cleaned.flags.reindex(index=case.readings.index, columns=case.readings.columns)
    print(cleaned.quality.summary() if cleaned.quality is not None else "no model", flush=True)
    return flags.isin([3, 4, 9]).to_numpy() & case.readings.notna().to_numpy()


def peer_flags(case: Labeled, python: str) -> dict[str, np.ndarray]:
    """What the packages of another interpreter flag."""
    with tempfile.TemporaryDirectory() as folder:
        paths = [str(Path(folder) / name) for name in ("readings.csv", "limits.json", "flags.npz")]
        case.readings.to_csv(paths[0])
        Path(paths[1]).write_text(json.dumps(case.limits))
        # -P: the folder of the script has modules of other packages' names
        command = [python, "-P", str(ROOT / "benchmarks" / "_human_peers.py"), *paths]
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode:
            raise SystemExit(f"{python} failed: {done.stderr.strip().splitlines()[-1]}")
        with np.load(paths[2]) as flags:
            return {name: flags[name] for name in flags.files}


def widened(mask: np.ndarray) -> np.ndarray:
    """True also one reading before and after; never the first and the last one, as in pyhydroqc."""
    wide = mask.copy()
    wide[1:] |= mask[:-1]
    wide[:-1] |= mask[1:]
    wide[[0, -1]] = False
    return wide


def count_events(labels: np.ndarray, flags: np.ndarray) -> tuple[int, int, int]:
    """Events found, flagged without a label, and missed."""
    one, two = widened(labels), widened(flags)
    group = np.zeros(one.size, dtype=int)
    either = one | two
    new = either.copy()  # a group begins where nothing was before, or one kind ends where the other begins
    new[1:] = either[1:] & (~either[:-1] | ((one[1:] != one[:-1]) & (two[1:] != two[:-1])))
    group = np.cumsum(new)
    labeled, flagged = (set(group[mask]) for mask in (one, two))
    return len(labeled & flagged), len(flagged - labeled), len(labeled - flagged)


def judge(what: str, case: Labeled, flags: dict[str, np.ndarray]) -> list[str]:
    """Lines of set, series, method, unit, and how many are found, flagged without a label, and missed."""
    lines = []
    for k, name in enumerate(case.readings):
        there = case.readings[name].notna().to_numpy()
        labels = case.labels[name].to_numpy()[there]
        for method, mask in flags.items():
            mine = mask[there, k]
            single = (int((labels & mine).sum()), int((mine & ~labels).sum()), int((labels & ~mine).sum()))
            for unit, counts in (("reading", single), ("event", count_events(labels, mine))):
                lines.append(",".join(map(str, (what, name, method.replace(",", ";"), unit, *counts))))
    return lines


def main() -> None:
    """Judge, print, and record."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="+", choices=SETS, default=SETS, help="these sets (default: all)")
    parser.add_argument("--peers", nargs="+", default=[], metavar="PYTHON", help="interpreters that have the other packages")
    parser.add_argument("--quick", action="store_true", help="January to March of the river")
    parser.add_argument("--record", action="store_true", help="write the tables of the page")
    options = parser.parse_args()
    if options.record and options.quick:
        parser.error("--record is of the whole year: omit --quick.")
    counts = json.loads(RECORD.read_text())["counts"] if options.record and RECORD.exists() else []
    for what in options.only:
        case = {"metobs-breaking": metobs, "pecos-pv": pecos}[what]() if what not in QUANTITIES else river(what, options.quick)
        print(f"{what}: {int(case.readings.notna().sum().sum()):,} readings", flush=True)
        ranges = [f"{name}: {ends['low']} to {ends['high']}" for name, ends in case.limits.items()]
        flags = {"nareg": own_flags(case, []), "nareg, same range": own_flags(case, ranges)}
        for python in options.peers:
            flags |= peer_flags(case, python)
        made = {(what, method.replace(",", ";")) for method in flags}
        counts = [line for line in counts if tuple(line.split(",")[::2][:2]) not in made] + judge(what, case, flags)
        for name, lines in tables([line for line in counts if line.startswith(what + ",")]).items():
            print(name, *lines, sep="\n", flush=True)
    if options.record:
        RECORD.write_text(json.dumps({"tables": tables(counts), "counts": counts}, indent=1, ensure_ascii=False) + "\n")


def tables(counts: list[str]) -> dict[str, list[str]]:
    """Per set and method: precision, recall and F1 of events, and of readings; and F1 of events per site."""
    rows = [line.split(",") for line in counts]
    frame = pd.DataFrame([(*row[:4], *map(int, row[4:])) for row in rows], columns=[*"swmu", "found", "extra", "missed"])
    frame["m"] = frame["m"].str.replace(";", ",")
    methods = [name for name in METHODS if (frame["m"] == name).any()]
    head = ["|---|" + "---|" * len(methods)]
    result = {}
    for unit in ("event", "reading"):
        part = frame[frame["u"] == unit]
        lines = [f"| set ({unit}s labeled) | " + " | ".join(methods) + " |", *head]
        for what in [name for name in SETS if (part["s"] == name).any()]:
            pooled = part[part["s"] == what].groupby("m")[["found", "extra", "missed"]].sum()
            labeled = int((part[(part["s"] == what) & (part["m"] == "nareg")][["found", "missed"]]).sum().sum())
            cells = [score(pooled.loc[name]) if name in pooled.index else "" for name in methods]
            lines.append(f"| {QUANTITIES.get(what, what)} ({labeled:,}) | {' | '.join(cells)} |")
        result[f"human-labels-{unit}s"] = lines
    sites = frame[(frame["u"] == "event") & frame["s"].isin(list(QUANTITIES))]
    lines = ["| quantity, site | " + " | ".join(methods) + " |", *head]
    for (what, site), part in sites.groupby(["s", "w"], sort=False):
        by_method = part.set_index("m")[["found", "extra", "missed"]]
        cells = [score(by_method.loc[name]) if name in by_method.index else "" for name in methods]
        lines.append(f"| {QUANTITIES[str(what)]}, {site} | {' | '.join(cells)} |")
    return result | {"human-labels-sites": lines}


def score(counts: pd.Series) -> str:
    """F1, with precision and recall; a dash where nothing is labeled."""
    right, extra, missed = (int(counts[name]) for name in ("found", "extra", "missed"))
    if right + missed == 0:
        return f"— ({extra} extra)"
    precision = right / (right + extra) if right + extra else float("nan")
    f1 = 2 * right / (2 * right + extra + missed)
    return f"{f1:.2f} ({'—' if np.isnan(precision) else f'{precision:.2f}'}, {right / (right + missed):.2f})"


if __name__ == "__main__":
    main()
