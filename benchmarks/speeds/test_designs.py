"""Designing weights for the US network (140 stations, 365 days) at 0 dB."""

from __future__ import annotations

import numpy as np
import pytest

import nareg


@pytest.fixture(scope="module")
def history():
    network = nareg.datasets.load("us-weather").complete()
    signals = network.signals - network.signals.mean(axis=1, keepdims=True)
    return network.graph, signals, float(np.mean(signals**2))


@pytest.mark.parametrize("method", ["prony", "exact", "edge"])
def test_design_from_clean_history(benchmark, history, method):
    graph, signals, noise = history
    assert benchmark(getattr(nareg.design, method), graph, signals=signals, noise=noise).status.ok


def test_blind_design(benchmark, history):
    graph, signals, noise = history
    readings = signals + np.sqrt(noise) * np.random.default_rng(0).standard_normal(signals.shape)
    assert benchmark(nareg.design.blind, graph, measurements=readings, noise=noise).status.ok
