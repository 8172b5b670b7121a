"""The convex programs: seconds of small cones against the dense one, and robust designs from small samples.

    python benchmarks/programs.py speed      Prony (25) on the US network: cliques by Clarabel, the dense cone by SCS, a sweep
    python benchmarks/programs.py large      Prony on a sensor network of 400 nodes
    python benchmarks/programs.py robust     the US network with 10, 30 and 91 days: exact, blind, and the worst case in a ball

One thread per process. SCS on the dense cone takes ten minutes and more: ``--without-dense`` leaves it out.
"""

from __future__ import annotations

import argparse
import time

import numpy as np

import nareg
from nareg import design
from nareg.design import programs

DECIBELS = (-15, -10, -5, 0, 5, 10, 15)
DAYS = (10, 30, 91)
#: Radii tried, over the root mean square distance of the sample's second moment from the true one (Gaussian days).
RADII = (0.0, 0.03, 0.1, 0.25, 0.5, 1.0)


def us() -> tuple[nareg.Graph, np.ndarray]:
    """140 complete stations, one global mean removed."""
    network = nareg.datasets.load("us-weather").complete()
    return network.graph, network.signals - network.signals.mean()


def speed(dense: bool) -> None:
    """Seconds and optima of (25)."""
    graph, X = us()
    power = float(np.mean(X**2))
    started = time.perf_counter()
    program = programs.prony(graph, signals=X, noise=power)
    first = program.optimum()
    seconds = time.perf_counter() - started
    print(program)
    print(
        f"cliques, CLARABEL: {seconds:.1f} s with building, {first.ending.solver_status}, optimum {first.value:.8g}", flush=True
    )
    print(f"proven bound {first.proof['dual_bound']}, gap {first.proof['gap']}")
    compiled = program.problem._cache.param_prog
    started = time.perf_counter()
    for db in DECIBELS:
        solved = program.set(noise=power / 10 ** (db / 10)).optimum()
        unit = float(program.lower.max()) ** 2
        print(f"  {db:+d} dB: {solved.ending.solver_status}, optimum over bound^2 {solved.value / unit:.8g}", flush=True)
    same = program.problem._cache.param_prog is compiled
    print(f"sweep of {len(DECIBELS)}: {time.perf_counter() - started:.1f} s, compiled once: {same}")
    low_rank = design.prony(graph, signals=X, noise=power, scale="bound")
    print(f"low-rank: proven bound {low_rank.certificate.relaxed_objective:.8g}, {low_rank.timings['total']:.1f} s")
    if dense:
        started = time.perf_counter()
        slow = programs.prony(graph, signals=X, noise=power, cone="dense").optimum("SCS")
        elapsed = time.perf_counter() - started
        print(
            f"dense, SCS: {elapsed:.0f} s, {slow.ending.solver_status}, optimum {slow.value:.8g}: {elapsed / seconds:.0f} times"
        )


def large() -> None:
    """(25) on 400 nodes."""
    rng = np.random.default_rng(0)
    graph = nareg.graphs.sensor(400, rng=rng)
    X = nareg.graphs.heterogeneous_field(graph, 60, rng=rng).signals
    started = time.perf_counter()
    program = programs.prony(graph, signals=X, noise=float(np.mean(X**2)))
    print(program, flush=True)
    solved = program.optimum()
    print(f"{time.perf_counter() - started:.0f} s, {solved.ending.solver_status}, optimum {solved.value:.8g}, {solved.proof}")


def spread(R: np.ndarray, count: float) -> float:
    """Root mean square Frobenius distance of a sample's second moment from R, for Gaussian signals."""
    return float(np.sqrt((np.trace(R) ** 2 + np.sum(R * R)) / count))


def nmse(graph: nareg.Graph, weights: object, test: np.ndarray, noise: float) -> float:
    """Expected error on the test days over their power."""
    return design.risk(graph, weights, signals=test, noise=noise).nmse


def robust(seeds: int) -> None:
    """Expected NMSE on held-out days, by days of history: means over draws of consecutive days."""
    graph, X = us()
    power = float(np.mean(X**2))
    print("SNR, days: best single, exact, blind, robust by radius", RADII, flush=True)
    for db in (-10, 0, 10):
        noise = power / 10 ** (db / 10)
        for days in DAYS:
            rows = [one_draw(graph, X, noise, days, np.random.default_rng(seed)) for seed in range(seeds)]
            mean, error = np.mean(rows, axis=0), np.std(rows, axis=0) / np.sqrt(seeds)
            print(
                f"{db:+d} dB, {days} days: " + "  ".join(f"{m:.4f}±{e:.4f}" for m, e in zip(mean, error, strict=True)),
                flush=True,
            )


def one_draw(graph: nareg.Graph, X: np.ndarray, noise: float, days: int, rng: np.random.Generator) -> list[float]:
    """Errors of all designs from one stretch of days; the test days are all others."""
    start = int(rng.integers(X.shape[1] - days + 1))
    inside = np.zeros(X.shape[1], dtype=bool)
    inside[start : start + days] = True
    past, test = X[:, inside], X[:, ~inside]
    single = design.node_invariant(graph, signals=test, noise=noise, rule="oracle")
    noisy = past + np.sqrt(noise) * rng.standard_normal(past.shape)
    errors = [
        nmse(graph, single, test, noise), nmse(graph, design.exact(graph, signals=past, noise=noise), test, noise),
        nmse(graph, design.blind(graph, measurements=noisy, noise=noise), test, noise),
    ]  # fmt: skip
    unit = spread(past @ past.T / days, days)
    for factor in RADII:
        weights = programs.robust(graph, signals=past, noise=noise, radius=factor * unit).solve()
        errors.append(nmse(graph, weights, test, noise))
    return errors


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("table", choices=("speed", "large", "robust"))
    parser.add_argument("--without-dense", action="store_true", help="leave out the dense cone")
    parser.add_argument("--seeds", type=int, default=5, help="draws of days for the robust designs")
    arguments = parser.parse_args()
    if arguments.table == "speed":
        speed(not arguments.without_dense)
    elif arguments.table == "large":
        large()
    else:
        robust(arguments.seeds)


if __name__ == "__main__":
    main()
