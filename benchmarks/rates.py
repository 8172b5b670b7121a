"""Designs that neighbors compute in a promised number of rounds: error, rounds and messages over the rate.

    python benchmarks/rates.py             the US network, a quarter of an hour
    python benchmarks/rates.py --snr 0     at one SNR

140 complete stations, the mean over stations and days removed, noise of equal variance from the power of the signals. exact
and edge know the year's second moment, blind has one noisy reading per station and day; "single" is the best single weight
that keeps the rate. The error is the expected one over the year, by the signals' power. Rounds and messages (2 M a round) are
what ``denoise(method="jacobi", tol=1e-3)`` took for the year's readings, beside the rounds promised; a message has 32 bits.
"norm" is the best single weight under the published condition for recursion (19), ``norm(S) <= rate``. The process ends with an
error where a promise was not held. Rows are printed as a table in Markdown.
"""

from __future__ import annotations

import argparse
import time
from typing import Any

import numpy as np
from rich.console import Console

import nareg
from nareg import design
from nareg.design._risk.problem import problem
from nareg.design._risk.rate import NodeRate

RATES = (0.5, 0.8, 0.9, 0.95, None)
ACCURACY = "0.001"
#: Of a number sent.
BITS = 32
console = Console(stderr=True)


def best_single(graph: Any, signals: np.ndarray, noise: float, rate: float | None) -> tuple[np.ndarray, int | None]:
    """The best single weight that keeps the rate, and the rounds promised for it."""
    task = problem(graph, signals=signals, noise=noise, needs="single", noise_required=True)
    low, high = task.squared_bounds(None, None, default_lower=None)
    if rate is None:
        return task.best_scalar(low, high), None
    promise = NodeRate(task.base, task.c, rate, low, high)
    w = task.best_scalar(low, high, promise.largest_single)
    return w, promise.certified(w, task.mse)[1]["jacobi_rounds"][ACCURACY]


def norm_error(graph: Any, signals: np.ndarray, noise: float, rate: float) -> float:
    """Expected error of the best single weight under ``norm(S) <= rate``."""
    task = problem(graph, signals=signals, noise=noise, needs="norm", noise_required=True)
    low, high = task.squared_bounds(None, None, default_lower=None)
    w = task.best_scalar(low, np.minimum(high, rate / float(task.spectrum[0][-1])))
    return design.risk(graph, w, signals=signals, noise=noise).nmse


def row(name: str, graph: Any, signals: np.ndarray, readings: np.ndarray, noise: float, rate: float | None) -> dict[str, Any]:
    """One design: expected error, rounds promised and taken, messages, seconds."""
    begin = time.perf_counter()
    weights: Any
    if name == "single":
        weights, promised = best_single(graph, signals, noise, rate)
    else:
        data = {"measurements": readings} if name == "blind" else {"signals": signals}
        weights = getattr(design, name)(graph, noise=noise, rate=rate, **data)
        promised = weights.certificate.details.get("jacobi_rounds", {}).get(ACCURACY)
    seconds = time.perf_counter() - begin
    error = design.risk(graph, weights, signals=signals, noise=noise).nmse
    try:
        solution = nareg.filters.denoise(graph, weights, readings, method="jacobi", tol=float(ACCURACY))
        rounds, messages = solution.rounds, solution.messages
    except nareg.errors.DivergentMethodError:
        rounds = messages = None
    if promised is not None and (rounds is None or rounds > promised):
        raise SystemExit(f"{name} at rate {rate}: {rounds} rounds, {promised} were promised.")
    return {"error": error, "promised": promised, "rounds": rounds, "messages": messages, "seconds": seconds}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--snr", type=float, nargs="*", default=[-10.0, 0.0, 10.0], help="SNR in dB")
    arguments = parser.parse_args()
    network = nareg.datasets.load("us-weather").complete()
    signals = network.signals - network.signals.mean()
    print("| SNR | rate | design | error | rounds promised | rounds | messages | bits | seconds |")
    print("|---|---|---|---|---|---|---|---|---|")
    for snr in arguments.snr:
        noise = float(np.mean(signals**2)) / 10 ** (snr / 10)
        readings = signals + np.sqrt(noise) * np.random.default_rng(0).standard_normal(signals.shape)
        for rate in RATES:
            if rate is not None:
                error = norm_error(network.graph, signals, noise, rate)
                print(f"| {snr:g} dB | {rate} | norm | {error:.4g} | - | - | - | - | - |", flush=True)
            for name in ("single", "exact", "blind", "edge"):
                with console.status(f"{snr:g} dB, rate {rate}, {name}"):
                    r = row(name, network.graph, signals, readings, noise, rate)
                promised, rounds, messages = ("-" if r[k] is None else f"{r[k]:,}" for k in ("promised", "rounds", "messages"))
                bits = "-" if r["messages"] is None else f"{BITS * r['messages']:,}"
                print(
                    f"| {snr:g} dB | {rate or 'none'} | {name} | {r['error']:.4g} | {promised} | {rounds} | {messages} "
                    f"| {bits} | {r['seconds']:.1f} |",
                    flush=True,
                )


if __name__ == "__main__":
    main()
