"""Edge weights from noisy readings alone, on the US network: expected error on other days over the best single weight's.

    python benchmarks/noisy_edges.py               20 random half splits, half an hour on one core; --splits for fewer

Every design sees noisy readings of some training days and the noise variance. The best single weight sees the clean ones.
Beside it: ``blind``, one weight by SURE, and the edge design that sees the clean days.
"""

from __future__ import annotations

import argparse
import platform
import time
from importlib.metadata import version

import numpy as np
from designs import test_risk, us_split
from rich.console import Console
from rich.progress import track

from nareg import design

DAYS = (10, 30, 91, 182)
SNR = (-10.0, 0.0, 10.0)


def ratios(seed: int, snr_db: float, days: int, *, peers: bool) -> dict[str, float]:
    """Test risk of each design over the best single weight's, and seconds."""
    graph, train, test, noise = us_split(seed, "random", snr_db, 0.0)
    rng = np.random.default_rng(1000 + seed)
    readings = train + np.sqrt(noise)[:, None] * rng.standard_normal(train.shape)
    chosen = rng.permutation(train.shape[1])[:days]
    data = {"measurements": readings[:, chosen], "noise": noise}
    best = test_risk(design.node_invariant(graph, rule="oracle", signals=train, noise=noise), test, noise)
    start = time.perf_counter()
    designs = {"edge": design.edge(graph, **data)}
    seconds = time.perf_counter() - start
    if peers:
        designs["blind"] = design.blind(graph, **data)
        designs["one weight, SURE"] = design.node_invariant(graph, rule="sure", **data)
        designs["edge, clean days"] = design.edge(graph, signals=train[:, chosen], noise=noise)
    return {**{name: test_risk(d, test, noise) / best for name, d in designs.items()}, "seconds": seconds}


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--splits", type=int, default=20)
    parser.add_argument("--no-peers", action="store_true", help="the edge design only")
    options = parser.parse_args()
    print(f"Python {platform.python_version()}, numpy {version('numpy')}, nareg {version('nareg')}; {options.splits} splits\n")
    names = ["edge"] + ([] if options.no_peers else ["blind", "one weight, SURE", "edge, clean days"])
    print("| SNR, dB | days | " + " | ".join(names) + " | edge, worst split | edge, seconds |")
    print("|---" * (len(names) + 4) + "|")
    console = Console(stderr=True)
    for snr_db in SNR:
        for days in DAYS:
            runs = [
                ratios(seed, snr_db, days, peers=not options.no_peers)
                for seed in track(range(options.splits), f"{snr_db:g} dB, {days} days", console=console, transient=True)
            ]
            means = [f"{np.mean([run[name] for run in runs]):.3f}" for name in names]
            worst = max(run["edge"] for run in runs)
            seconds = np.mean([run["seconds"] for run in runs])
            print(f"| {snr_db:g} | {days} | " + " | ".join(means) + f" | {worst:.3f} | {seconds:.1f} |", flush=True)


if __name__ == "__main__":
    main()
