"""The sparse space-time engine beside the exact dense filter, on a network of 150 random places: what it approximates.

Standard deviations of ``smooth`` over the exact ones, and the stream's RMSE over that of the exact filter, for five processes,
two smoothnesses, and five kinds of gaps.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

import nareg
from nareg.results import Status
from nareg.spacetime import SparseSpaceTimeModel
from nareg.spacetime._dense.filter import Dynamics
from nareg.spacetime._dense.smoother import run
from nareg.spacetime._model.results import Bands
from nareg.spacetime._readings import times as _times
from nareg.spacetime._readings import transforms as _transforms
from nareg.spacetime._readings.cycles import none
from nareg.spacetime._sparse.field import FieldFamily
from nareg.spacetime._sparse.system import Process

STATIONS, TIMES, BEGUN = 150, 150, 50
#: Reach in edges, autoregression, noise variance (the field's is 1).
PROCESSES = ((3.0, 0.9, 0.3), (6.0, 0.95, 0.3), (6.0, 0.95, 3.0), (2.0, 0.6, 0.1), (20.0, 0.99, 1.0))
GAPS = ("none", "half of all", "a fifth of the stations", "ten times", "runs")


@dataclass(frozen=True)
class Case:
    """A network, its process, readings (N, T) and the field that they were drawn from."""

    graph: nareg.Graph
    process: Process
    readings: np.ndarray
    truth: np.ndarray

    def model(self, times: int) -> SparseSpaceTimeModel:
        """The sparse model with the true process, of the first times."""
        readings = self.readings[:, :times]
        return SparseSpaceTimeModel(
            graph=self.graph, transform=_transforms.Transform("none"), unit=1.0, cycles=none(stations=STATIONS),
            unit_noise=self.process.noise, process=self.process, grid=_times.grid(np.arange(float(times))), bands=Bands(),
            status=Status.CONVERGED, log_likelihood=0.0, readings=readings, excluded=np.zeros(readings.shape, dtype=bool),
        )  # fmt: skip


def observed(kind: str, rng: np.random.Generator) -> np.ndarray:
    there = np.ones((STATIONS, TIMES), dtype=bool)
    if kind == "half of all":
        there = rng.random(there.shape) > 0.5
    elif kind == "a fifth of the stations":
        there[: STATIONS // 5] = False
    elif kind == "ten times":
        there[:, 120:130] = False
    elif kind == "runs":
        for station in range(STATIONS):
            for start in rng.integers(TIMES, size=2):
                there[station, start : start + rng.integers(5, 30)] = False
    return there


def case(
    graph: nareg.Graph, smoothness: int, reach: float, rho: float, noise: float, gaps: str, rng: np.random.Generator
) -> Case:
    variances = noise * np.exp(0.5 * rng.standard_normal(STATIONS))
    process = Process(FieldFamily(graph.adjacency, smoothness).at(reach), rho, 1.0, variances)
    truth = process.draw(TIMES, rng)
    readings = truth + np.sqrt(variances)[:, None] * rng.standard_normal(truth.shape)
    return Case(graph, process, np.where(observed(gaps, rng), readings, np.nan), truth)


def compare(c: Case) -> tuple[np.ndarray, np.ndarray, float]:
    """Ratios of standard deviations at readings and in gaps, and the stream's error over the filter's."""
    rho, C = c.process.rho, np.linalg.inv(c.process.field.precision().toarray())
    dynamics = Dynamics((np.asarray(rho),), (1 - rho**2) * C, C)
    exact = run(c.readings.T, dynamics, c.process.noise)
    ratio = c.model(TIMES).smooth(robust=False).std / np.sqrt(exact.var.T)
    there = np.isfinite(c.readings)
    filtered = run(c.readings.T, dynamics, c.process.noise, smooth=False).x.T[:, BEGUN:]
    stream = c.model(BEGUN).stream(robust=None)
    x = np.column_stack([stream.update(y).x for y in c.readings[:, BEGUN:].T])
    truth = c.truth[:, BEGUN:]
    return ratio[there], ratio[~there], float(np.sqrt(np.mean((x - truth) ** 2) / np.mean((filtered - truth) ** 2)))


def main() -> None:
    rng = np.random.default_rng(0)
    graph = nareg.Graph.from_knn(rng.random((STATIONS, 2)), 8)
    print("smoothness, reach, autoregression, noise, gaps: ratio of standard deviations (least, median, largest) at readings,")
    print("the same in gaps, and the stream's RMSE over the exact filter's")
    for smoothness in (2, 1):
        for reach, rho, noise in PROCESSES:
            for gaps in GAPS:
                at, between, error = compare(case(graph, smoothness, reach, rho, noise, gaps, rng))
                parts = [np.round(np.quantile(r, [0, 0.5, 1]), 3) if r.size else "-" for r in (at, between)]
                print(f"{smoothness} {reach:4g} {rho:5g} {noise:4g} {gaps:24} {parts[0]} {parts[1]} {error:.4f}", flush=True)


if __name__ == "__main__":
    main()
