"""How long tables take to read: wide, long, quoted, with decimal commas, with gaps, and as a pandas frame.

    python benchmarks/tables.py                       20,000 stations, 50 times
    python benchmarks/tables.py --stations 500 --times 5000

Printed are the best of three runs, in seconds of one core, and what pandas needs to read the same file without a check. Every
table that was read is compared with what was written.
"""

from __future__ import annotations

import argparse
import csv
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from nareg import io


def seconds(call: Callable[[], Any], expected: np.ndarray, repeats: int = 3) -> float:
    """Best of some runs; what is read must be what was written."""
    best = np.inf
    for _ in range(repeats):
        begin = time.process_time()
        table = call()
        best = min(best, time.process_time() - begin)
        values = table.values if isinstance(table, io.Readings) else expected
        np.testing.assert_array_equal(values, expected)
    return best


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--stations", type=int, default=20_000)
    parser.add_argument("--times", type=int, default=50)
    arguments = parser.parse_args()
    rng = np.random.default_rng(0)
    values = np.round(rng.normal(12, 8, (arguments.times, arguments.stations)), 2)
    gaps = np.where(rng.random(values.shape) < 0.1, np.nan, values)
    index = pd.date_range("2024-01-01", periods=arguments.times, freq="10min", name="time")
    names = [f"station {i}" for i in range(arguments.stations)]
    frame, holes = (pd.DataFrame(table, index=index, columns=names) for table in (values, gaps))
    long = frame.reset_index().melt("time", var_name="station", value_name="value").sort_values("time", kind="stable")
    with tempfile.TemporaryDirectory() as folder:
        files: dict[str, tuple[Path, dict[str, Any]]] = {
            "wide": (Path(folder) / "wide.csv", {}),
            "wide, 10 % missing": (Path(folder) / "gaps.csv", {}),
            "wide, every cell quoted": (Path(folder) / "quoted.csv", {}),
            "wide, decimal commas": (Path(folder) / "comma.csv", {"sep": ";", "decimal": ","}),
            "long": (Path(folder) / "long.csv", {}),
        }
        paths = {what: path for what, (path, _) in files.items()}
        frame.to_csv(paths["wide"])
        holes.to_csv(paths["wide, 10 % missing"])
        frame.to_csv(paths["wide, every cell quoted"], quoting=csv.QUOTE_ALL)
        frame.to_csv(paths["wide, decimal commas"], sep=";", decimal=",")
        long.to_csv(paths["long"], index=False)
        print(f"{arguments.stations:,} stations x {arguments.times:,} times: seconds of one core")
        print(f"{'':24} {'nareg':>8} {'pandas':>8}")
        for what, (path, options) in files.items():
            expected = (gaps if "missing" in what else values).T
            own = seconds(lambda path=path: io.read_readings(path, names), expected)
            other = seconds(lambda path=path, options=options: pd.read_csv(path, **options), expected)
            print(f"{what:24} {own:8.2f} {other:8.2f}")
        own = seconds(lambda: io.readings_from_frame(frame, names), values.T)
        print(f"{'frame':24} {own:8.2f}")


if __name__ == "__main__":
    main()
