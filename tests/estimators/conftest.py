from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

import nareg

pytest.importorskip("sklearn")

#: Noise standard deviation of the readings.
NOISE = 2.0


@pytest.fixture(scope="session")
def network(us):
    """Thirty US stations, in a graph of their own."""
    return us.select(np.arange(30))


@pytest.fixture(scope="session")
def clean(network) -> pd.DataFrame:
    """A year of the field, days by stations, in °C."""
    return pd.DataFrame(network.signals.T, index=pd.DatetimeIndex(network.times), columns=list(network.names))


@pytest.fixture(scope="session")
def noisy(clean) -> pd.DataFrame:
    return clean + NOISE * np.random.default_rng(5).standard_normal(clean.shape)


@pytest.fixture(scope="session")
def gappy(noisy) -> pd.DataFrame:
    """A tenth of the readings missing, and one station silent for a month."""
    missing = np.random.default_rng(6).random(noisy.shape) < 0.1
    missing[100:130, 4] = True
    return noisy.mask(missing)


@pytest.fixture(scope="session")
def grid() -> nareg.Graph:
    return nareg.graphs.grid((3, 3))


@pytest.fixture
def waves(rng) -> np.ndarray:
    """Forty times of nine noisy stations that go up and down together."""
    return 3 * rng.standard_normal((40, 1)) + 0.2 * np.arange(9) + 0.5 * rng.standard_normal((40, 9))
