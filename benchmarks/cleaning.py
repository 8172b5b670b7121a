"""Seconds of ``nareg clean``, beside an earlier commit and other packages, on the same readings.

    python benchmarks/cleaning.py                                    nareg alone, three minutes
    python benchmarks/cleaning.py --before CHECKOUT                  beside another checkout, such as a git worktree
    python benchmarks/cleaning.py --peers PYTHON [PYTHON ...]        beside the packages that these interpreters have
    python benchmarks/cleaning.py --only "7 x 2,593" --record        this job; the table of docs/results/benchmarks.md

Every command is a process of its own with one thread. Seconds are of the processor, those of the start and of the imports
included, so that other work beside counts little; the least of ``--runs``. Loops were compiled before. The floor is one
smoothing by the model that was learned, start and reading aside. Peers check and fill the same table: SaQC (local outliers,
constants, gaps by interpolation), MetObs toolkit (its checks and interpolation) and PyPOTS (SAITS of two layers, ten epochs of
days). They need environments of their own. NAREG_DATA names the folder of the data sets.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

import nareg  # noqa: E402

DATA = Path(os.environ.get("NAREG_DATA", ROOT.parent / "shared" / "data"))
RECORD, NAME = ROOT / "experiments" / "recorded" / "benchmarks.json", "benchmarks-cleaning"
#: Readings and places of a network.
Tables = tuple[pd.DataFrame, pd.DataFrame]


def metobs() -> Tables:
    folder = DATA / "files" / "metobs-demo"
    recipe = nareg.io.Recipe(value="Temperatuur")
    places = nareg.io.read_stations(folder / "metadatafile.csv", recipe=recipe)
    readings = nareg.io.read_readings(folder / "datafile.csv", places, recipe=recipe)
    return nareg.io.readings_to_frame(readings), _places(places.coordinates, places.names).loc[list(readings.names)]


def simulated(n: int, times: int) -> Tables:
    network = nareg.datasets.simulated(n, times, rng=np.random.default_rng(0))
    return pd.DataFrame(network.readings.T, _times(network.times), network.names), _places(network.coordinates, network.names)


def us_weather() -> Tables:
    network = nareg.datasets.load("us-weather").complete()
    return pd.DataFrame(network.signals.T, _times(network.times), network.names), _places(network.coordinates, network.names)


def aqi36() -> Tables:
    network = nareg.datasets.load("aqi36", root=DATA)
    y = np.where(network.observed, network.signals, np.nan) if network.observed is not None else network.signals
    return pd.DataFrame(y.T, _times(network.times), network.names), _places(network.coordinates, network.names)


JOBS: dict[str, Callable[[], Tables]] = {
    "7 x 2,593": metobs, "60 x 432": lambda: simulated(60, 432), "20 x 8,760": lambda: simulated(20, 8_760),
    "140 x 365": us_weather, "36 x 8,759": aqi36, "300 x 1,000": lambda: simulated(300, 1_000),
}  # fmt: skip
WHAT = {
    "7 x 2,593": "MetObs' temperatures", "60 x 432": "simulated, with faults", "20 x 8,760": "simulated, a year of hours",
    "140 x 365": "US weather", "36 x 8,759": "AQI-36", "300 x 1,000": "simulated",
}  # fmt: skip


def _times(times: np.ndarray) -> pd.Index:
    return pd.DatetimeIndex(times, name="time")


def _places(coordinates: np.ndarray, names: tuple[str, ...]) -> pd.DataFrame:
    return pd.DataFrame(coordinates, pd.Index(names, name="station"), ["latitude", "longitude"])


def processor_seconds(command: list[str], checkout: Path | None, runs: int) -> float:
    """The least seconds of the processor of a command, of which several runs are measured."""
    one = {f"{library}_NUM_THREADS": "1" for library in ("OMP", "OPENBLAS", "MKL", "NUMBA")}
    environment = os.environ | one | ({} if checkout is None else {"PYTHONPATH": str(checkout)})
    environment.pop("PYTHONDONTWRITEBYTECODE", None)  # installed packages have their bytecode
    seconds = []
    for _ in range(runs):
        begin = resource.getrusage(resource.RUSAGE_CHILDREN)
        done = subprocess.run(command, env=environment, cwd=checkout, capture_output=True, text=True)
        end = resource.getrusage(resource.RUSAGE_CHILDREN)
        if done.returncode:
            raise SystemExit(f"{' '.join(command)} failed:\n{done.stderr[-2000:]}")
        seconds.append(end.ru_utime + end.ru_stime - begin.ru_utime - begin.ru_stime)
    return min(seconds)


def clean(folder: Path, checkout: Path, runs: int) -> float:
    """Seconds of ``nareg clean`` of a checkout."""
    program = "import sys; from nareg.cli import run; sys.exit(run())"
    tables = [str(folder / name) for name in ("stations.csv", "readings.csv")]
    command = [sys.executable, "-c", program, "clean", *tables, "--out", str(folder / "clean")]
    return processor_seconds(command, checkout, runs)


def floor(folder: Path) -> float:
    """Seconds of one smoothing by the model that was learned; NaN where another method was taken."""
    if not (folder / "clean" / "model.npz").exists():
        return float("nan")
    model = nareg.spacetime.load(folder / "clean" / "model.npz")
    model.smooth()
    begin = time.process_time()
    model.smooth()
    return time.process_time() - begin


def peers(folder: Path, python: str, runs: int) -> dict[str, float]:
    """Seconds of the packages that an interpreter has."""
    script = [python, "-P", str(Path(__file__).with_name("_cleaning_peers.py"))]
    names = subprocess.run(script, capture_output=True, text=True, check=True).stdout.split()
    return {name: processor_seconds([*script, name, str(folder)], None, runs) for name in names}


def main() -> None:
    """Measure, print, and record."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="+", choices=list(JOBS), default=list(JOBS), help="these jobs (default: all)")
    parser.add_argument("--before", type=Path, help="another checkout of nareg")
    parser.add_argument("--peers", nargs="+", default=[], metavar="PYTHON", help="interpreters that have other packages")
    parser.add_argument("--runs", type=int, default=2, help="of each command (default: 2)")
    parser.add_argument("--record", action="store_true", help="write the table of the page")
    options = parser.parse_args()
    lines = ["| readings | stations x times | seconds | before | floor | others |", "|---|---|---:|---:|---:|---|"]
    print(*lines, sep="\n", flush=True)
    for k, job in enumerate(options.only):
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            readings, places = JOBS[job]()
            readings.to_csv(folder / "readings.csv")
            places.to_csv(folder / "stations.csv")
            checkouts = [ROOT, *([] if options.before is None else [options.before.resolve()])]
            for checkout in checkouts if k == 0 else ():  # loops are compiled
                clean(folder, checkout, 1)
            before = [clean(folder, checkout, options.runs) for checkout in checkouts[::-1]]
            now, least = before.pop(), floor(folder)
            others = {k: v for python in options.peers for k, v in peers(folder, python, options.runs).items()}
            said = ", ".join(f"{peer} {seconds:.3g}" for peer, seconds in others.items())
        lines.append(f"| {WHAT[job]} | {job} | {now:.3g} | {f'{before[0]:.3g}' if before else ''} | {least:.2g} | {said} |")
        print(lines[-1], flush=True)
    if options.record:  # rows of other jobs stay
        stored = json.loads(RECORD.read_text())
        rows = {line.split(" | ")[1]: line for line in (*stored["tables"].get(NAME, [])[2:], *lines[2:])}
        stored["tables"][NAME] = [*lines[:2], *(rows[job] for job in JOBS if job in rows)]
        RECORD.write_text(json.dumps(stored, indent=1, ensure_ascii=False) + "\n")


if __name__ == "__main__":
    main()
