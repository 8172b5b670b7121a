"""What `nareg clean --correct` is worth, by series whose right values are known.

    python benchmarks/corrections.py [river monitor faults]

river: raw series of the Logan River beside those that a technician corrected, and the line between calibration visits, whose
end the technician measured. monitor: three low-cost sensors beside a reference monitor, which is not named, is named as the
reference, or is named and reads in the first half of the record alone. faults: drifts of four forms at one station of a
simulated network, and at four of a real one. Errors are those at all readings that are wrong or were changed.
NAREG_DATA names the folder of the data sets; the files are in its folder `files`.
"""

from __future__ import annotations

import argparse
import os
from pathlib import Path

import numpy as np
import pandas as pd
from rich.console import Console
from rich.table import Table

import nareg

SITES = ("TonyGrove", "WaterLab", "MainStreet", "Mendon", "BlackSmithFork")
QUANTITIES = ("cond", "ph", "do", "stage")
#: The monitor's times are in a zone that is so far behind, though they are written as UTC: nareg says so.
MONITOR_BEHIND = pd.Timedelta("5h")
#: The site with dates of calibration, and the quantities that have them.
VISITED, DATED = "MainStreet", ("cond", "ph", "do")
STEP = "3h"
CORRECT = {"correct": True}
Row = list[object]


def rms(error: np.ndarray | pd.Series) -> float:
    """NaN where nothing is known."""
    known = np.asarray(error, dtype=float)
    known = known[np.isfinite(known)]
    return float(np.sqrt(np.mean(known**2))) if known.size else float("nan")


def corrected(cleaned: nareg.cleaning.Cleaned, table: pd.DataFrame) -> pd.DataFrame:
    """The readings with the corrected ones in their place."""
    return pd.DataFrame(cleaned.readings.T, table.index, table.columns)


def line(raw: pd.Series, path: Path) -> pd.Series:
    """The readings less a drift that grows from each visit to the next, as the technician does it."""
    visits = pd.read_csv(path, skiprows=1, parse_dates=["start", "end"], encoding="utf-8-sig")
    result = raw.copy()
    for visit in visits.itertuples():
        inside = (raw.index >= visit.start) & (raw.index < visit.end)
        result[inside] += visit.gap * np.asarray((raw.index[inside] - visit.start) / (visit.end - visit.start))
    return result


def river(files: Path) -> list[Row]:
    """A row per site and quantity of which the technician changed readings."""
    folder, rows = files / "logan-river-2019", []
    tables = {
        site: pd.read_csv(folder / f"{site}2019.csv", index_col=0, parse_dates=True, na_values=["NULL", "-9999"])
        for site in SITES
    }
    for quantity in QUANTITIES:
        raw, right = (
            pd.DataFrame({site: table[name].resample(STEP).median() for site, table in tables.items()})
            for name in (quantity, f"{quantity}_cor")
        )
        cleaned = nareg.clean(raw, folder / "stations.csv", quality=CORRECT)
        ours = corrected(cleaned, raw)
        for site in SITES:
            wrong = (raw[site] - right[site]).abs() > 1e-6
            own = (ours[site] != raw[site]) & raw[site].notna()
            if not wrong.any():
                continue
            visits = folder / f"{VISITED}_{quantity}_calib_dates.csv"
            theirs = line(raw[site], visits) if site == VISITED and quantity in DATED else raw[site] * np.nan
            errors = (rms((series - right[site])[wrong | own]) for series in (raw[site], ours[site], theirs))
            rows.append([f"river, {quantity}, {site}", int(wrong.sum()), int(own.sum()), *errors, np.nan])
    return rows


def monitor(files: Path) -> list[Row]:
    """Particles of three sensors at one place with a reference monitor, by all of its record and by the first half alone."""
    folder = files / "purpleair"
    sensors = pd.read_csv(folder / "purpleair_clean.csv", parse_dates=["time_stamp"])
    table = sensors.pivot_table(index="time_stamp", columns="id", values="pm2.5_cf_1").resample("1h").mean()
    table.columns = table.columns.astype(str)
    reference = pd.read_csv(folder / "deq_data_merge.csv", parse_dates=["time_stamp"]).set_index("time_stamp")["PM25"]
    right = pd.to_numeric(reference, errors="coerce").shift(freq=MONITOR_BEHIND).resample("1h").mean().reindex(table.index)
    places = pd.DataFrame({"station": [*table.columns, "monitor"], "latitude": 43.6, "longitude": -116.2})
    second, rows = np.arange(len(table)) >= len(table) // 2, []
    for what, named, counted in (
        ("not named", {}, right.notna()),
        ("named", {"reference": "monitor"}, right.notna()),
        ("the first half of it named", {"reference": "monitor"}, right.notna() & second),
    ):
        shown = right.where(~second) if what.startswith("the first") else right
        cleaned = nareg.clean(table.assign(monitor=shown), places, quality={**CORRECT, **named})
        ours = corrected(cleaned, table.assign(monitor=shown))
        std = {table.columns[s.station]: s.corrected_std.mean() for s in cleaned.corrected if s.station < table.shape[1]}
        for name in table.columns:
            errors = [(series - right)[counted] for series in (table[name], ours[name])]
            inside = float((errors[1].abs() <= 1.645 * std[name]).mean()) if name in std else np.nan
            changed = int((ours[name] != table[name])[counted].sum())
            rows.append([f"monitor {what}, {name}", int(counted.sum()), changed, *map(rms, errors), np.nan, inside])
    return rows


def forms(n: int) -> dict[str, np.ndarray]:
    """Errors of height 1 that last n times."""
    ramp = np.linspace(0, 1, n)
    return {"ramp": ramp, "constant": np.ones(n), "root": np.sqrt(ramp), "ramp and plateau": np.minimum(2 * ramp, 1)}


def drifts(readings: np.ndarray, count: int, rng: np.random.Generator, kinds: list[str]) -> np.ndarray:
    """(N, T) errors of a few stations."""
    result = np.zeros(readings.shape)
    for k, station in enumerate(rng.choice(len(readings), count, replace=False)):
        n = int(readings.shape[1] * rng.uniform(0.17, 0.55))
        start = int(rng.integers(20, readings.shape[1] - n - 20))
        result[station, start : start + n] = rng.choice([-1, 1]) * rng.uniform(3, 7) * forms(n)[kinds[k % len(kinds)]]
    return result


def faults() -> list[Row]:
    """Drifts whose course is known: at one of 20 simulated stations, and at 4 of 45 US ones with noise of 1 °C."""
    rows = []
    for form in forms(2):
        cases = []
        for seed in range(5):
            network = nareg.datasets.simulated(20, 600, faults=(), rng=np.random.default_rng(seed))
            drift = drifts(network.readings, 1, np.random.default_rng(100 + seed), [form])
            cases.append((network.readings, drift, network.coordinates))
        rows.append(injected(f"simulated, {form}", cases, "10min"))
    us, cases = nareg.datasets.load("us-weather"), []
    for seed in range(5):
        rng = np.random.default_rng(seed)
        near = np.argsort(((us.coordinates - us.coordinates[rng.integers(us.n_nodes)]) ** 2).sum(axis=1))[:45]
        readings = us.signals[near] + rng.normal(0, 1, (45, us.n_times))
        cases.append((readings, drifts(readings, 4, rng, list(forms(2))), us.coordinates[near]))
    return [*rows, injected("US weather", cases, "1D")]


def injected(name: str, cases: list[tuple[np.ndarray, np.ndarray, np.ndarray]], step: str) -> Row:
    """Errors of drifting readings before and after, and how often the band of 90 % of a correction holds the drift."""
    before, after, own, inside = [], [], 0, []
    for readings, drift, coordinates in cases:
        names = [f"S{i:03d}" for i in range(len(readings))]
        index = pd.date_range("2025-01-01", periods=readings.shape[1], freq=step)
        places = pd.DataFrame(coordinates, pd.Index(names, name="station"), ["latitude", "longitude"])
        cleaned = nareg.clean(pd.DataFrame((readings + drift).T, index, names), places, hidden=0, quality=CORRECT)
        error = cleaned.readings - readings
        counted = ((drift != 0) | (error != drift)) & np.isfinite(readings)
        before.append(drift[counted])
        after.append(error[counted])
        for suspect in cleaned.corrected:
            own += suspect.columns.size
            inside.append(np.abs(error[suspect.station, suspect.columns]) <= 1.645 * suspect.corrected_std)
    wrong = sum(int((drift != 0).sum()) for _, drift, _ in cases)
    share = float(np.concatenate(inside).mean())
    return [name, wrong, own, rms(np.concatenate(before)), rms(np.concatenate(after)), np.nan, share]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("parts", nargs="*", default=["river", "monitor", "faults"])
    parts = parser.parse_args().parts
    files = Path(os.environ["NAREG_DATA"]) / "files"
    table = Table("series", "wrong", "corrected", "RMSE raw", "nareg", "line between visits", "in the band")
    for name in parts:
        for row in {"river": lambda: river(files), "monitor": lambda: monitor(files), "faults": faults}[name]():
            table.add_row(*("" if cell != cell else f"{cell:.3g}" if isinstance(cell, float) else str(cell) for cell in row))
    Console(width=140).print(table)


if __name__ == "__main__":
    main()
