"""Space-time smoothing with SciPy and on the ranks of PETSc: seconds, memory per rank, and whether the answers agree.

``python benchmarks/spacetime_petsc.py`` runs ``mpiexec`` itself and prints a Markdown table. A field is drawn on a network of
random places with 8 nearest neighbors and read with noise and gaps; all smooth with its true process. Each rank has one thread,
SciPy has its own. CPU seconds are those of the busiest rank, waiting for others included, or of all of SciPy's threads: other
work on the machine changes them less. Memory before the smoothing is that of Python, the model and its readings.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
from spacetime_large import network

from nareg.results import Status
from nareg.spacetime import SparseSpaceTimeModel, load
from nareg.spacetime._model.results import Bands
from nareg.spacetime._readings import times as _times
from nareg.spacetime._readings import transforms as _transforms
from nareg.spacetime._readings.cycles import none


def save_model(path: Path, stations: int, times: int) -> None:
    graph, _, readings, process = network(stations, times, np.random.default_rng(0))
    SparseSpaceTimeModel(
        graph=graph, transform=_transforms.Transform("none"), unit=1.0, cycles=none(stations=stations),
        unit_noise=process.noise,
        process=process, grid=_times.grid(np.arange(float(times))), bands=Bands(), status=Status.CONVERGED,
        log_likelihood=0.0, readings=readings, excluded=np.zeros(readings.shape, dtype=bool),
    ).save(path)  # fmt: skip


def peak() -> float:
    """Bytes of memory that this process had at most."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def smooth(folder: Path, backend: str) -> None:
    """One smoothing, with SciPy alone or on every rank of ``mpiexec``; the first rank prints a line of JSON."""
    model, rank = load(folder / "model.npz"), 0
    before, start, cpu = peak(), time.perf_counter(), time.process_time()
    smoothed = model.smooth(backend=backend)  # type: ignore[call-arg]
    seconds, cpu = time.perf_counter() - start, time.process_time() - cpu
    most, cpus = [peak()], [cpu]
    if backend == "petsc":
        from mpi4py import MPI

        rank, most, cpus = MPI.COMM_WORLD.rank, MPI.COMM_WORLD.allgather(peak()), MPI.COMM_WORLD.allgather(cpu)
    if rank == 0:
        np.save(folder / "x.npy", np.stack([smoothed.x, smoothed.std]))
        print(json.dumps({"seconds": seconds, "before": before, "memory": max(most), "cpu": max(cpus)}))


def launch(folder: Path, ranks: int) -> dict[str, float]:
    """Facts of one run; no ranks is SciPy."""
    command = [sys.executable, __file__, "--folder", str(folder), "--backend", "petsc" if ranks else "scipy"]
    environment = dict(os.environ)
    if ranks:
        mpiexec = shutil.which("mpiexec", path=str(Path(sys.executable).parent)) or shutil.which("mpiexec")
        if mpiexec is None:
            raise SystemExit(
                "no mpiexec beside this Python or on the PATH: pip install 'nareg[petsc]' on Python 3.12 or later."
            )
        command = [mpiexec, "-n", str(ranks), *command]
        environment |= {"OMP_NUM_THREADS": "1", "NUMBA_NUM_THREADS": "1"}
    text = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True, env=environment).stdout
    return json.loads(text.splitlines()[-1])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--stations", type=int, default=20_000)
    parser.add_argument("--times", type=int, default=100)
    parser.add_argument("--ranks", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--folder", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--backend", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.backend:
        smooth(options.folder, options.backend)
        return
    print(f"{options.stations:,} stations x {options.times:,} times, {os.cpu_count()} cores\n", flush=True)
    print("| who | smooth, s | CPU s | peak GB per rank | before it | mean, from SciPy's | standard deviation, from SciPy's |")
    print("|---" * 7 + "|", flush=True)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        save_model(folder / "model.npz", options.stations, options.times)
        reference = None
        for ranks in [0, *options.ranks]:
            facts = launch(folder, ranks)
            x = np.load(folder / "x.npy")
            reference = x if reference is None else reference
            away = np.abs(x - reference).max(axis=(1, 2)) / np.abs(reference).max(axis=(1, 2))
            who = f"PETSc, ranks: {ranks}" if ranks else "SciPy"
            print(
                f"| {who} | {facts['seconds']:.1f} | {facts['cpu']:.1f} | {facts['memory'] / 1e9:.2f} "
                f"| {facts['before'] / 1e9:.2f} | {away[0]:.1e} | {away[1]:.1e} |",
                flush=True,
            )


if __name__ == "__main__":
    main()
