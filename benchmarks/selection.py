"""One standard error or two, early stopping or penalties: what the choice of a design costs on five networks.

    python benchmarks/selection.py            # long; --networks molene --repeats 1 takes a minute

Designs from k training signals or noisy readings; the risk on the other blocks of times over that of the best single weight
there. A row per method and rule: the geometric mean over networks, SNRs, k and repeats, where the gain on held-out columns
must exceed one of its standard errors, or two.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from experiments.beyond import Settings, signals_of
from nareg import design
from nareg._linear import held_out
from nareg.design._node import early_stopping, penalty_path
from nareg.errors import InputError
from nareg.results import WeightDesign

SNR_DB = (-10.0, 0.0, 10.0)
#: Training signals; None: all there are.
SIGNALS = (12, 32, 100, None)
RULES = {"dense": "early stopping", "sampled": "penalties"}


class Judge:
    """Stands for ``held_out.worthwhile``: asks for a number of standard errors, and remembers how many the gain had."""

    def __init__(self) -> None:
        self.errors, self.gain = 1.0, np.inf

    def __call__(self, differences: np.ndarray, *, scattered: Any = slice(None), **_: float) -> bool:
        """Whether the gain is large enough."""
        self.gain = float(differences.sum()) / max(held_out.standard_error(differences[scattered]), 1e-300)
        return self.gain > self.errors


def judged(judge: Judge, make: Callable[[], WeightDesign]) -> tuple[WeightDesign, WeightDesign]:
    """The design by one standard error, and by two: made again only where the two differ."""
    judge.errors, judge.gain = 1.0, np.inf  # a design that holds nothing out asks nobody
    one = make()
    if not 1.0 < judge.gain <= 2.0:
        return one, one
    judge.errors = 2.0
    return one, make()


def ratios(name: str, repeats: int, judge: Judge) -> Iterator[tuple[str, str, tuple[float, ...]]]:
    """Method, solver, and the ratios of risks by one and by two standard errors."""
    settings = Settings()
    network, raw = signals_of(name, settings)
    graph, n, T = network.graph, network.n_nodes, raw.shape[1]
    for repeat in range(repeats):
        first = np.arange(T) * settings.blocks // T % 2 == repeat % 2
        X = raw - raw[:, first].mean()
        train, test = X[:, first], X[:, ~first]
        for snr_db in SNR_DB:
            rng = np.random.default_rng([1, n, repeat, int(snr_db) + 100])
            noise = float(np.mean(X**2) / 10 ** (snr_db / 10))
            judge_by: dict[str, Any] = {"signals": test, "noise": noise}
            best = design.risk(graph, design.node_invariant(graph, rule="oracle", **judge_by), **judge_by).mse
            for k in SIGNALS:
                x = train[:, rng.permutation(train.shape[1])[:k]]
                y = x + np.sqrt(noise) * rng.standard_normal(x.shape)
                for solver in RULES:
                    known: dict[str, Any] = {"noise": noise, "solver": solver}
                    makers = {
                        "exact": lambda x=x, known=known: design.exact(graph, signals=x, **known),
                        "blind": lambda y=y, known=known: design.blind(graph, measurements=y, **known),
                    }
                    for method, make in makers.items():
                        try:
                            designs = judged(judge, make)
                        except InputError:  # as much noise as power: nothing is left to fit
                            continue
                        yield method, solver, tuple(design.risk(graph, d, **judge_by).mse / best for d in designs)


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--networks", nargs="+", default=list(Settings().networks))
    parser.add_argument("--repeats", type=int, default=2)
    options = parser.parse_args()
    judge = Judge()
    early_stopping.worthwhile = penalty_path.worthwhile = judge
    logs: dict[tuple[str, str], list[np.ndarray]] = {}
    for name in options.networks:
        for method, solver, pair in ratios(name, options.repeats, judge):
            logs.setdefault((method, solver), []).append(np.log(pair))
        print(f"{name} done", flush=True)
    print("| method | rule | 1 standard error | 2 standard errors | designs |\n|---|---|---|---|---|")
    for method in ("exact", "blind"):
        for solver, rule in RULES.items():
            log = np.array(logs[method, solver])
            one, two = np.exp(log.mean(axis=0))
            print(f"| {method} | {rule} | {one:.4f} | {two:.4f} | {len(log)} |")


if __name__ == "__main__":
    main()
