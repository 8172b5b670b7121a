from __future__ import annotations

import os
from pathlib import Path

if "PYTEST_XDIST_WORKER" in os.environ:  # workers share the cores: threads of one would wait for those of the other
    for variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
        os.environ.setdefault(variable, "1")

import numpy as np
import pytest
from hypothesis import HealthCheck, settings

import nareg

if "PYTEST_XDIST_WORKER" in os.environ:
    import numba

    numba.set_num_threads(1)

# deadlines measure the machine, not the code; the profile is fixed so that a failure is found again
settings.register_profile("nareg", deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("nareg")


@pytest.fixture
def rng() -> np.random.Generator:
    return np.random.default_rng(20261121)


@pytest.fixture(scope="session")
def us() -> nareg.datasets.SensorNetwork:
    """140 complete US stations, with one global mean removed."""
    return nareg.datasets.load("us-weather").complete()


@pytest.fixture(scope="session")
def data_root() -> Path:
    """The folder of prepared data, or a skip that says what is absent."""
    root = os.environ.get("NAREG_DATA")
    if not root or not Path(root).is_dir():
        pytest.skip("NAREG_DATA does not name a folder with the prepared data sets")
    return Path(root)
