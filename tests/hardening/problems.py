"""Small random problems, and what may be done to one without changing its answer: relabeled nodes, units, layouts."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields, replace

import numpy as np
from hypothesis import strategies as st

import nareg


@dataclass(frozen=True)
class Problem:
    """A graph of N nodes, and one array of every kind that a public function takes."""

    graph: nareg.Graph
    signals: np.ndarray  # (N, T) clean
    readings: np.ndarray  # (N, T) noisy
    noise: np.ndarray  # (N,) variances
    observed: np.ndarray  # (N, T) booleans
    weights: np.ndarray  # (N,) node weights
    data_weight: np.ndarray  # (N,) data term
    labels: np.ndarray  # (N,) three classes
    train: np.ndarray  # (N,) booleans, every class among them
    features: np.ndarray  # (N, 4)

    @property
    def n(self) -> int:
        return self.graph.n_nodes

    def each(self, change: Callable[[np.ndarray], np.ndarray]) -> Problem:
        """The same arrays, changed one by one."""
        names = [field.name for field in fields(self) if field.name != "graph"]
        return replace(self, **{name: change(getattr(self, name)) for name in names})

    def relabeled(self, order: np.ndarray) -> Problem:
        """Node i of the new problem is node ``order[i]`` of this one."""
        graph = nareg.Graph(
            self.graph.adjacency[order][:, order],
            coordinates=self.graph.coordinates[order],
            names=[self.graph.names[i] for i in order],
        )
        return replace(self.each(lambda array: array[order]), graph=graph)

    def scaled(self, factor: float) -> Problem:
        """In another unit."""
        return replace(self, signals=factor * self.signals, readings=factor * self.readings, noise=factor**2 * self.noise)


def problem(seed: int, n: int, T: int, *, unit: float = 1.0) -> Problem:
    """A connected graph with unequal weights; stations whose noise and smoothness differ."""
    rng = np.random.default_rng(seed)
    upper = np.triu(rng.random((n, n)) < 0.4, 1)
    upper[np.arange(n - 1), np.arange(1, n)] = True  # a path, so that it is connected
    adjacency = np.where(upper, 0.2 + rng.random((n, n)), 0)
    graph = nareg.Graph(adjacency + adjacency.T, coordinates=rng.random((n, 2)), names=[f"s{i}" for i in range(n)])
    smooth = np.linalg.solve(np.eye(n) + 2 * graph.laplacian().toarray(), 3 * rng.standard_normal((n, T)))
    noise = 0.05 + rng.random(n)
    observed = rng.random((n, T)) < 0.8
    observed[0] = observed[:, 0] = True
    order = rng.permutation(n)
    train = np.zeros(n, dtype=bool)
    train[order[: max(3, n - 2)]] = True
    labels = np.empty(n, dtype=np.int64)
    labels[order] = np.arange(n) % 3
    signals = unit * (smooth + 1.5)
    return Problem(
        graph=graph,
        signals=signals,
        readings=signals + unit * np.sqrt(noise)[:, None] * rng.standard_normal((n, T)),
        noise=unit**2 * noise,
        observed=observed,
        weights=0.3 + rng.random(n),
        data_weight=0.5 + rng.random(n),
        labels=labels,
        train=train,
        features=rng.random((n, 4)),
    )


def problems(*, least: int = 5, most: int = 8, times: int = 6) -> st.SearchStrategy[Problem]:
    """Problems of few nodes; seeds, because what counts is that the numbers are generic."""
    seeds = st.integers(0, 2**32 - 1)
    return st.builds(problem, seeds, st.integers(least, most), st.integers(3, times))


def strided(array: np.ndarray) -> np.ndarray:
    """Equal numbers that lie backward and apart."""
    room = np.zeros(tuple(2 * length for length in array.shape), dtype=array.dtype)
    view = room[tuple(slice(None, None, -2) for _ in array.shape)]
    view[...] = array
    return view


def read_only(array: np.ndarray) -> np.ndarray:
    """A copy that refuses to be written to."""
    copy = array.copy()
    copy.flags.writeable = False
    return copy


def big_endian(array: np.ndarray) -> np.ndarray:
    """Equal numbers in the other byte order, as some files store them."""
    return array.astype(array.dtype.newbyteorder(">"))


#: Ways for equal numbers to lie in memory.
LAYOUTS: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "Fortran order": np.asfortranarray, "strided view": strided, "read-only": read_only, "big-endian": big_endian,
}  # fmt: skip
