from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

import nareg


def frames(network: nareg.datasets.SimulatedNetwork, values: np.ndarray | None = None) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Readings and stations as a user has them."""
    index = pd.DatetimeIndex(network.times, name="time")
    y = network.readings if values is None else values
    readings = pd.DataFrame(y.T.copy(), index=index, columns=list(network.names))
    stations = pd.DataFrame(network.coordinates, index=list(network.names), columns=["latitude", "longitude"])
    return readings, stations


@pytest.fixture(scope="session")
def network() -> nareg.datasets.SimulatedNetwork:
    """Ten stations; one dead, one stuck."""
    return nareg.datasets.simulated(10, 160, faults=("dead", "stuck"), rng=np.random.default_rng(3))


@pytest.fixture(scope="session")
def cleaned(network):
    return nareg.clean(*frames(network), unit="°C")
