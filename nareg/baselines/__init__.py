"""Baselines to compare with: kernel ridge, kriging, total variation, and simple ones such as a rolling mean.

Those that take a graph take tables, too, a row per time and a column per station. They return arrays in the graph's order.
"""

from nareg.baselines._graph_trss import graph_trss
from nareg.baselines._kriging import Kriging, kriging
from nareg.baselines._linear import bandlimited, kernel_ridge, lmmse
from nareg.baselines._pca import PrincipalComponents, pca
from nareg.baselines._simple import interpolate_in_time, neighbor_median, network_mean, rolling_mean
from nareg.baselines._tikhonov import Classification, tikhonov_classification, tikhonov_regression
from nareg.baselines._total_variation import total_variation

__all__ = [
    "Classification",
    "Kriging",
    "PrincipalComponents",
    "bandlimited",
    "graph_trss",
    "interpolate_in_time",
    "kernel_ridge",
    "kriging",
    "lmmse",
    "neighbor_median",
    "network_mean",
    "pca",
    "rolling_mean",
    "tikhonov_classification",
    "tikhonov_regression",
    "total_variation",
]
