"""Flags of other packages for the readings of ``human_labels.py``; runs with a Python that has these packages, without nareg.

    PYTHON benchmarks/_human_peers.py READINGS.csv LIMITS.json FLAGS.npz

``LIMITS.json`` has per column of the readings: ``low``, ``high``, ``spike``, ``repeats``, and for pyhydroqc ``site`` and
``variable``. What cannot be imported is left out, and what is flagged is one array (times, columns) per method.
"""

from __future__ import annotations

import contextlib
import io
import json
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd

Limits = dict[str, Any]
Method = Callable[[pd.Series, Limits], np.ndarray]


def ioos_methods() -> dict[str, Method]:
    """Range, spike and persistence tests of QARTOD; suspect readings count as flagged, as flags 3 and 4 of nareg do."""
    from ioos_qc import qartod

    def flagged(codes: Any) -> np.ndarray:
        return np.isin(np.ma.filled(codes, 2), (3, 4))

    def in_range(series: pd.Series, limits: Limits) -> np.ndarray:
        return flagged(qartod.gross_range_test(series.to_numpy(), (limits["low"], limits["high"])))

    def spike(series: pd.Series, limits: Limits) -> np.ndarray:
        return flagged(qartod.spike_test(series.to_numpy(), limits["spike"], 2 * limits["spike"]))

    def persistence(series: pd.Series, limits: Limits) -> np.ndarray:
        step = int(series.index.to_series().diff().median().total_seconds())
        seconds = limits["repeats"] * step
        # ranges below the tolerance are flat, so that its default, 0, never flags
        return flagged(qartod.flat_line_test(series.to_numpy(), series.index.to_numpy(), seconds, seconds, 1e-6))

    def all_three(series: pd.Series, limits: Limits) -> np.ndarray:
        return in_range(series, limits) | spike(series, limits) | persistence(series, limits)

    return {"range": in_range, "spike": spike, "persistence": persistence, "ioos_qc, all three": all_three}


def saqc_methods() -> dict[str, Method]:
    """The range, the local outlier factor with its defaults, and runs of one value."""
    import saqc

    def flags(series: pd.Series, limits: Limits) -> np.ndarray:
        step = int(series.index.to_series().diff().median().total_seconds())
        checked = saqc.SaQC(series.rename("y").to_frame())
        with contextlib.suppress(IndexError):  # SaQC 2.9.1 cannot score two short series of pecos-pv
            checked = checked.flagUniLOF("y")
        checked = checked.flagConstants("y", window=f"{limits['repeats'] * step}s", thresh=0)
        checked = checked.flagRange("y", min=limits["low"], max=limits["high"])
        return (checked.flags["y"].reindex(series.index).to_numpy() > 0).astype(bool)

    return {"SaQC": flags}


def hydro_methods() -> dict[str, Method]:
    """Rules and ARIMA with the orders and thresholds that the package publishes for each site and quantity of the river."""
    from pyhydroqc import anomaly_utilities, modeling_utilities, rules_detect
    from pyhydroqc.parameters import site_params

    def arima(series: pd.Series, limits: Limits) -> np.ndarray:
        p = site_params[limits["site"]][limits["variable"]]
        frame = pd.DataFrame({"raw": series})
        frame, _ = rules_detect.range_check(frame, p.max_range, p.min_range)
        frame, _ = rules_detect.persistence(frame, p.persist)
        frame = rules_detect.interpolate(frame)
        _, residuals, predictions = modeling_utilities.build_arima_model(frame["observed"], *p.pdq, summary=False)
        threshold = anomaly_utilities.set_dynamic_threshold(residuals[0], p.window_sz, p.alpha, p.threshold_min)
        threshold.index = residuals.index
        anomalies = anomaly_utilities.detect_anomalies(frame["observed"], predictions, residuals, threshold, summary=False)
        return (anomalies["anomaly"] | frame["anomaly"]).to_numpy(dtype=bool)

    return {"pyhydroqc": arima}


def main() -> None:
    """Flag every column by every method of the packages that are here."""
    readings = pd.read_csv(sys.argv[1], index_col=0, parse_dates=True)
    with open(sys.argv[2]) as handle:
        limits: dict[str, Limits] = json.load(handle)
    flags: dict[str, np.ndarray] = {}
    for methods in (ioos_methods, saqc_methods, hydro_methods):
        try:
            some = methods()
        except ImportError:
            continue
        for name, method in some.items():
            if name == "pyhydroqc" and "site" not in next(iter(limits.values())):
                continue
            flags[name] = np.zeros(readings.shape, dtype=bool)
            for k, column in enumerate(readings.columns):
                series = readings[column].dropna()
                with contextlib.redirect_stdout(io.StringIO()):
                    flags[name][readings.index.get_indexer(series.index), k] = method(series, limits[column])
    np.savez_compressed(sys.argv[3], **flags)


if __name__ == "__main__":
    main()
