"""The main speeds of nareg, measured by pytest-benchmark (``make speeds``): one module per job.

Each takes a fraction of a second to a few seconds, on one thread, so that they are run at every release. Results are added
to ``benchmarks/history``, which stays in the repository; ``pytest-benchmark compare`` shows two of them side by side.
"""

from __future__ import annotations

import os
from typing import Any

import pytest
from threadpoolctl import threadpool_limits


@pytest.fixture(autouse=True)
def _one_thread():
    """A history is of the code, not of the cores."""
    with threadpool_limits(1):
        yield


def pytest_benchmark_update_machine_info(machine_info: dict[str, Any]) -> None:
    """Of the machine only what explains a speed, and the load, which spoils one."""
    cpu = machine_info.get("cpu", {})
    shown = {key: machine_info[key] for key in ("machine", "python_version", "system")}
    machine_info.clear()
    machine_info.update(shown, cpu=cpu.get("brand_raw", ""), cores=os.cpu_count(), load=round(os.getloadavg()[0], 1))
