"""A graph of 10^8 edges filtered and propagated on disk, against the same in memory.

    python benchmarks/out_of_core.py                10^7 nodes, 10^8 weighted edges, 16 float32 features (7 GB on disk)
    python benchmarks/out_of_core.py --small        a hundredth of it
    python benchmarks/out_of_core.py --papers       ogbn-papers100M's size by ten, 128 features (14 GB on disk): two products
    python benchmarks/out_of_core.py --uncached     drops the pages that were read at once: every pass comes from the disk

Makes a power-law graph whose neighbors lie anywhere, straight into a folder, and runs each task in a process of its own. Prints
seconds, bytes, and the largest resident memory (VmHWM: everything that the process has mapped, its libraries too). "In memory"
is the full size for propagation, and a tenth of it, times ten, for the solve.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from nareg import filters, gnn, io
from nareg._storage.graph_sorting import Entries, EntrySource, SortOptions, sort
from nareg.gnn import series
from nareg.graph import Graph

COLUMNS, ORDER, TOL = 16, 10, 1e-6
#: Nodes, directed edges and features of ogbn-papers100M, and products with A~ that its models take.
PAPERS, PAPERS_EDGES, PAPERS_COLUMNS, PAPERS_ORDER = 111_059_956, 1_615_685_872, 128, 2
#: Edges that are drawn at a time.
PIECE = 2**21


def edges(n: int, count: int, *, weighted: bool) -> Iterator[Entries]:
    """Edges of a power-law graph (exponent 2.5), with weights in [0.5, 1.5) or without, the same in every pass."""
    share, offset = 1 - 1 / 1.5, n**0.5
    low, high = offset**share, (n + offset) ** share
    spread = 7_368_787  # a prime: scatters the nodes of large degree
    for first in range(0, count, PIECE):
        size = min(PIECE, count - first)
        rng = np.random.default_rng([count, first])
        ends = ((low + rng.random((2, size)) * (high - low)) ** (1 / share) - offset).astype(np.int64)
        ends = np.minimum(ends, n - 1) * spread % n
        yield Entries(ends[0], ends[1], rng.random(size) + 0.5 if weighted else None, (first + size) / count)


def make(folder: Path, n: int, count: int, *, columns: int = COLUMNS, weighted: bool = True) -> None:
    """The graph, features, and node weights over three decades."""
    source = EntrySource("edges", lambda: edges(n, count, weighted=weighted), n, is_matrix=False)
    sort(source, folder / "g.graph", SortOptions(np.float32, symmetrize=True, drop_loops=True))
    rng = np.random.default_rng(0)
    x = np.lib.format.open_memmap(folder / "x.npy", "w+", np.float32, (n, columns))
    del x
    with open(folder / "x.npy", "r+b") as handle:  # by writes: mapped pages would count as memory
        handle.seek(-4 * n * columns, os.SEEK_END)
        for first in range(0, n, PIECE // columns):
            handle.write(rng.standard_normal((min(PIECE // columns, n - first), columns), dtype=np.float32).data)
    np.save(folder / "w.npy", 10 ** rng.uniform(-1.5, 1.5, n))


def on_disk_propagation(folder: Path) -> dict[str, float]:
    gnn.propagate(folder / "g.graph", folder / "x.npy", out=folder / "z.npy", weights=series.pagerank_weights(0.1, ORDER))
    return {}


def papers_propagation(folder: Path) -> dict[str, float]:
    weights = series.pagerank_weights(0.1, PAPERS_ORDER)
    gnn.propagate(folder / "g.graph", folder / "x.npy", out=folder / "z.npy", weights=weights)
    return {}


def on_disk_solve(folder: Path) -> dict[str, float]:
    solution = filters.denoise(folder / "g.graph", folder / "w.npy", folder / "x.npy", out=folder / "z.npy", tol=TOL)
    return {"iterations": solution.iterations, "residual": solution.residual}


def in_memory_propagation(folder: Path) -> dict[str, float]:
    """The package's own product on arrays in memory; normalized weights are made before the clock starts."""
    import scipy.sparse as sp

    from nareg.gnn._operators import NumpySparse, horner

    matrix = io.StoredGraph(folder / "g.graph").adjacency()
    root = 1 / np.sqrt(np.asarray(matrix.sum(axis=1)).ravel() + 1)
    for first in range(0, matrix.shape[0], PIECE):
        part = slice(matrix.indptr[first], matrix.indptr[min(first + PIECE, matrix.shape[0])])
        rows = np.repeat(root[first : first + PIECE], np.diff(matrix.indptr[first : first + PIECE + 1]))
        matrix.data[part] *= (rows * root[matrix.indices[part]]).astype(np.float32)
    x = np.load(folder / "x.npy")
    weights = series.pagerank_weights(0.1, ORDER)
    operator = NumpySparse(matrix, sp.csr_array((0, 0)))
    horner(operator, x[:, :1].copy(), weights[:2].tolist())  # compiled
    start = time.perf_counter()
    horner(operator, x, weights.tolist())
    return {"seconds": time.perf_counter() - start}


def in_memory_solve(folder: Path) -> dict[str, float]:
    from nareg.filters import denoise

    graph, w, x = Graph.load(folder / "g.graph"), np.load(folder / "w.npy"), np.load(folder / "x.npy")
    small = Graph([[0, 1], [1, 0]])
    denoise(small, 1.0, np.ones((2, COLUMNS)), method="cg")  # compiled
    start = time.perf_counter()
    solution = denoise(graph, w, x, method="cg", tol=TOL)
    return {"seconds": time.perf_counter() - start, "iterations": solution.iterations, "residual": solution.residual}


TASKS = {
    f.__name__: f for f in (on_disk_propagation, papers_propagation, on_disk_solve, in_memory_propagation, in_memory_solve)
}


def drop(folder: Path) -> None:
    """Take the folder's files out of the system's page cache."""
    for file in folder.rglob("*.npy"):
        handle = os.open(file, os.O_RDONLY)
        os.fsync(handle)
        os.posix_fadvise(handle, 0, 0, os.POSIX_FADV_DONTNEED)
        os.close(handle)


def dropping(folder: Path) -> None:
    """The graph's pages go as soon as they have been read."""
    handles = [os.open(file, os.O_RDONLY) for file in (folder / "g.graph").glob("*.npy")]
    while True:
        for handle in handles:
            os.posix_fadvise(handle, 0, 0, os.POSIX_FADV_DONTNEED)
        time.sleep(0.02)


def child(task: str, folder: Path, *, uncached: bool) -> None:
    """One task in this process; prints what it took."""
    if uncached:
        threading.Thread(target=dropping, args=(folder,), daemon=True).start()
    start = time.perf_counter()
    result = TASKS[task](folder)
    seconds = result.pop("seconds", time.perf_counter() - start)
    peak = next(int(line.split()[1]) for line in Path("/proc/self/status").read_text().splitlines() if "VmHWM" in line)
    print(json.dumps({"seconds": seconds, "peak": peak * 1024, **result}))


def run(task: str, folder: Path, *, uncached: bool = False) -> dict[str, float]:
    """One task in a process of its own."""
    drop(folder)
    command = [sys.executable, __file__, "--task", task, "--folder", str(folder)] + ["--uncached"] * uncached
    return json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)


def bandwidths(folder: Path) -> dict[str, float]:
    """Bytes per second of a copy in memory (read and written) and of the disk."""
    block = np.ones(2**25)
    other = np.empty_like(block)
    np.copyto(other, block)
    start = time.perf_counter()
    np.copyto(other, block)
    rates = {"memory copy": 2 * block.nbytes / (time.perf_counter() - start)}
    start = time.perf_counter()
    with open(folder / "probe.npy", "wb") as handle:
        for _ in range(4):
            handle.write(block.data)
        handle.flush()
        os.fsync(handle.fileno())
    rates["disk write"] = 4 * block.nbytes / (time.perf_counter() - start)
    for name in ("disk read", "page cache read"):
        if name == "disk read":
            drop(folder)
        start = time.perf_counter()
        with open(folder / "probe.npy", "rb", buffering=0) as handle:
            for _ in range(4):
                handle.readinto(other.data)
        rates[name] = 4 * block.nbytes / (time.perf_counter() - start)
    (folder / "probe.npy").unlink()
    return rates


def papers_cost(factor: float, rates: dict[str, float], memory: float) -> str:
    """Bytes that propagation moves at this multiple of ogbn-papers100M's size, and seconds at the disk's measured rates."""
    n, entries = factor * PAPERS, 2 * factor * PAPERS_EDGES
    graph, features = 8 * n + 4 * entries, 4 * n * PAPERS_COLUMNS
    blocks = -(-features // (memory - 8 * n))
    # the degrees' pass; then per block all edges and the successor K times, and the features once whole and K times in part
    read = graph * (1 + blocks * PAPERS_ORDER) + features * (blocks + 2 * PAPERS_ORDER + 1)
    written = features * (2 + PAPERS_ORDER)
    seconds = read / rates["disk read"] + written / rates["disk write"]
    return (
        f"graph {graph / 1e9:.1f} GB, features {features / 1e9:.1f} GB, memory {memory / 1e9:.1f} GB: {blocks:.0f} blocks of "
        f"columns, {read / 1e9:.0f} GB read, {written / 1e9:.0f} GB written, {seconds:.0f} s at the disk's rates"
    )


def papers(folder: Path, rates: dict[str, float], share: int) -> None:
    """A part of ogbn-papers100M's size, measured; and the whole on paper."""
    start = time.perf_counter()
    make(folder, PAPERS // share, PAPERS_EDGES // share, columns=PAPERS_COLUMNS, weighted=False)
    print(f"1/{share} of ogbn-papers100M written in {time.perf_counter() - start:.1f} s", flush=True)
    result = run("papers_propagation", folder)
    data = io.StoredGraph(folder / "g.graph").n_bytes + (folder / "x.npy").stat().st_size
    print(f"measured: {result['seconds']:.1f} s, peak {result['peak'] / 1e9:.2f} GB, {result['peak'] / data:.2f} of the data")
    print(f"1/{share}, on paper:", papers_cost(1 / share, rates, 0.4 * data))
    print("the whole, on paper:", papers_cost(1.0, rates, 0.4 * share * data))
    print("the whole, on paper:", papers_cost(1.0, rates, 16e9))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--small", action="store_true")
    parser.add_argument("--papers", type=int, nargs="?", const=10, metavar="SHARE", help="the SHARE-th part (default: a tenth)")
    parser.add_argument("--uncached", action="store_true")
    parser.add_argument("--folder", type=Path, default=Path(tempfile.gettempdir()), help="where the files go, and are removed")
    parser.add_argument("--task", choices=TASKS, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.task:
        child(arguments.task, arguments.folder, uncached=arguments.uncached)
        return
    n, count = (100_000, 1_010_000) if arguments.small else (10_000_000, 101_000_000)
    with tempfile.TemporaryDirectory(dir=arguments.folder) as name:
        whole, tenth, tiny = (Path(name, part) for part in ("whole", "tenth", "tiny"))
        for folder in (whole, tenth, tiny):
            folder.mkdir()
        rates = bandwidths(whole)
        for rate, value in rates.items():
            print(f"{rate}: {value / 1e9:.2f} GB/s")
        make(tiny, 1000, 10_000)
        for task in TASKS:  # compiles
            run(task, tiny)
        if arguments.papers:
            papers(whole, rates, arguments.papers)
            return
        start = time.perf_counter()
        make(whole, n, count)
        print(f"graph written in {time.perf_counter() - start:.1f} s", flush=True)
        make(tenth, n // 10, count // 10)
        graph = io.StoredGraph(whole / "g.graph")
        data = graph.n_bytes + (whole / "x.npy").stat().st_size
        print(f"{graph.n_nodes} nodes, {graph.n_edges} edges, {COLUMNS} columns: {data / 1e9:.2f} GB of graph and features\n")
        print("| task | seconds | peak memory, GB | of the data | details |\n|---|---|---|---|---|")
        for task, folder, factor in (
            ("on_disk_propagation", whole, 1),
            ("in_memory_propagation", whole, 1),
            ("on_disk_solve", whole, 1),
            ("in_memory_solve", tenth, 10),
        ):
            result = run(task, folder, uncached=arguments.uncached and "disk" in task)
            details = ", ".join(f"{key} {value:.3g}" for key, value in result.items() if key not in ("seconds", "peak"))
            scaled = f"a tenth, times {factor}; " if factor > 1 else ""
            print(
                f"| {task.replace('_', ' ')} | {factor * result['seconds']:.1f} | {result['peak'] / 1e9:.2f} | "
                f"{result['peak'] / data:.2f} | {scaled}{details} |",
                flush=True,
            )


if __name__ == "__main__":
    main()
