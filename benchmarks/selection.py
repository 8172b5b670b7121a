"""One standard error or two, four folds or one, dense matrices or sampled columns: what decides designs on five networks.

    python benchmarks/selection.py            # long; --networks molene --repeats 1 takes a minute

Designs from k training signals or noisy readings; the risk on the other blocks of times over that of the best single weight
there. A row per method, solver and number of folds: the geometric mean over networks, SNRs, k and repeats, where the gain on
held-out columns must exceed one of its standard errors, or two.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from experiments.beyond import Settings, signals_of
from nareg import design
from nareg._solvers import held_out
from nareg.design._node import penalty_path
from nareg.errors import InputError
from nareg.results import WeightDesign

SNR_DB = (-10.0, 0.0, 10.0)
#: Training signals; None: all there are.
SIGNALS = (12, 32, 100, None)
#: Solvers and folds.
RULES = (("dense", 4), ("dense", 1), ("sampled", 4), ("sampled", 1))


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


def ratios(name: str, repeats: int, judge: Judge) -> Iterator[tuple[str, tuple[str, int], tuple[float, ...]]]:
    """Method, solver and folds, and the ratios of risks by one and by two standard errors."""
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
                for solver, folds in RULES:
                    known: dict[str, Any] = {"noise": noise, "solver": solver, "sampling": design.Sampling(folds=folds)}
                    makers = {
                        "exact": lambda x=x, known=known: design.exact(graph, signals=x, **known),
                        "blind": lambda y=y, known=known: design.blind(graph, measurements=y, **known),
                    }
                    for method, make in makers.items():
                        try:
                            designs = judged(judge, make)
                        except InputError:  # as much noise as power: nothing is left to fit
                            continue
                        yield method, (solver, folds), tuple(design.risk(graph, d, **judge_by).mse / best for d in designs)


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--networks", nargs="+", default=list(Settings().networks))
    parser.add_argument("--repeats", type=int, default=2)
    options = parser.parse_args()
    judge = Judge()
    penalty_path.worthwhile = judge
    logs: dict[tuple[str, tuple[str, int]], list[np.ndarray]] = {}
    for name in options.networks:
        for method, rule, pair in ratios(name, options.repeats, judge):
            logs.setdefault((method, rule), []).append(np.log(pair))
        print(f"{name} done", flush=True)
    print("| method | solver | folds | 1 standard error | 2 standard errors | designs |\n|---|---|---|---|---|---|")
    for method in ("exact", "blind"):
        for solver, folds in RULES:
            log = np.array(logs[method, (solver, folds)])
            one, two = np.exp(log.mean(axis=0))
            print(f"| {method} | {solver} | {folds} | {one:.4f} | {two:.4f} | {len(log)} |")


if __name__ == "__main__":
    main()
