"""What the shell offers for arguments that are neither files nor options."""

from __future__ import annotations


def dataset_names(incomplete: str) -> list[str]:
    """Names of data sets that begin like this."""
    from nareg import datasets

    return [name for name in datasets.names() if name.startswith(incomplete)]


def sensor_network_names(incomplete: str) -> list[str]:
    """Names of sensor networks that begin like this."""
    from typing import get_args

    from nareg.datasets.loaders import SensorName

    return [name for name in get_args(SensorName) if name.startswith(incomplete)]
