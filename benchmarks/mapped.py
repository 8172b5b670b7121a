"""Certified removals on memory-mapped state, for a part of ogbn-papers100M's size; against the same in memory where it fits.

    python benchmarks/mapped.py                  a hundredth: 1.1 million nodes, 16 million edges, 128 float32 features
    python benchmarks/mapped.py --share 10       a tenth: 11.1 million nodes, 160 million edges (40 GB on disk)
    python benchmarks/mapped.py --share 1000     to look at it

Makes a power-law graph whose neighbors lie anywhere, features, and random labels of 172 classes. One process fits (L = 2), the
next one loads the folder, after its pages were dropped from the system's cache, and takes ten requests. Prints bytes on disk,
seconds, the largest resident memory (VmHWM, mapped pages that the system may drop at any time among it) and its anonymous part.
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
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numba
import numpy as np
from out_of_core import PAPERS, PAPERS_COLUMNS, PAPERS_EDGES, bandwidths, drop, make
from unlearning import some_edges

from nareg import Graph, io
from nareg.unlearning import Certificate, CertifiedGPR

#: Training nodes and classes of ogbn-papers100M.
TRAIN, CLASSES = 1_207_179, 172
#: In memory: at most this share of the machine's memory for the state alone.
FITS = 0.4


def labels_of(n: int, share: int) -> tuple[np.ndarray, np.ndarray]:
    """Random labels (N,) of the training nodes, and these."""
    rng = np.random.default_rng(1)
    train = np.sort(rng.choice(n, max(TRAIN // share, 4 * CLASSES), replace=False))
    labels = np.full(n, -1)
    labels[train] = np.concatenate([np.arange(CLASSES), rng.integers(0, CLASSES, train.size - CLASSES)])
    return labels, train


def ten_requests(model: CertifiedGPR) -> list[dict[str, float | str]]:
    """What each takes."""
    rng, data = np.random.default_rng(2), model._data
    nodes = iter(rng.choice(np.setdiff1d(np.arange(data.n_nodes), model.train), 8, replace=False).tolist())
    width = data.n_features

    def edges(count: int) -> Callable[[], Certificate]:
        pairs = some_edges(data.graph, count, rng)
        return lambda: model.remove_edges(pairs)

    def new_edge() -> Certificate:
        return model.add_edges([(next(nodes), next(nodes))])

    requests: list[tuple[str, Callable[[], Callable[[], Certificate]]]] = [
        *[("remove an edge", lambda: edges(1))] * 4,
        ("remove 25 edges", lambda: edges(25)),
        ("remove a node", lambda: lambda: model.remove_nodes([next(nodes)])),
        ("remove a node's features", lambda: lambda: model.remove_features([next(nodes)])),
        ("add an edge", lambda: new_edge),
        ("add a node", lambda: lambda: model.add_nodes(np.ones((1, width)))),
        ("renew", lambda: model.renew),
    ]
    rows: list[dict[str, float | str]] = []
    for name, prepared in requests:
        call = prepared()
        start = time.perf_counter()
        certificate = call()
        seconds = time.perf_counter() - start
        rows.append(
            {"request": name, "seconds": seconds, "spent": certificate.spent / certificate.budget, **certificate.timings}
        )
    return rows


def fit_mapped(folder: Path, share: int, memory: int | None) -> dict[str, Any]:
    n = io.StoredGraph(folder / "g.graph").n_nodes
    labels, train = labels_of(n, share)
    model = CertifiedGPR(folder=folder / "model", rng=np.random.default_rng(3))
    model.fit(folder / "g.graph", folder / "x.npy", labels, train, classes=np.arange(CLASSES), memory=memory)
    return {**model.certificate().timings}


def requests_mapped(folder: Path, share: int, memory: int | None) -> dict[str, Any]:
    start = time.perf_counter()
    model = CertifiedGPR.load(folder / "model", memory=memory, rng=np.random.default_rng(4))
    loaded = time.perf_counter() - start
    rows = ten_requests(model)
    model.close()
    return {"load": loaded, "rows": rows}


def in_memory(folder: Path, share: int, memory: int | None) -> dict[str, Any]:
    graph, X = Graph.load(folder / "g.graph"), np.load(folder / "x.npy")
    labels, train = labels_of(graph.n_nodes, share)
    model = CertifiedGPR(rng=np.random.default_rng(3)).fit(graph, X, labels, train, classes=np.arange(CLASSES), memory=memory)
    del graph, X
    return {**model.certificate().timings, "rows": ten_requests(model)}


TASKS = {task.__name__: task for task in (fit_mapped, requests_mapped, in_memory)}


def child(task: str, folder: Path, share: int, memory: int | None) -> None:
    """One task in this process; prints what it took."""
    warnings.simplefilter("ignore")
    largest = {"RssAnon": 0, "VmHWM": 0}

    def look() -> None:
        for line in Path("/proc/self/status").read_text().splitlines():
            name, _, value = line.partition(":")
            if name in largest:
                largest[name] = max(largest[name], 1024 * int(value.split()[0]))

    def watch() -> None:
        while True:
            look()
            time.sleep(0.02)

    threading.Thread(target=watch, daemon=True).start()
    start = time.perf_counter()
    result = TASKS[task](folder, share, memory)
    seconds = time.perf_counter() - start
    look()
    print(json.dumps({"seconds": seconds, **largest, **result}))


def run(task: str, folder: Path, share: int, memory: int | None) -> dict[str, Any]:
    """One task in a process of its own."""
    command = [sys.executable, __file__, "--task", task, "--folder", str(folder), "--share", str(share)]
    command += [] if memory is None else ["--memory", str(memory)]
    return json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout)


def stages(result: dict[str, Any]) -> str:
    return f"propagation {result['propagation']:.1f} s, training {result['training']:.1f} s"


def peaks(result: dict[str, Any]) -> str:
    return f"peak {result['VmHWM'] / 1e9:.2f} GB resident, {result['RssAnon'] / 1e9:.2f} GB of it anonymous"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--share", type=int, default=100, help="the SHARE-th part of ogbn-papers100M's size")
    parser.add_argument("--memory", type=int, help="bytes for the propagation through the whole graph")
    parser.add_argument("--folder", type=Path, default=Path(tempfile.gettempdir()), help="where the files go, and are removed")
    parser.add_argument("--task", choices=TASKS, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    share, memory = arguments.share, arguments.memory
    if arguments.task:
        child(arguments.task, arguments.folder, share, memory)
        return
    with tempfile.TemporaryDirectory(dir=arguments.folder) as name:
        whole, tiny = Path(name, "whole"), Path(name, "tiny")
        for folder, n, count in ((tiny, 2000, 20_000), (whole, PAPERS // share, PAPERS_EDGES // share)):
            folder.mkdir()
            start = time.perf_counter()
            if folder is whole:
                for rate, value in bandwidths(whole).items():
                    print(f"{rate}: {value / 1e9:.2f} GB/s")
            make(folder, n, count, columns=PAPERS_COLUMNS, weighted=False)
            written = time.perf_counter() - start
            (folder / "w.npy").unlink()
            if folder is tiny:  # compiles
                for task in TASKS:
                    run(task, folder, 10**9, None)
        graph = io.StoredGraph(whole / "g.graph")
        n, given = graph.n_nodes, graph.n_bytes + (whole / "x.npy").stat().st_size
        print(
            f"\n1/{share} of ogbn-papers100M: {n} nodes, {graph.n_edges} edges, {PAPERS_COLUMNS} float32 features, {CLASSES} "
            f"classes, {numba.get_num_threads()} threads; {given / 1e9:.2f} GB given, written in {written:.0f} s"
        )
        fitted = run("fit_mapped", whole, share, memory)
        used = sum(512 * file.stat().st_blocks for file in (whole / "model").iterdir())
        print(f"fit: {stages(fitted)}, {peaks(fitted)}; {used / 1e9:.2f} GB on disk", flush=True)
        drop(whole)
        mapped = run("requests_mapped", whole, share, memory)
        print(f"load: {mapped['load']:.1f} s; requests: {peaks(mapped)}")
        others = [{"seconds": float("nan")}] * len(mapped["rows"])
        if 3 * 8 * n * PAPERS_COLUMNS < FITS * os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"):
            result = run("in_memory", whole, share, memory)
            others = result["rows"]
            print(f"in memory: fit {stages(result)}, {peaks(result)}")
        print("\n| request | seconds, mapped | propagation | training | seconds, in memory | budget spent |")
        print("|---|---|---|---|---|---|")
        for row, other in zip(mapped["rows"], others, strict=True):
            print(
                f"| {row['request']} | {row['seconds']:.2f} | {row['propagation']:.2f} | {row['training']:.2f} | "
                f"{other['seconds']:.2f} | {100 * row['spent']:.0f} % |"
            )


if __name__ == "__main__":
    main()
