"""Grids on 1, 2 and 4 ranks of MPI: seconds, iterations, memory per rank, and whether the answers agree.

``python benchmarks/petsc_grid.py`` runs ``mpiexec`` itself and prints Markdown tables; ``--small`` takes grids a hundred times
smaller. Graph, weights and readings are made by rows: no rank holds them whole. Weights spread over three decades, either
independent from node to node (Jacobi-CG) or smooth (GAMG). Four ranks on fewer cores share them. In the same run each number of
ranks copies memory, which bounds what it can gain.
"""

from __future__ import annotations

import argparse
import json
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

SIDES = (316, 1000, 3162)
SMALL = (100, 316)
TOL = 1e-8


def grid_rows(side: int, first: int, last: int) -> tuple[np.ndarray, np.ndarray]:
    """Rows of a square grid's adjacency: row starts and columns, which rise in every row."""
    node = np.arange(first, last, dtype=np.int32)
    row, column = np.divmod(node, np.int32(side))
    there = np.column_stack([row > 0, column > 0, column < side - 1, row < side - 1])
    neighbors = node[:, None] + np.array([-side, -1, 1, side], dtype=np.int32)
    return np.concatenate([[0], np.cumsum(there.sum(axis=1))]), neighbors[there]


def noise(node: np.ndarray, salt: int) -> np.ndarray:
    """Numbers in [0, 1) that depend on the node alone, whatever rank asks: the finalizer of SplitMix64."""
    mixed = (node.astype(np.uint64) + np.uint64(salt << 40)) * np.uint64(0x9E3779B97F4A7C15)
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
        mixed = (mixed ^ (mixed >> np.uint64(shift))) * np.uint64(factor)
    return (mixed >> np.uint64(11)) * 2.0**-53


def solve(side: int, kind: str, method: str, out: str) -> dict[str, float | str]:
    """One solve on all ranks, the answer written to a file."""
    from nareg._solvers._petsc.choice import Methods
    from nareg._solvers._petsc.matrices import from_adjacency, from_rows, local_range, with_diagonal
    from nareg._solvers._petsc.ranks import load
    from nareg._solvers._petsc.rows import parallel_writer

    comm, n = load().comm, side * side
    first, last = local_range(n)
    comm.barrier()
    start = time.perf_counter()
    A = from_rows(n, *with_diagonal(first, *grid_rows(side, first, last), None))
    node = np.arange(first, last)
    w, c = A.createVecRight(), A.createVecRight()
    w.array[:] = 10.0 ** (3 * (noise(node, 1) if kind == "independent" else node / n))
    c.array[:] = 1.0
    rhs = noise(node, 2)[:, None] - 0.5
    del node
    methods = Methods(from_adjacency(A, w, c))
    solver = methods.gamg if method == "gamg" else methods.jacobi
    comm.barrier()
    made = time.perf_counter()
    result, _ = methods.run(method, rhs, tol=TOL, max_iterations=None, callback=None)
    comm.barrier()
    done = time.perf_counter()
    with parallel_writer(out, (n,), np.dtype(np.float64)) as write:
        write(first, result.x)
    residual = max(methods.system.residuals(result.x, rhs))
    return {
        "iterations": result.iterations, "setup": made - start, "solve": done - made, "status": result.status.name,
        "residual": residual, "levels": solver.note,
    }  # fmt: skip


def copy_bandwidth() -> float:
    """Bytes read and written per second by all ranks together."""
    from nareg._solvers._petsc.ranks import load

    comm = load().comm
    source = np.ones(2**25 // comm.size)
    target = np.empty_like(source)
    seconds = []
    for _ in range(5):
        comm.barrier()
        start = time.perf_counter()
        np.copyto(target, source)
        comm.barrier()
        seconds.append(time.perf_counter() - start)
    return float(2 * source.nbytes * comm.size / min(seconds[1:]))


def on_every_rank(job: dict[str, str | int]) -> None:
    """What mpiexec runs: the first rank prints a line of JSON."""
    from nareg._solvers._petsc.ranks import load, together

    comm = load().comm
    with together(comm):
        facts = {"bandwidth": copy_bandwidth()} if job["kind"] == "copy" else solve(**job)  # type: ignore[arg-type]
        peaks = comm.gather(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024)
    if comm.rank == 0:
        print(json.dumps({**facts, "memory": max(peaks)}))


def launch(ranks: int, **job: str | int) -> dict[str, float]:
    mpiexec = shutil.which("mpiexec", path=str(Path(sys.executable).parent)) or shutil.which("mpiexec")
    if mpiexec is None:
        raise SystemExit("no mpiexec beside this Python or on the PATH: pip install 'nareg[petsc]' on Python 3.12 or later.")
    print(f"{job} on {ranks} ranks ...", file=sys.stderr, flush=True)
    command = [mpiexec, "-n", str(ranks), sys.executable, __file__, "--job", json.dumps(job)]
    text = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    return json.loads(text.splitlines()[-1])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--small", action="store_true", help="at most 1e5 nodes: seconds")
    parser.add_argument("--sides", type=int, nargs="+", help="sides of the square grids, rising")
    parser.add_argument("--ranks", type=int, nargs="+", default=[1, 2, 4])
    parser.add_argument("--job", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.job:
        on_every_rank(json.loads(options.job))
        return
    sides = options.sides or (SMALL if options.small else SIDES)
    print("| ranks | copy, all ranks together, GB/s |\n|---|---|", flush=True)
    for ranks in options.ranks:
        print(f"| {ranks} | {launch(ranks, kind='copy')['bandwidth'] / 1e9:.1f} |", flush=True)
    print(
        "\n| nodes | weights, method | ranks | status | iterations | assembly and setup, s | solve, s | GB per rank "
        "| faster than one rank | memory of one rank | from one rank's answer |\n" + "|---" * 11 + "|",
        flush=True,
    )
    for kind, method in (("independent", "cg"), ("smooth", "gamg")):
        for side in sides:
            with tempfile.TemporaryDirectory() as folder:
                table(side, kind, method, options.ranks if side == sides[-1] else options.ranks[:1], Path(folder))


def table(side: int, kind: str, method: str, all_ranks: list[int], folder: Path) -> None:
    """The rows of one case, each compared with the first."""
    first, reference = None, None
    for ranks in all_ranks:
        out = folder / f"{ranks}.npy"
        facts = launch(ranks, side=side, kind=kind, method=method, out=str(out))
        x = np.load(out)
        seconds = facts["setup"] + facts["solve"]
        if first is None:
            first, reference = facts, x
        gain = (first["setup"] + first["solve"]) / seconds
        away = np.linalg.norm(x - reference) / np.linalg.norm(reference)
        levels = f", {facts['levels']}" if facts["levels"] else ""
        print(
            f"| {side**2:,} | {kind}, {method}{levels} | {ranks} | {facts['status']} | {facts['iterations']} "
            f"| {facts['setup']:.2f} | {facts['solve']:.2f} | {facts['memory'] / 1e9:.2f} | {gain:.2f} "
            f"| {facts['memory'] / first['memory']:.2f} | {away:.1e} |",
            flush=True,
        )


if __name__ == "__main__":
    main()
