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
from nareg import io

if "PYTEST_XDIST_WORKER" in os.environ:
    import numba

    numba.set_num_threads(1)

# deadlines measure the machine, not the code; the profile is fixed so that a failure is found again
few = settings(deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow], max_examples=25)
settings.register_profile("nareg", few)
settings.register_profile("nightly", few, max_examples=100)  # make nightly names it
settings.load_profile("nareg")

#: Programs for the type checker alone (make types).
collect_ignore = ["typing"]


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


@pytest.fixture(scope="session")
def station_files(tmp_path_factory):
    """Forty stations, eighty noisy days of a smooth field, some readings missing in a second table."""
    folder = tmp_path_factory.mktemp("network")
    us = nareg.datasets.load("us-weather").complete().select(np.arange(40))
    rng = np.random.default_rng(0)
    truth = us.signals[:, :80]
    names = tuple(f"station {i}" for i in range(40))
    rows = "\n".join(f"{n},{a},{b}" for n, (a, b) in zip(names, us.coordinates, strict=True))
    (folder / "stations.csv").write_text("station,latitude,longitude\n" + rows + "\n")
    noisy = truth + 3.0 * rng.standard_normal(truth.shape)
    times = tuple(us.times[:80])
    io.write_readings(folder / "readings.csv", io.Readings(names, times, noisy))
    gaps = np.where(rng.random(truth.shape) < 0.1, np.nan, noisy)
    gaps[:, ::2] = noisy[:, ::2]
    io.write_readings(folder / "gaps.csv", io.Readings(names, times, gaps))
    return folder, truth, noisy, gaps, names
