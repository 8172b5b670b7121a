"""US network: a stream over the second half of the year against smoothing of the whole record."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any

import numpy as np

from experiments import _us as u
from experiments._figure import Figure, Point, Row, Verdict, column, grade, mean_and_error
from nareg import spacetime

STREAM, STREAM_PLAIN, BATCH, REFIT = "stream", "stream, not robust", "smoother, same model", "smoother, fitted to all days"
#: Aim: difference of stream and smoother at the last day, over the field's standard deviation.
AGREES = 1e-6


@dataclass(frozen=True)
class Settings:
    """The model is fitted to the first ``fitted`` days and then takes in one day after the other."""

    snr_db: tuple[float, ...] = (-10.0, 0.0, 10.0)
    fitted: int = 182
    draws: int = 3
    seed: int = 0


def points(s: Settings) -> list[Point]:
    return [{"snr_db": snr, "draw": draw} for snr in s.snr_db for draw in range(s.seed, s.seed + s.draws)]


def compute(s: Settings, point: Point) -> list[Row]:
    t = u.task(point["snr_db"], point["draw"])
    readings, later = t.noisy + t.mean, slice(s.fitted, None)
    graph, times = t.network.graph, t.times
    model = spacetime.fit(graph, readings[:, : s.fitted], times=times[: s.fitted])
    rows = []
    for name, robust in ((STREAM, 4.0), (STREAM_PLAIN, None)):
        x, seconds = streamed(model, readings[:, later], times[later], robust)
        nmse = t.nmse(np.column_stack([t.noisy[:, : s.fitted], x - t.mean]), later)
        timed = 1e3 * seconds[20:]
        row = {"method": name, "nmse": nmse, "median_ms": float(np.median(timed)), "largest_ms": float(timed.max())}
        rows.append(row)
    smooth = model.smooth(readings, times=times, robust=False).x
    apart = float(np.abs(x[:, -1] - smooth[:, -1]).max() / np.std(t.truth))  # the stream that takes every reading as it is
    rows.append({"method": BATCH, "nmse": t.nmse(smooth - t.mean, later), "last_day_apart": apart})
    refitted = spacetime.fit(graph, readings, times=times).smooth().x
    rows.append({"method": REFIT, "nmse": t.nmse(refitted - t.mean, later)})
    return rows


def streamed(
    model: spacetime.SpaceTimeModel | spacetime.SparseSpaceTimeModel,
    readings: np.ndarray,
    times: np.ndarray,
    robust: float | None,
) -> tuple[np.ndarray, np.ndarray]:
    """Estimates (N, T) as they come, and the seconds of each update."""
    stream = model.stream(robust=robust)
    x, seconds = np.empty_like(readings), np.empty(times.size)
    for k, day in enumerate(times):
        begun = time.perf_counter()
        x[:, k] = stream.update(readings[:, k], time=day).x
        seconds[k] = time.perf_counter() - begun
    return x, seconds


def draw(s: Settings, rows: list[Row]) -> Any:
    """NMSE of the second half by method and SNR."""
    import matplotlib.pyplot as plt

    figure, axis = plt.subplots(figsize=(8, 5), layout="constrained")
    for k, name in enumerate((STREAM, STREAM_PLAIN, BATCH, REFIT)):
        values = [mean_and_error(column(rows, "nmse", method=name, snr_db=snr))[0] for snr in s.snr_db]
        axis.bar(np.arange(len(values)) + 0.2 * (k - 1.5), values, 0.18, label=name)
    axis.set_xticks(range(len(s.snr_db)), [f"{snr:g} dB" for snr in s.snr_db])
    axis.set(yscale="log", title="US network, days that come one by one", ylabel="NMSE over the second half of the year")
    axis.grid(axis="y", alpha=0.4)
    axis.legend(fontsize=9)
    return figure


def judge(s: Settings, rows: list[Row]) -> list[Verdict]:
    apart = max(column(rows, "last_day_apart", method=BATCH))
    texts = []
    for snr in s.snr_db:
        now, after = (mean_and_error(column(rows, "nmse", method=m, snr_db=snr))[0] for m in (STREAM, BATCH))
        texts.append(f"{snr:g} dB: {now:.4f} as readings come, {after:.4f} with all later ones")
    median = float(np.median(column(rows, "median_ms", method=STREAM)))
    said = (
        f"Difference {apart:.1e} of the field's standard deviation. NMSE {'; '.join(texts)}; median {median:.2f} ms per update."
    )
    return [Verdict("agrees", grade([apart <= AGREES], aim=True), said)]


FIGURE = Figure(
    "time-stream", "Stream against batch", Settings(), Settings(snr_db=(0.0,), draws=1), points, compute, draw, judge, **u.PARTS
)
