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
from nareg.spacetime import SparseStream
from nareg.spacetime._sparse.field import FieldFamily
from nareg.spacetime._sparse.system import Process

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

    follow(model.stream(), process, truth[:, -1], options.updates, rng)


def follow(stream: SparseStream, process: Process, x: np.ndarray, updates: int, rng: np.random.Generator) -> None:
    """Go on from the field ``x`` (N,): seconds, memory and errors of a stream's updates."""
    times, errors, squares, memory = [], [], [], []
    for _ in range(updates):
        fresh = process.field.factor.solve(process.field.root_noise((), rng))
        x = RHO * x + np.sqrt((1 - RHO**2) * process.variance) * fresh
        y = x + np.sqrt(process.noise) * rng.standard_normal(x.size)
        y[rng.random(x.size) < GAPS] = np.nan
        start = time.perf_counter()
        update = stream.update(y)
        times.append(time.perf_counter() - start)
        memory.append(resident())
        errors.append(np.mean((update.x - x) ** 2))
        squares.append(np.mean(update.std**2))
    ms, few = np.array(times) * 1e3, min(updates, 1_000)
    for name, part in (("first", slice(few)), ("last", slice(updates - few, None)), ("all", slice(None))):
        print(
            f"stream, {name} {ms[part].size:,} updates: {ms[part].mean():.1f} ms each in the mean, {np.median(ms[part]):.1f} "
            f"in the median, {np.quantile(ms[part], 0.95):.1f} at the 95 % quantile; "
            f"RMSE {np.sqrt(np.mean(errors[part])):.4f}, standard deviation {np.sqrt(np.mean(squares[part])):.4f}"
        )
    report(
        f"memory {memory[0]:.3f} GiB after the first update, {memory[few - 1]:.3f} after {few:,}, {memory[-1]:.3f} after "
        f"{updates:,}, at most {max(memory):.3f}"
    )


def resident() -> float:
    """Memory in use, GiB (Linux)."""
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * resource.getpagesize() / 2**30


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
