"""What shows only after long: growth of memory in one process, and stores of models that are mistreated at random.

    python benchmarks/soak.py                        20,000 updates of a stream, 10 rounds of the command line
    python benchmarks/soak.py --updates 200000 --rounds 50
    python benchmarks/soak.py --stores 300           stores and folders of models for 300 seconds, and nothing else

Prints the resident memory every so often: first of the stream, also while it is saved and loaded, then of the commands
design, denoise, interpolate, clean and explore on bundled data. The verdict is the slope of the second half of the points,
per 1,000 updates and per round, beside the spread of the points around it: a slope within it is none. The first half is left
out: libraries are loaded, and caches filled.

With ``--stores`` processes remove nodes and edges from a model at random, and write down what they asked and what was
acknowledged. They fork, ask from two threads, and are killed. Links are planted in folders, and bits flip in copies. After
each, whatever was acknowledged must be gone, whatever nobody asked for must be there, and the gradient on the raw data that
remain within what the certificate says. The verdict is the number of violations, and the exit status is 1 if there are any.
"""

from __future__ import annotations

import argparse
import contextlib
import gc
import io
import os
import tempfile
import warnings
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from rich.progress import track

import nareg
from nareg import cli, spacetime

#: Growth in MiB per 1,000 updates, or per round, from which the verdict says that memory grows.
PER_THOUSAND, PER_ROUND = 0.05, 1.0
POINTS = 20
PAGE = os.sysconf("SC_PAGE_SIZE") / 2**20


def resident() -> float:
    """Resident memory of this process in MiB."""
    gc.collect()
    return int(Path("/proc/self/statm").read_text().split()[1]) * PAGE


def stream(n_updates: int, n_stations: int) -> Iterator[tuple[int, float]]:
    """Updates with gaps and jumps; ten times the stream is saved and loaded."""
    rng = np.random.default_rng(0)
    network = nareg.datasets.simulated(n_stations, 200, rng=rng)
    graph = nareg.Graph.from_knn(network.coordinates, 7, names=network.names)
    model = spacetime.fit(graph, network.readings, dynamics="scalar", cycles=None, transform=None)
    follower = model.stream()
    every = max(n_updates // POINTS, 1)
    with tempfile.TemporaryDirectory() as folder:
        for k in track(range(1, n_updates + 1), description="stream"):
            y = network.readings[:, k % 200] + rng.standard_normal(n_stations)
            y[rng.random(n_stations) < 0.2] = np.nan
            follower.update(y)
            if k % max(n_updates // 10, 1) == 0:
                follower.save(Path(folder) / "stream.npz")
                follower = spacetime.load_stream(Path(folder) / "stream.npz")
            if k % every == 0:
                yield k, resident()


def commands(n_rounds: int) -> Iterator[tuple[int, float]]:
    """The command line's main jobs on forty bundled stations and sixty days."""
    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
        us = nareg.datasets.load("us-weather").complete().select(np.arange(40))
        noisy = us.signals[:, :60] + np.random.default_rng(0).standard_normal((40, 60))
        names = tuple(f"s{i}" for i in range(40))
        places = zip(names, *us.coordinates.T, strict=True)
        nareg.io.write_rows("stations.csv", ["station", "latitude", "longitude"], places)
        nareg.io.write_readings("readings.csv", nareg.io.Readings(names, tuple(us.times[:60]), noisy))
        files = ["stations.csv", "readings.csv"]
        jobs = [
            ["design", *files, "--noise", "1", "--out", "design.npz"],
            ["denoise", *files, "--weights", "design.npz", "--out", "x.csv"],
            ["interpolate", *files, "--weights", "design.npz", "--out", "y.csv"],
            ["clean", *files, "--out", "clean"],
            ["explore", *files, "--out", "page.html"],
        ]
        for k in track(range(1, n_rounds + 1), description="commands"):
            for job in jobs:
                silently(job)
            yield k, resident()


def silently(job: list[str]) -> None:
    """A command, without what it prints; it has to succeed."""
    out = io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(out), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        status = cli.app(job, standalone_mode=False)
    if status:
        raise SystemExit(f"nareg {' '.join(job)} ended with status {status}: {out.getvalue()}")


def verdict(what: str, points: list[tuple[int, float]], unit: int, limit: float, per: str) -> None:
    """The slope of the second half, and whether memory grows."""
    half = np.array(points[len(points) // 2 :])
    if len(half) < 3:
        print(f"{what}: too few points for a verdict")
        return
    slope, level = np.polyfit(half[:, 0], half[:, 1], 1)
    spread = float(np.std(half[:, 1] - slope * half[:, 0] - level)) * unit / np.ptp(half[:, 0])
    grows = slope * unit > max(limit, 2 * spread)
    print(f"{what}: {slope * unit:+.4f} MiB per {per} (spread {spread:.4f}): memory {'GROWS' if grows else 'does not grow'}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--updates", type=int, default=20_000)
    parser.add_argument("--stations", type=int, default=30)
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--stores", type=float, metavar="SECONDS", help="mistreat stores for so long, and do nothing else")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    if options.stores is not None:
        import _soak_stores

        raise SystemExit(_soak_stores.run(options.stores, options.seed))
    for what, points, unit, limit, per in (
        ("stream", stream(options.updates, options.stations), 1000, PER_THOUSAND, "1,000 updates"),
        ("commands", commands(options.rounds), 1, PER_ROUND, "round"),
    ):
        seen = []
        for count, memory in points:
            seen.append((count, memory))
            print(f"{what} {count:8d}   {memory:8.1f} MiB", flush=True)
        verdict(what, seen, unit, limit, per)


if __name__ == "__main__":
    main()
