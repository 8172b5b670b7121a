"""Gaps of four networks as their owners publish them: `nareg clean` beside a straight line and scikit-learn's imputers.

    python benchmarks/imputers.py [england-covid openaq beijing metrla]

A fifth of the readings is hidden at random, from the stated seed; the error is the mean absolute one at these. Every method
gets the same table and no option. NAREG_DATA names the folder of the data sets; the files are in its folder `files`.
"""

from __future__ import annotations

import argparse
import os
import time
import warnings
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
from rich.console import Console
from rich.table import Table
from sklearn.experimental import enable_iterative_imputer  # noqa: F401
from sklearn.impute import IterativeImputer, KNNImputer

import nareg
from nareg.baselines import interpolate_in_time
from nareg.io import Recipe

HIDDEN, SEED = 0.2, 0


def england_covid(files: Path) -> pd.DataFrame:
    return _frame(nareg.io.read_readings(files / "england-covid" / "england_covid.json"))


def openaq(files: Path) -> pd.DataFrame:
    return _frame(nareg.io.read_readings(files / "openaq-pandas" / "air_quality_long.csv", recipe=Recipe(value="no2")))


def beijing(files: Path) -> pd.DataFrame:
    stored = np.load(files / "beijing-multisite" / "beijing_multisite.npz")
    names = list(map(str, stored["quantity"]))
    values = stored["values"][:, :, names.index("PM2.5")].astype(float)
    index = pd.date_range("2013-03-01", periods=values.shape[1], freq="h", name="time")
    return pd.DataFrame(values.T, index, list(map(str, stored["station"])))


def metrla(files: Path) -> pd.DataFrame:
    recipe = Recipe(step="5min", start="2012-03-01")
    return _frame(nareg.io.read_readings(files / "metrla-week" / "los_speed.csv", recipe=recipe))


NETWORKS: dict[str, Callable[[Path], pd.DataFrame]] = {
    "england-covid": england_covid, "openaq": openaq, "beijing": beijing, "metrla": metrla,
}  # fmt: skip


def _frame(readings: nareg.io.Readings) -> pd.DataFrame:
    return nareg.io.readings_to_frame(readings)


def clean(table: pd.DataFrame) -> np.ndarray:
    return nareg.clean(table).x.to_numpy()


def line(table: pd.DataFrame) -> np.ndarray:
    return interpolate_in_time(table.to_numpy().T).T


def neighbors(table: pd.DataFrame) -> np.ndarray:
    return KNNImputer().fit_transform(table.to_numpy())


def iterative(table: pd.DataFrame) -> np.ndarray:
    nearest = min(20, table.shape[1] - 1)
    return IterativeImputer(random_state=SEED, max_iter=5, n_nearest_features=nearest).fit_transform(table.to_numpy())


METHODS = {"nareg clean": clean, "straight line": line, "KNNImputer": neighbors, "IterativeImputer": iterative}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("networks", nargs="*", default=list(NETWORKS), metavar="network", help=", ".join(NETWORKS))
    files = Path(os.environ["NAREG_DATA"]) / "files"
    shown = Table("network", "stations x times", *METHODS)
    for name in parser.parse_args().networks:
        table = NETWORKS[name](files)
        truth = table.to_numpy()
        hidden = np.isfinite(truth) & (np.random.default_rng(SEED).random(truth.shape) < HIDDEN)
        seen = table.mask(hidden)
        cells = []
        for method in METHODS.values():
            start = time.perf_counter()
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                x = method(seen)
            error = float(np.abs(x - truth)[hidden].mean())
            cells.append(f"{error:.3g} ({time.perf_counter() - start:.0f} s)")
        shown.add_row(name, f"{table.shape[1]} x {table.shape[0]:,}", *cells)
    Console().print(shown)


if __name__ == "__main__":
    main()
