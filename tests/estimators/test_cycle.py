"""Station means and a seasonal cycle: removed, and restored."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.impute import KNNImputer
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from nareg.errors import InputError
from nareg.estimators import (
    EdgeDenoiser,
    GraphInterpolator,
    NodeAdaptiveDenoiser,
    SeasonalCycleRemover,
    SeasonallyAdjusted,
    SpaceTimeSmoother,
)

HOURS = pd.date_range("2024-05-01", periods=24 * 20, freq="h")


def daily(times: pd.DatetimeIndex) -> pd.DataFrame:
    """Means 5 and 7 and a cycle of two harmonics, of another size at each station."""
    angle = 2 * np.pi * (times.tz_localize(None) - pd.Timestamp("1970")).total_seconds().to_numpy() / 86_400
    wave = np.cos(angle) + 0.5 * np.sin(2 * angle)
    return pd.DataFrame({"a": 5 + wave, "b": 7 - 2 * wave}, index=times)


def test_a_cycle_of_dates_is_removed_and_restored():
    X = daily(HOURS)
    remover = SeasonalCycleRemover().fit(X)
    assert remover.names_ == ("day",)
    assert remover.harmonics_ == (2,)
    assert np.abs(remover.transform(X)).max() < 1e-9
    later = daily(HOURS + pd.Timedelta(hours=1003))  # another phase, known from the dates
    assert np.abs(remover.transform(later)).max() < 1e-9
    remover.set_output(transform="pandas")  # keeps the dates
    np.testing.assert_allclose(remover.inverse_transform(remover.transform(later)), later)
    zoned = later.tz_localize("UTC").tz_convert("Asia/Tokyo")
    np.testing.assert_allclose(remover.transform(zoned), remover.transform(later))


@pytest.mark.parametrize(
    "index",
    [HOURS.strftime("%Y-%m-%d %H:%M"), HOURS.strftime("%Y-%m-%dT%H:%M:%SZ"), HOURS.to_period("h"), HOURS.tz_localize("UTC")],
    ids=["texts", "texts in UTC", "periods", "in UTC"],
)
def test_dates_that_nobody_parsed_are_dates(index):
    X = daily(HOURS).set_axis(index)
    assert SeasonalCycleRemover().fit(X).names_ == ("day",)
    np.testing.assert_allclose(SeasonalCycleRemover().fit_transform(X), 0, atol=1e-9)


def test_a_zone_by_its_name_is_refused():
    X = daily(HOURS).set_axis([*HOURS[:-1].strftime("%Y-%m-%d %H:%M"), "2024-05-20 23:00 CEST"])
    with pytest.raises(InputError, match="the index of X holds '2024-05-20 23:00 CEST', no time of ISO 8601: write it as"):
        SeasonalCycleRemover().fit(X)


def test_other_texts_are_no_dates():
    X = daily(HOURS).set_axis([f"sample {i}" for i in range(len(HOURS))])
    assert SeasonalCycleRemover().fit(X).names_ == ()


def test_the_coefficients_are_least_squares(rng):
    X = rng.standard_normal((60, 3))
    X[rng.random(X.shape) < 0.2] = np.nan
    remover = SeasonalCycleRemover(period=20).fit(X)
    angle = 2 * np.pi * np.arange(60) / 20
    B = np.column_stack([np.ones(60), np.cos(angle), np.sin(angle), np.cos(2 * angle), np.sin(2 * angle)])
    for i in range(3):
        seen = np.isfinite(X[:, i])
        expected = np.linalg.solve(B[seen].T @ B[seen], B[seen].T @ X[seen, i])
        np.testing.assert_allclose(remover.coefficients_[:, i], expected, atol=1e-10)


def test_a_number_as_index_gives_the_phase():
    frame = pd.DataFrame(np.cos(2 * np.pi * np.arange(48) / 12))
    remover = SeasonalCycleRemover(period=12).fit(frame)
    assert np.abs(remover.transform(frame.iloc[5:])).max() < 1e-9
    assert np.abs(remover.transform(frame.iloc[5:].to_numpy())).max() > 0.1  # an array's rows count from 0
    order = np.random.default_rng(0).permutation(48)
    assert np.abs(remover.transform(frame.iloc[order])).max() < 1e-9


def test_without_a_period_only_means_go(rng):
    X = 3 + rng.standard_normal((20, 4))
    remover = SeasonalCycleRemover().fit(X)
    np.testing.assert_allclose(remover.transform(X), X - X.mean(axis=0))
    np.testing.assert_allclose(remover.transform(X[:1]), X[:1] - X.mean(axis=0))
    np.testing.assert_allclose(SeasonalCycleRemover(cycles=None).fit_transform(daily(HOURS)).mean(axis=0), 0, atol=1e-12)


def test_a_station_with_few_readings_takes_the_others_cycle():
    X = np.cos(2 * np.pi * np.arange(48) / 12)[:, None] + np.arange(4.0)
    X[:40, 1] = np.nan
    X[:, 3] = np.nan
    remover = SeasonalCycleRemover(period=12).fit(X)
    np.testing.assert_allclose(remover.coefficients_[1:, 1], remover.coefficients_[1:, 0], atol=1e-10)
    np.testing.assert_allclose(remover.coefficients_[0], [0, 1, 2, 1], atol=1e-10)  # the silent one: the others' mean
    rest = remover.transform(X)
    np.testing.assert_array_equal(np.isnan(rest), np.isnan(X))


@pytest.mark.parametrize(
    ("options", "X", "message"),
    [
        ({"period": 365}, np.ones((30, 2)), r"period is 365 but X spans 0.0822 of them"),
        ({"period": 3}, np.ones((30, 2)), r"with 3 steps each: pass at least 0.9 with 6 steps"),
        ({"period": -1}, np.ones((30, 2)), r"period is -1"),
        ({"cycles": ("day",)}, np.ones((30, 2)), r"times of X are numbers"),
        ({"period": 24}, daily(HOURS), r"period is 24 but X has dates"),
        ({"cycles": ("year",)}, daily(HOURS), r"the times span 0.055 of them"),
        ({"cycles": "week"}, daily(HOURS), r"cycles is 'week'"),
        ({}, daily(HOURS).set_axis([*HOURS[:-1], pd.NaT]), r"holds NaT at row 479"),
    ],
)
def test_a_cycle_that_cannot_be_seen_is_refused(options, X, message):
    with pytest.raises(InputError, match=message):
        SeasonalCycleRemover(**options).fit(X)


def test_times_of_another_kind_are_refused():
    with pytest.raises(InputError, match="X has numbers as times but the fit had dates"):
        SeasonalCycleRemover().fit(daily(HOURS)).inverse_transform(np.ones((3, 2)))


@pytest.mark.slow
def test_adjusted_runs_any_estimator_in_the_unit_of_x(network, clean, noisy):
    past, new = np.arange(365) < 340, np.arange(365) >= 340
    for estimator in (NodeAdaptiveDenoiser(network.graph), EdgeDenoiser(network.graph), KNNImputer(), None):
        adjusted = SeasonallyAdjusted(estimator).fit(noisy[past])
        assert adjusted.remover_.names_ == ("year",)
        assert adjusted.score(noisy[new], clean[new]) > 1.1 * -4.0
    by_hand = SeasonalCycleRemover().fit(noisy[past])
    inner = NodeAdaptiveDenoiser(network.graph).fit(by_hand.transform(noisy[past]))
    expected = by_hand.inverse_transform(pd.DataFrame(inner.transform(by_hand.transform(noisy[new])), index=noisy.index[new]))
    outer = SeasonallyAdjusted(NodeAdaptiveDenoiser(network.graph)).fit(noisy[past])
    np.testing.assert_allclose(outer.transform(noisy[new]), expected)


@pytest.mark.parametrize("estimator", [NodeAdaptiveDenoiser, EdgeDenoiser, GraphInterpolator])
def test_a_pipeline_puts_back_what_it_removed(network, noisy, estimator):
    pipeline = make_pipeline(StandardScaler(with_std=False), SeasonalCycleRemover(), estimator(network.graph))
    pipeline.set_output(transform="pandas").fit(noisy[:340])
    new = noisy[340:]
    scaler, remover, last = (step for _, step in pipeline.steps)
    rest = last.transform(remover.transform(scaler.transform(new)))
    expected = remover.inverse_transform(rest) + scaler.mean_
    np.testing.assert_allclose(pipeline.inverse_transform(pipeline.transform(new)), expected)
    assert abs(expected.mean() - new.to_numpy().mean()) < 1.0  # in the unit of X, not what is left of it


@pytest.mark.slow
def test_a_pipeline_that_ends_in_a_smoother_puts_back_what_it_removed(network, noisy, clean):
    smoother = SpaceTimeSmoother(network.graph, dynamics="scalar")
    pipeline = make_pipeline(SeasonalCycleRemover(), smoother).set_output(transform="pandas").fit(noisy)
    x = pipeline.inverse_transform(pipeline.transform(noisy))
    assert ((x - clean.to_numpy()) ** 2).mean() < 0.5 * ((noisy - clean) ** 2).to_numpy().mean()
    with pytest.raises(InputError, match="X has numbers as times but the fit had dates: pass a frame"):
        pipeline.inverse_transform(pipeline.transform(noisy).to_numpy())
    with pytest.raises(InputError, match="pass the same stations"):
        pipeline.inverse_transform(pipeline.transform(noisy).iloc[:, :3])


@pytest.mark.slow
def test_adjusted_hands_times_and_a_clean_field_on(network, clean, noisy):
    smoother = SeasonallyAdjusted(SpaceTimeSmoother(network.graph, dynamics="scalar")).fit(noisy[:200])
    np.testing.assert_array_equal(smoother.estimator_.model_.times, noisy.index[:200].to_numpy())
    exact = SeasonallyAdjusted(NodeAdaptiveDenoiser(network.graph, design="exact")).fit(noisy, clean)
    assert exact.estimator_.design_.method.startswith("exact")
    np.testing.assert_allclose(1 / exact.estimator_.design_.data_weight, ((noisy - clean) ** 2).mean(), rtol=1e-6)


@pytest.mark.slow
def test_a_pipeline_scores_in_its_own_unit(network, noisy):
    """Without y the held-out readings are what is left of X; with the parts nested, parameters have names."""
    pipeline = make_pipeline(SeasonalCycleRemover(), NodeAdaptiveDenoiser(network.graph)).fit(noisy)
    rest = pipeline[0].transform(noisy)
    assert pipeline.score(noisy) == pytest.approx(clone(pipeline[1]).fit(rest).score(rest))
    assert "estimator__noise" in SeasonallyAdjusted(NodeAdaptiveDenoiser()).get_params()
