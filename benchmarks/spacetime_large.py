"""Space-time models of large networks: seconds and memory of fit, smooth and stream, and the error against the truth.

A field is drawn on a network of random places with 8 nearest neighbors, read with noise and gaps, and given to
``nareg.spacetime.fit``. Beside the error of the estimate stand the error of the readings, of the field with the true parameters
(what no estimate can beat), and the best single weight of each snapshot (chosen by the truth).
"""

from __future__ import annotations

import argparse
import resource
import sys
import time

import numpy as np

import nareg
from nareg.spacetime._large.field import FieldFamily
from nareg.spacetime._large.system import Process

RHO, REACH, VARIANCE, NOISE, GAPS = 0.93, 6.0, 2.0, 0.5, 0.2


def network(n: int, T: int, rng: np.random.Generator) -> tuple[nareg.Graph, np.ndarray, np.ndarray, Process]:
    """Graph, truth and readings (N, T), and the process that they were drawn from."""
    graph = nareg.Graph.from_knn(rng.random((n, 2)), 8)
    noise = NOISE * np.exp(0.4 * rng.standard_normal(n))
    process = Process(FieldFamily(graph.adjacency, 2).at(REACH), RHO, VARIANCE, noise)
    truth = process.draw(T, rng)
    readings = truth + np.sqrt(noise)[:, None] * rng.standard_normal(truth.shape)
    readings[rng.random(truth.shape) < GAPS] = np.nan
    return graph, truth, readings, process


def report(text: str) -> None:
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    print(f"{text}; peak {peak:.2f} GiB", flush=True)


def rms(errors: np.ndarray) -> float:
    return float(np.sqrt(np.nanmean(errors**2)))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--stations", type=int, default=10_000)
    parser.add_argument("--times", type=int, default=1_000)
    parser.add_argument("--updates", type=int, default=1_000, help="updates of the stream")
    options = parser.parse_args()
    rng = np.random.default_rng(0)
    graph, truth, readings, process = network(options.stations, options.times, rng)
    report(f"{options.stations:,} stations x {options.times:,} times, {np.isfinite(readings).mean():.0%} of the readings there")

    bar = nareg.progress.bar() if sys.stderr.isatty() and hasattr(nareg.progress, "bar") else None
    start = time.perf_counter()
    model = nareg.spacetime.fit(graph, readings, rng=np.random.default_rng(1), progress=bar)
    seconds = time.perf_counter() - start
    report(f"fit {seconds:.1f} s: " + ", ".join(f"{name} {value:.1f}" for name, value in model.timings.items()))
    print(model.summary())
    fitted = model.process
    scale = model.unit**2
    print(
        f"rho {fitted.rho:.4f} (true {RHO}), variance {fitted.variance * scale:.3f} ({VARIANCE}), "
        f"reach {fitted.field.reach:.2f} ({REACH}), noise: mean log ratio {np.log(model.noise / process.noise).mean():.3f}, "
        f"spread {np.log(model.noise / process.noise).std():.3f}"
    )
    start = time.perf_counter()
    smoothed = model.smooth()
    report(f"smooth {time.perf_counter() - start:.1f} s")
    error = smoothed.x - truth
    print(
        f"RMSE {rms(error):.4f} (readings {rms(readings - truth):.4f}), standard deviation {rms(smoothed.std):.4f}, "
        f"90 % band covers {np.mean(np.abs(error) <= 1.645 * smoothed.std):.3f}"
    )
    with_truth = model_with(model, process)
    print(f"RMSE with the true parameters {rms(with_truth.smooth().x - truth):.4f}")

    stream = model.stream()
    x, times, errors, squares = truth[:, -1], [], [], []
    innovations = process.draw(options.updates, rng)  # the continuation: a stationary field from the last state on
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    previous = None
    for k in range(options.updates):
        fresh = innovations[:, k] if previous is None else innovations[:, k] - RHO * innovations[:, k - 1]
        x = RHO * x + (fresh if previous is not None else np.sqrt(1 - RHO**2) * fresh)
        previous = fresh
        y = x + np.sqrt(process.noise) * rng.standard_normal(x.size)
        y[rng.random(x.size) < GAPS] = np.nan
        start = time.perf_counter()
        update = stream.update(y)
        times.append(time.perf_counter() - start)
        errors.append(np.mean((update.x - x) ** 2))
        squares.append(np.mean(update.std**2))
    grown = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 2**10
    warm = np.array(times[min(10, len(times) - 1) :]) * 1e3
    report(
        f"stream: {np.median(warm):.1f} ms an update in the median, {np.quantile(warm, 0.95):.1f} at the 95 % quantile; "
        f"RMSE {np.sqrt(np.mean(errors)):.4f}, standard deviation {np.sqrt(np.mean(squares)):.4f}; "
        f"peak memory grew by {grown:.0f} MiB over {options.updates:,} updates"
    )


def model_with(model: nareg.spacetime.SparseSpaceTimeModel, process: Process) -> nareg.spacetime.SparseSpaceTimeModel:
    """The same model with the true parameters."""
    from dataclasses import replace

    unit = model.unit**2
    noise = process.noise / unit
    truth = Process(process.field, process.rho, process.variance / unit, noise)
    level = np.zeros_like(model.cycles.level)
    return replace(model, process=truth, unit_noise=noise, cycles=replace(model.cycles, level=level))


if __name__ == "__main__":
    main()
