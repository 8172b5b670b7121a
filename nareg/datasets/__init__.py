"""Data sets of real networks with origin, license and checksums; simulated networks; faults of sensors."""

from nareg.datasets._coast import coast as coast
from nareg.datasets.faults import inject
from nareg.datasets.fetching import fetch
from nareg.datasets.loaders import available, load
from nareg.datasets.network import SensorNetwork
from nareg.datasets.node_classification import NodeClassification
from nareg.datasets.registry import DatasetInfo, data_root, info, names
from nareg.datasets.simulated import SimulatedNetwork, simulated

__all__ = [
    "DatasetInfo",
    "NodeClassification",
    "SensorNetwork",
    "SimulatedNetwork",
    "available",
    "data_root",
    "fetch",
    "info",
    "inject",
    "load",
    "names",
    "simulated",
]
