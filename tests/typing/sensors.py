"""A user's program about sensors. No line runs: mypy checks that each call returns what its documentation says."""

from __future__ import annotations

from pathlib import Path
from typing import Any, assert_type

import numpy as np

import nareg
from nareg import baselines, cleaning, datasets, design, filters, graphs, io, quality, results, spacetime


def load_data() -> datasets.SensorNetwork:
    network = datasets.load("us-weather")
    assert_type(network, datasets.SensorNetwork)
    assert_type(network.graph, nareg.Graph)
    assert_type(network.signals, np.ndarray)
    assert_type(network.names, tuple[str, ...])
    assert_type(datasets.load("cora"), datasets.NodeClassification)
    assert_type(datasets.names(), list[str])
    assert_type(datasets.info("us-weather"), datasets.DatasetInfo)
    assert_type(datasets.simulated(rng=np.random.default_rng(0)), datasets.SimulatedNetwork)
    return network


def build_graph(adjacency: np.ndarray, coordinates: np.ndarray) -> nareg.Graph:
    graph = nareg.Graph(adjacency)
    assert_type(graph.n_nodes, int)
    assert_type(graph.degrees, np.ndarray)
    assert_type(graph.coordinates, np.ndarray | None)
    assert_type(nareg.Graph.load("network.graph"), nareg.Graph)
    assert_type(nareg.Graph.from_knn(coordinates, k=4), nareg.Graph)
    assert_type(graphs.grid((5, 5)), nareg.Graph)
    return graph


def design_weights(graph: nareg.Graph, y: np.ndarray, clean: np.ndarray) -> results.WeightDesign:
    assert_type(design.node_invariant(graph, measurements=y, noise=0.1), results.WeightDesign)
    assert_type(design.exact(graph, signals=clean, noise=0.1), results.WeightDesign)
    assert_type(design.edge(graph, measurements=y, noise=0.1), results.WeightDesign)
    assert_type(design.prony(graph, signals=clean, noise=0.1), results.WeightDesign)
    assert_type(design.relaxation(graph, signals=clean, noise=0.1), results.WeightDesign)
    assert_type(design.estimate_noise(graph, y), np.ndarray)
    assert_type(design.risk(graph, 0.5, signals=clean, noise=0.1), design.Risk)
    chosen = design.blind(graph, measurements=y, noise=0.1, sampling=design.Sampling(rng=np.random.default_rng(0)))
    assert_type(chosen, results.WeightDesign)
    assert_type(chosen.status, results.Status)
    assert_type(chosen.status.ok, bool)
    assert_type(chosen.weights, np.ndarray)
    assert_type(chosen.summary(), str)
    assert_type(design.load("design.npz"), results.WeightDesign)
    return chosen


def apply_filter(graph: nareg.Graph, weights: results.WeightDesign, y: np.ndarray) -> np.ndarray:
    done = filters.denoise(graph, weights, y)
    assert_type(done, results.Solution)
    assert_type(done.x, np.ndarray)
    assert_type(done.timings, dict[str, float])
    assert_type(filters.interpolate(graph, weights, y, method="direct"), results.Solution)
    prepared = filters.prepare(graph, weights)
    assert_type(prepared, filters.Denoiser)
    assert_type(prepared.denoise(y), results.Solution)
    assert_type(filters.uncertainty(graph, weights, noise=0.1), np.ndarray)
    assert_type(baselines.kernel_ridge(graph, y), np.ndarray)
    return done.x


def over_time(graph: nareg.Graph, y: np.ndarray) -> spacetime.Smoothed:
    model = spacetime.fit(graph, y, times=np.arange(y.shape[1]))
    assert_type(model, spacetime.SpaceTimeModel | spacetime.SparseSpaceTimeModel)
    smoothed = model.smooth(y)
    assert_type(smoothed, spacetime.Smoothed)
    assert_type(smoothed.x, np.ndarray)
    assert_type(smoothed.interval(0.9), tuple[np.ndarray, np.ndarray])
    assert_type(model.stream(), spacetime.Stream | spacetime.SparseStream)
    if isinstance(model, spacetime.SpaceTimeModel):
        assert_type(model.stream(), spacetime.Stream)
        found = quality.check(model, y)
        assert_type(found, quality.Quality)
        assert_type(found.suspects, tuple[quality.Suspect, ...])
    return smoothed


def clean_tables() -> Path:
    done = nareg.clean("readings.csv", "stations.csv", rng=np.random.default_rng(0))
    assert_type(done, cleaning.Cleaned)
    assert_type(done.suspects, tuple[str, ...])
    assert_type(done.summary(), str)
    assert_type(done.save("clean"), Path)
    assert_type(io.read_readings("readings.csv"), io.Readings)
    assert_type(io.read_stations("stations.csv"), io.Stations)
    assert_type(nareg.explore("readings.csv", "stations.csv"), Path)
    return done.report("report.html")


def catch_errors() -> None:
    try:
        clean_tables()
    except nareg.errors.DatasetNotFoundError as error:
        assert_type(str(error), str)
    except nareg.errors.NaregError:
        raise


def misspell() -> Any:
    return nareg.desing  # type: ignore[attr-defined]  # a name that is not there is an error, not Any
