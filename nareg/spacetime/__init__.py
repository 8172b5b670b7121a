"""Graph state-space models of sensor networks, learned from noisy readings with gaps.

``fit`` learns a model. Its ``smooth`` fills gaps and gives a standard deviation for every station and time; its ``stream``
takes in new readings time by time. ``placement`` and ``removal`` rank sites and stations by the error that they save.
"""

from __future__ import annotations

# Names that are imported as themselves are for other parts of nareg; they are not public.
from nareg.spacetime._dense.em import DynamicsName as DynamicsName
from nareg.spacetime._dense.parametric import HARDLY_KNOWN as HARDLY_KNOWN
from nareg.spacetime._dense.smoother import SPARE as SPARE
from nareg.spacetime._dense.smoother import Pass as Pass
from nareg.spacetime._dense.smoother import heavy_tailed_pass as heavy_tailed_pass
from nareg.spacetime._dense.smoother import large as large
from nareg.spacetime._dense.smoother import local_pass as local_pass
from nareg.spacetime._dense.smoother import run as run
from nareg.spacetime._model.base import on_grid as on_grid
from nareg.spacetime._model.dense import SpaceTimeModel
from nareg.spacetime._model.fit import LARGEST as LARGEST
from nareg.spacetime._model.fit import checked_cycles as checked_cycles
from nareg.spacetime._model.fit import fit
from nareg.spacetime._model.loading import DirectionModels as DirectionModels
from nareg.spacetime._model.loading import load, load_stream
from nareg.spacetime._model.loading import load_any as load_any
from nareg.spacetime._model.placement import SensorRanking, placement, removal
from nareg.spacetime._model.results import LEVELS as LEVELS
from nareg.spacetime._model.results import Smoothed, Update
from nareg.spacetime._model.results import dataset_of as dataset_of
from nareg.spacetime._model.sparse import SparseSpaceTimeModel
from nareg.spacetime._model.stream import SparseStream, Stream
from nareg.spacetime._readings import cycles as cycles
from nareg.spacetime._readings import times as times
from nareg.spacetime._readings.cycles import TIDE as TIDE
from nareg.spacetime._readings.cycles import tidal as tidal
from nareg.spacetime._readings.freezes import freezes as freezes
from nareg.spacetime._readings.freezes import stuck as stuck
from nareg.spacetime._readings.holdout import gaps_of as gaps_of
from nareg.spacetime._readings.holdout import hide as hide
from nareg.spacetime._readings.holdout import robust_scale as robust_scale
from nareg.spacetime._readings.holdout import station_order as station_order
from nareg.spacetime._readings.holdout import winsorized_squares as winsorized_squares
from nareg.spacetime._readings.leaps import edges as edges
from nareg.spacetime._readings.leaps import leaps as leaps
from nareg.spacetime._readings.outliers import ROUNDS as ROUNDS
from nareg.spacetime._readings.outliers import absurd as absurd
from nareg.spacetime._readings.outliers import fewest_sharing as fewest_sharing
from nareg.spacetime._readings.outliers import limit_of as limit_of
from nareg.spacetime._readings.outliers import robust_spread as robust_spread
from nareg.spacetime._readings.outliers import scores_without as scores_without
from nareg.spacetime._readings.outliers import spikes as spikes
from nareg.spacetime._readings.repeats import TOGETHER as TOGETHER
from nareg.spacetime._readings.repeats import Bounds as Bounds
from nareg.spacetime._readings.repeats import RepeatedValue as RepeatedValue
from nareg.spacetime._readings.repeats import bounds as bounds
from nareg.spacetime._readings.repeats import intermittent as intermittent
from nareg.spacetime._readings.repeats import stuck_runs as stuck_runs
from nareg.spacetime._readings.resolution import steps as steps
from nareg.spacetime._readings.series import LONGEST as LONGEST
from nareg.spacetime._readings.series import straight as straight
from nareg.spacetime._readings.times import ISO as ISO
from nareg.spacetime._readings.times import TimeGrid as TimeGrid
from nareg.spacetime._readings.transforms import TransformLike as TransformLike

__all__ = [
    "SensorRanking",
    "Smoothed",
    "SpaceTimeModel",
    "SparseSpaceTimeModel",
    "SparseStream",
    "Stream",
    "Update",
    "fit",
    "load",
    "load_stream",
    "placement",
    "removal",
]
