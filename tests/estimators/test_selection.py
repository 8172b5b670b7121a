"""The estimators in pipelines and grid searches, cloned, pickled, and with frames out."""

from __future__ import annotations

import pickle

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from nareg.estimators import (
    EdgeDenoiser,
    GraphInterpolator,
    HeldOutStations,
    NodeAdaptiveDenoiser,
    SeasonalCycleRemover,
    SeasonallyAdjusted,
    SpaceTimeSmoother,
    TimeBlockSplit,
)

CLASSES = (EdgeDenoiser, GraphInterpolator, NodeAdaptiveDenoiser, SpaceTimeSmoother)


def all_of(graph):
    return [*(make(graph) for make in CLASSES), SeasonalCycleRemover(), SeasonallyAdjusted(EdgeDenoiser(graph))]


@pytest.mark.slow
def test_a_grid_search_without_a_clean_field(network, noisy):
    search = GridSearchCV(
        NodeAdaptiveDenoiser(network.graph), {"design": ["blind", "gcv"], "noise": [4.0, 16.0]}, cv=TimeBlockSplit(3, gap=2),
    )  # fmt: skip
    search.fit(noisy)
    assert search.best_params_ == {"design": "blind", "noise": 4.0}
    scores = search.cv_results_["mean_test_score"]
    assert scores.max() == search.best_score_ > scores.min()
    np.testing.assert_allclose(search.transform(noisy), search.best_estimator_.transform(noisy))


@pytest.mark.slow
def test_a_grid_search_against_a_clean_field_finds_the_better_weight(network, clean):
    """The choice is that of a plain loop over weights."""
    noisy = clean + 5 * np.random.default_rng(1).standard_normal(clean.shape)
    cv, weights = TimeBlockSplit(3), [0.02, 1.0, 20.0]
    search = GridSearchCV(GraphInterpolator(network.graph), {"weights": weights}, cv=cv, scoring=HeldOutStations())
    search.fit(noisy, clean)
    scores = [
        np.mean([
            HeldOutStations()(GraphInterpolator(network.graph, weights=w).fit(noisy.iloc[a]), noisy.iloc[b], clean.iloc[b])
            for a, b in cv.split(noisy)
        ])
        for w in weights
    ]  # fmt: skip
    np.testing.assert_allclose(search.cv_results_["mean_test_score"], scores)
    assert search.best_params_["weights"] == 1.0


@pytest.mark.slow
def test_in_a_pipeline(network, gappy):
    pipeline = make_pipeline(SeasonalCycleRemover(), GraphInterpolator(network.graph), StandardScaler())
    out = pipeline.set_output(transform="pandas").fit_transform(gappy)
    assert out.notna().all(axis=None)
    assert list(out.columns) == list(gappy.columns) == list(pipeline.get_feature_names_out())
    pd.testing.assert_index_equal(out.index, gappy.index)


@pytest.mark.slow
def test_on_two_processes(network, noisy):
    search = GridSearchCV(
        SeasonallyAdjusted(EdgeDenoiser(network.graph)), {"estimator__shrink": [0.2, 1.0]}, cv=TimeBlockSplit(2), n_jobs=2
    )
    assert search.fit(noisy).best_params_ == {"estimator__shrink": 0.2}


@pytest.mark.slow
@pytest.mark.parametrize("position", range(6))
def test_clone_pickle_and_frames(position, network, noisy):
    estimator = all_of(network.graph)[position]
    if isinstance(estimator, SpaceTimeSmoother):
        estimator.set_params(dynamics="scalar")
    X = noisy[:60]
    with pytest.raises(NotFittedError):
        estimator.transform(X)
    x = estimator.fit(X).transform(X)
    assert isinstance(x, np.ndarray)
    assert estimator.n_features_in_ == 30
    assert list(estimator.feature_names_in_) == list(X.columns) == list(estimator.get_feature_names_out())
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(estimator)).transform(X), x)
    again = clone(estimator)
    assert not hasattr(again, "n_features_in_")
    np.testing.assert_array_equal(again.fit(X).transform(X), x)
    frame = again.set_output(transform="pandas").transform(X)
    pd.testing.assert_frame_equal(frame, pd.DataFrame(x, index=X.index, columns=X.columns))


def test_a_clone_shares_the_graph(network):
    """It cannot be changed, so that a search over many parameters holds it once."""
    estimator = EdgeDenoiser(network.graph)
    assert clone(estimator).graph is network.graph
