"""Real networks: a registry with origin, licence and checksums, and loaders that never unpickle."""

from nareg.datasets.loaders import available, load
from nareg.datasets.network import SensorNetwork
from nareg.datasets.node_classification import NodeClassification
from nareg.datasets.radomeh import fetch
from nareg.datasets.registry import DatasetInfo, data_root, info, names

__all__ = ["DatasetInfo", "NodeClassification", "SensorNetwork", "available", "data_root", "fetch", "info", "load", "names"]
