"""Designs at scale: time, peak memory, certificate and test error of every bar, one process a measurement.

    python benchmarks/designs.py reference   N = 140 against cvxpy with SCS and tight Clarabel (half an hour)
    python benchmarks/designs.py scale       every design from 300 to 100,000 nodes, and the plot; --only NAME for one
    python benchmarks/designs.py us          20 half splits of the US network: exact and edge against single weight, LMMSE
    python benchmarks/designs.py quality     test error of fast designs and SDPs on the real networks
    python benchmarks/designs.py all         everything

Rows are appended to ``--out`` (a CSV) as they come; ``scale`` draws ``design-scale.png`` beside it. Synthetic networks
are sensors in the unit square (7 nearest neighbors) with the heterogeneous field of ``nareg.graphs``: correlation
lengths from 2 to 20 hops, noise over two decades, 0 dB, 32 training signals and 16 test signals. "single" is the best
single weight with the same data term; the LMMSE bound is that of the field's exact covariance.
"""

from __future__ import annotations

import argparse
import csv
import json
import platform
import resource
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.progress import track

import nareg
from nareg import design
from nareg.filters import denoise

TRAIN, TEST = 32, 16
SIZES = {
    "exact": (300, 1000, 3000, 10_000, 30_000, 100_000),
    "exact data_weight=noise": (300, 1000, 3000, 10_000, 30_000, 100_000),
    "blind": (300, 1000, 3000, 10_000, 30_000, 100_000),
    "prony": (300, 1000, 3000, 10_000, 100_000),
    "relaxation": (300, 1000),
    "edge data_weight=noise": (300, 1000, 3000, 10_000),
    "edge laplacian data_weight=noise": (1000, 3000, 10_000),
    "edge likelihood data_weight=noise": (1000, 3000, 10_000),
    "edge likelihood laplacian data_weight=noise": (1000, 3000, 10_000),
    "minmax": (300, 500, 1000, 2000),
}
COLUMNS = (
    "bench",
    "network",
    "design",
    "nodes",
    "seconds",
    "peak_gib",
    "status",
    "gradient",
    "gap",
    "test_ratio",
    "lmmse_ratio",
    "note",
)
console = Console(stderr=True)


# --- one measurement, in a process of its own ------------------------------------------------------------------


def synthetic(name: str, n: int) -> dict[str, Any]:
    """Design on a synthetic network of n nodes; test error on unseen readings."""
    rng = np.random.default_rng(0)
    graph = nareg.graphs.sensor(n, rng=rng)
    field = nareg.graphs.heterogeneous_field(graph, TRAIN + TEST, rng=rng)
    train, test = field.signals[:, :TRAIN], field.signals[:, TRAIN:]
    readings = field.measure(train, rng=rng)
    kind, _, weighted = name.partition(" data_weight=")
    data_weight = weighted or None
    small = nareg.graphs.sensor(50, rng=rng)
    few = nareg.graphs.heterogeneous_field(small, 16, rng=rng)
    calls: dict[str, Callable[[Any, Any, Any, Any], Any]] = {
        "exact": lambda g, x, y, s: design.exact(g, signals=x, noise=s, data_weight=data_weight, solver="sampled"),
        "blind": lambda g, x, y, s: design.blind(g, measurements=y, noise=s, data_weight=data_weight, solver="sampled"),
        "prony": lambda g, x, y, s: design.prony(g, signals=x, noise=s, data_weight=data_weight),
        "relaxation": lambda g, x, y, s: design.relaxation(g, signals=x, noise=s, data_weight="noise"),
        "edge": lambda g, x, y, s: design.edge(g, signals=x, noise=s, data_weight=data_weight),
        "edge laplacian": lambda g, x, y, s: design.edge(g, signals=x, noise=s, data_weight=data_weight, structure="laplacian"),
        "edge likelihood": lambda g, x, y, s: design.edge(
            g, signals=x, noise=s, data_weight=data_weight, criterion="likelihood"
        ),
        "edge likelihood laplacian": lambda g, x, y, s: design.edge(
            g, signals=x, noise=s, data_weight=data_weight, criterion="likelihood", structure="laplacian"
        ),
        "minmax": lambda g, x, y, s: design.minmax(
            g, signal_low=x.min(axis=1), signal_high=x.max(axis=1), noise=s, data_weight=data_weight, criterion="prony-scaled"
        ),
    }
    call = calls[kind]
    call(small, few.signals, few.measure(few.signals, rng=rng), few.noise)  # compile outside the measured time
    weights, seconds = timed(lambda: call(graph, train, readings, field.noise))
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    single = design.node_invariant(graph, rule="oracle", signals=train, noise=field.noise, data_weight=weights.data_weight)
    noisy = field.measure(test, rng=rng)
    error, one = (
        float(np.sum((denoise(graph, w, noisy, data_weight=weights.data_weight).x - test) ** 2)) / TEST
        for w in (weights, single)
    )
    return row(weights, seconds, peak) | {"test_ratio": error / one, "lmmse_ratio": error / field.lmmse(rng=rng)[0]}


def reference(name: str, solver: str) -> dict[str, Any]:
    """Prony, relaxation or corner min-max on the US network, half of the days, 0 dB, by one solver."""
    graph, train, _, noise = us_split(0, "random", 0.0, 0.0)
    ends = {"signal_low": train.min(axis=1), "signal_high": train.max(axis=1)}
    ways = {"prony": lambda: design.prony(graph, signals=train, noise=noise, solver=solver, scale="bound"),
            "minmax": lambda: design.minmax(graph, **ends, noise=noise, solver=solver),
            "relaxation": lambda: design.relaxation(graph, signals=train, noise=noise, solver=solver)}  # fmt: skip
    if solver in ("low-rank", "closed-form"):
        ways[name]()  # compile outside the measured time
    result, seconds = timed(ways[name])
    details = result.certificate.details
    convex = details.get("low_rank_objective", result.certificate.relaxed_objective)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    return row(result, seconds, peak) | {"note": f"convex optimum {convex:.8g}, rounded objective {result.objective:.8g}"}


def row(result: Any, seconds: float, peak: float) -> dict[str, Any]:
    certificate = result.certificate
    return {
        "seconds": seconds,
        "peak_gib": peak,
        "status": result.status.name,
        "gradient": certificate.gradient_norm,
        "gap": certificate.details.get("gap"),
    }


def timed(call: Callable[[], Any]) -> tuple[Any, float]:
    begun = time.perf_counter()
    result = call()
    return result, time.perf_counter() - begun


# --- the US network and the other real ones --------------------------------------------------------------------


def us_split(seed: int, kind: str, snr_db: float, decades: float) -> tuple[Any, np.ndarray, np.ndarray, np.ndarray]:
    """Graph, training days, test days and noise variances; the mean over all stations and training days removed."""
    network = nareg.datasets.load("us-weather").complete()
    return split(network, seed, kind, snr_db, decades)


def split(network: Any, seed: int, kind: str, snr_db: float, decades: float) -> tuple[Any, np.ndarray, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    n, T = network.signals.shape
    first = np.zeros(T, dtype=bool)
    if kind == "random":
        first[rng.permutation(T)[: T // 2]] = True
    else:  # alternating blocks of 30 times, with a start that differs by split
        first = (np.arange(T) + 3 * seed) // 30 % 2 == 0
    mean = network.signals[:, first].mean()
    train, test = network.signals[:, first] - mean, network.signals[:, ~first] - mean
    shape = 10 ** rng.uniform(-decades / 2, decades / 2, n)
    return network.graph, train, test, shape / shape.mean() * np.mean(train**2) / 10 ** (snr_db / 10)


def test_risk(weights: Any, test: np.ndarray, noise: np.ndarray) -> float:
    """Expected squared error on the test days, in closed form."""
    c = np.ones(len(test)) if weights.data_weight is None else weights.data_weight
    return linear_risk(np.linalg.inv(np.diag(c) + weights.matrix.toarray()) * c, test, noise)


def linear_risk(H: np.ndarray, test: np.ndarray, noise: np.ndarray) -> float:
    return float(np.sum((H @ test - test) ** 2)) / test.shape[1] + float(np.sum(H**2 * noise))


def us_rows(splits: int) -> Iterator[dict[str, Any]]:
    """Exact over the single weight, edge over the Wiener filter learned from the same days; means over splits."""
    for kind in ("random", "blocks"):
        for decades, data_weight in ((0.0, None), (2.0, "noise")):
            for snr_db in (-10.0, 0.0, 10.0):
                ratios = []
                for seed in track(range(splits), f"US network, {kind}, {snr_db:g} dB", transient=True, console=console):
                    graph, train, test, noise = us_split(seed, kind, snr_db, decades)
                    few = train[:, np.random.default_rng(seed).permutation(train.shape[1])[:10]]
                    data = {"noise": noise, "data_weight": data_weight}
                    single, single_few = (
                        test_risk(design.node_invariant(graph, rule="oracle", signals=x, **data), test, noise)
                        for x in (train, few)
                    )
                    R = train @ train.T / train.shape[1]
                    wiener = linear_risk(R @ np.linalg.inv(R + np.diag(noise)), test, noise)
                    exact = test_risk(design.exact(graph, signals=train, **data), test, noise)
                    full, seconds = timed(lambda g=graph, x=train, d=data: design.edge(g, signals=x, **d))
                    edge_few = test_risk(design.edge(graph, signals=few, **data), test, noise)
                    edge = test_risk(full, test, noise)
                    ratios.append((exact / single, edge / wiener, edge / single, edge_few / single_few, seconds))
                mean, worst = np.mean(ratios, axis=0), np.max(ratios, axis=0)
                noise_name = "two decades, data_weight=noise" if data_weight else "equal"
                yield {
                    "design": "exact, edge", "network": f"US {kind} {snr_db:+.0f} dB {noise_name}", "nodes": 140,
                    "seconds": mean[4], "test_ratio": mean[0], "lmmse_ratio": mean[1],
                    "note": f"means of {splits}: exact / single {mean[0]:.3f}; edge / LMMSE {mean[1]:.3f} "
                    f"(worst {worst[1]:.3f}); edge / single {mean[2]:.3f}; 10 signals: "
                    f"edge / single {mean[3]:.3f} (worst {worst[3]:.4f}); "
                    f"edge seconds worst {worst[4]:.2f}",
                }  # fmt: skip


def quality_rows() -> Iterator[dict[str, Any]]:
    """Test NMSE of the fast Prony and relaxation over that of their SDPs, on the real networks."""
    for name in ("molene", "us-weather", "au-weather", "sea-surface-temperature"):
        try:
            network = nareg.datasets.load(name).complete()
        except nareg.errors.NaregError as error:
            console.print(f"{name}: skipped ({error})")
            continue
        if network.n_nodes > 100:  # what Clarabel solves in a minute or two
            network = _Part(network, np.sort(np.random.default_rng(0).permutation(network.n_nodes)[:100]))
        graph, train, test, noise = split(network, 0, "random", 0.0, 0.0)
        for which, fast, solver in (("prony", "low-rank", "clarabel"), ("relaxation", "closed-form", "clarabel")):
            call = getattr(design, which)
            ours, seconds = timed(lambda c=call, f=fast, g=graph, x=train, s=noise: c(g, signals=x, noise=s, solver=f))
            theirs, slow = timed(lambda c=call, f=solver, g=graph, x=train, s=noise: c(g, signals=x, noise=s, solver=f))
            a, b = (test_risk(d, test, noise) for d in (ours, theirs))
            yield {
                "design": which, "network": name, "nodes": network.n_nodes, "test_ratio": a / b, "status": ours.status.name,
                "gap": ours.certificate.details.get("gap"), "seconds": seconds,
                "note": f"test NMSE over that of the SDP ({solver}, {slow:.1f} s, {theirs.status.name})",
            }  # fmt: skip


class _Part:
    """A network on some of the nodes, its graph built anew."""

    def __init__(self, network: Any, nodes: np.ndarray) -> None:
        self.graph, self.signals = network.graph.subgraph(nodes), network.signals[nodes]
        self.n_nodes = len(nodes)


# --- running and reporting -------------------------------------------------------------------------------------


def in_process(arguments: list[str]) -> dict[str, Any]:
    """One measurement in a fresh interpreter, so that its peak memory is its own."""
    done = subprocess.run([sys.executable, __file__, "one", *arguments], capture_output=True, text=True)
    if done.returncode:
        return {"status": "FAILED", "note": done.stderr.strip().splitlines()[-1] if done.stderr.strip() else "killed"}
    return json.loads(done.stdout.splitlines()[-1])


def scale_rows(largest: int, only: str | None) -> Iterator[dict[str, Any]]:
    jobs = [(name, n) for name, sizes in SIZES.items() if only in (None, name) for n in sizes if n <= largest]
    for name, n in track(jobs, "designs at scale", console=console):
        yield {"network": "sensors", "design": name, "nodes": n, **in_process(["synthetic", name, str(n)])}


def reference_rows(only: str | None) -> Iterator[dict[str, Any]]:
    jobs = [("prony", s) for s in ("low-rank", "scs", "clarabel")] + [
        ("relaxation", s) for s in ("closed-form", "scs", "clarabel")
    ]
    jobs += [("minmax", s) for s in ("low-rank", "scs", "clarabel")]
    jobs = [job for job in jobs if only in (None, job[0])]
    for name, solver in track(jobs, "US network against cvxpy", console=console):
        yield {"network": "US 140", "design": f"{name} ({solver})", "nodes": 140, **in_process(["reference", name, solver])}


def plot(rows: list[dict[str, Any]], path: Path) -> dict[str, tuple[float, float]]:
    """Time and peak memory against N, slopes of the last three sizes in the legend."""
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(1, 2, figsize=(10, 5.4), layout="constrained")
    slopes = {}
    for name in SIZES:
        mine = [r for r in rows if r["design"] == name and r.get("seconds")]
        if len(mine) < 2:
            continue
        n, seconds, peak = (np.array([float(r[k]) for r in mine]) for k in ("nodes", "seconds", "peak_gib"))
        last = slice(-3, None)
        fits = tuple(float(np.polyfit(np.log(n[last]), np.log(v[last]), 1)[0]) for v in (seconds, peak))
        slopes[name] = fits
        axes[0].loglog(n, seconds, "o-", label=f"{name}: time N^{fits[0]:.2f}, memory N^{fits[1]:.2f}")
        axes[1].loglog(n, peak, "o-")
    for axis, label in zip(axes, ("seconds", "peak memory of the process (GiB)"), strict=True):
        axis.set(xlabel="nodes N", ylabel=label)
        axis.grid(alpha=0.3, which="both")
    figure.legend(loc="outside lower center", ncols=2, fontsize=9)
    figure.savefig(path, dpi=150)
    return slopes


def main() -> None:
    """Run the named benchmarks; append rows to the CSV and print them as a Markdown table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("bench", choices=["reference", "scale", "us", "quality", "all", "one"])
    parser.add_argument("what", nargs="*", help=argparse.SUPPRESS)
    parser.add_argument("--out", type=Path, default=Path("design-bench.csv"))
    parser.add_argument("--largest", type=int, default=100_000, help="largest synthetic network")
    parser.add_argument("--only", help="one design of the benchmarks scale and reference")
    parser.add_argument("--splits", type=int, default=20, help="half splits of the US network")
    options = parser.parse_args()
    if options.bench == "one":
        kind, name, last = options.what
        print(json.dumps(synthetic(name, int(last)) if kind == "synthetic" else reference(name, last)))
        return
    benches = {
        "reference": lambda: reference_rows(options.only),
        "scale": lambda: scale_rows(options.largest, options.only),
        "us": lambda: us_rows(options.splits),
        "quality": quality_rows,
    }
    chosen = list(benches) if options.bench == "all" else [options.bench]
    versions = ", ".join(f"{p} {version(p)}" for p in ("numpy", "scipy", "numba", "cvxpy", "scs", "clarabel", "nareg"))
    print(f"Python {platform.python_version()}, {versions}\n\n| " + " | ".join(COLUMNS) + " |\n|" + "---|" * len(COLUMNS))
    fresh = not options.out.exists()
    rows = []
    with options.out.open("a", newline="") as handle:
        writer = csv.DictWriter(handle, COLUMNS)
        if fresh:
            writer.writeheader()
        for bench in chosen:
            for new_row in benches[bench]():
                rows.append({"bench": bench, **new_row})
                writer.writerow(rows[-1])
                handle.flush()
                print("| " + " | ".join(_shown(rows[-1].get(c)) for c in COLUMNS) + " |", flush=True)
    if "scale" in chosen and options.only is None:
        slopes = plot([r for r in rows if r["bench"] == "scale"], options.out.with_name("design-scale.png"))
        print("\nslopes of log time and log memory over log N, last three sizes:", slopes)


def _shown(value: Any) -> str:
    return "" if value is None else f"{value:.4g}" if isinstance(value, float) else str(value)


if __name__ == "__main__":
    main()
