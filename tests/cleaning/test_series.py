"""`nareg clean --with`: tables of what all stations share over time, beside readings with a gap of the whole network."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

import nareg
from nareg.cleaning import assemble
from nareg.cli import app
from nareg.errors import InputError
from nareg.io import Recipe

HOURS, SILENT = 480, slice(200, 230)


@pytest.fixture(scope="module")
def tables() -> tuple[pd.DataFrame, pd.DataFrame, pd.DataFrame, np.ndarray]:
    return drawn(5)


def drawn(seed: int) -> tuple[pd.DataFrame, pd.DataFrame, pd.DataFrame, np.ndarray]:
    """Readings, places, two series of another cadence, and the truth."""
    rng = np.random.default_rng(seed)
    network = nareg.datasets.simulated(8, HOURS, faults=(), rng=rng)
    shared = np.convolve(rng.standard_normal(HOURS + 40), np.ones(41) / 6.4, mode="valid")
    truth = network.truth + 3 * shared
    index = pd.date_range("2024-05-01", periods=HOURS, freq="h", name="time")
    readings = pd.DataFrame((network.readings + 3 * shared).T, index, network.names)
    readings.iloc[SILENT] = np.nan
    places = pd.DataFrame(network.coordinates, index=network.names, columns=["latitude", "longitude"])
    series = pd.DataFrame({"t2m": 280 + 2 * shared, "pressure": 1000 + rng.standard_normal(HOURS).cumsum()}, index)
    return readings, places, series.iloc[[*range(0, HOURS, 2), HOURS - 1]], truth


def gap_error(cleaned: nareg.Cleaned, truth: np.ndarray) -> float:
    return float(np.sqrt(np.mean((cleaned.x.to_numpy()[SILENT] - truth.T[SILENT]) ** 2)))


@pytest.mark.slow
def test_a_gap_of_the_whole_network_follows_a_series(tables):
    readings, places, series, truth = tables
    alone, followed = (nareg.clean(readings, places, covariates=given) for given in ((), series))
    error = gap_error(followed, truth)
    assert error < 0.7 * gap_error(alone, truth)
    other, _, other_series, other_truth = drawn(3)
    assert error + gap_error(nareg.clean(other, places, covariates=other_series), other_truth) < 2 * 1.42
    texts = [text for name, text in followed.reasons if name == "covariates"]
    assert texts[0].startswith("estimates follow t2m, 1.")
    assert texts[1].startswith("pressure is not used")


@pytest.mark.slow
def test_files_of_series_at_the_terminal_and_tomorrow(tables, tmp_path):
    readings, places, series, truth = tables
    until = readings.index[400]
    readings[:400].to_csv(tmp_path / "readings.csv")
    readings[400:].to_csv(tmp_path / "tomorrow.csv")
    places.rename_axis("station").to_csv(tmp_path / "stations.csv")
    series.rename_axis("when")[: until + pd.Timedelta("1h")].to_csv(tmp_path / "era.csv")
    series.rename_axis("when")[until - pd.Timedelta("2h") :].to_csv(tmp_path / "later.csv")
    runner, out = CliRunner(), tmp_path / "out"
    common = [str(tmp_path / "stations.csv"), str(tmp_path / "readings.csv"), "--out", str(out)]
    done = runner.invoke(app, ["clean", *common, "--with", str(tmp_path / "era.csv")])
    assert done.exit_code == 0, done.output
    assert "covariates: estimates follow t2m" in done.output
    tomorrow = ["apply", str(out / "model.npz"), str(tmp_path / "tomorrow.csv")]
    refused = runner.invoke(app, tomorrow)
    assert isinstance(refused.exception, InputError) or "has no value at some of these times" in refused.output
    assert runner.invoke(app, [*tomorrow, "--with", str(tmp_path / "later.csv")]).exit_code == 0
    written = pd.read_csv(out / "clean.csv", index_col=0).to_numpy()
    assert written.shape == (HOURS, 8)
    assert np.sqrt(np.mean((written[400:] - truth.T[400:]) ** 2)) < 0.5
    recipe = Recipe(series=(str(tmp_path / "era.csv"),))
    recipe.save(tmp_path / "recipe.toml")
    assert Recipe.load(tmp_path / "recipe.toml") == recipe
    assert set(assemble(tmp_path / "readings.csv", tmp_path / "stations.csv", recipe=recipe).covariates) == {"t2m", "pressure"}


@pytest.mark.slow
def test_a_table_of_a_reanalysis_at_every_station_and_tomorrow(tables, tmp_path):
    readings, places, _, truth = tables
    rng = np.random.default_rng(0)
    readings = readings.copy()
    readings.iloc[100:160, 2] = np.nan
    slow = np.cumsum(0.05 * rng.standard_normal((HOURS, 8)), axis=0)
    wide = (readings * 0 + 270).fillna(270) + truth.T + slow + 3 * rng.standard_normal(8)
    long = wide.iloc[:, ::-1].stack().rename("t2m").rename_axis(["time", "station"]).reset_index()
    alone, by_columns, by_names = (nareg.clean(readings[:420], places, covariates=given) for given in ((), wide, long))
    np.testing.assert_allclose(by_columns.x, by_names.x, atol=1e-6)
    assert gap_error(by_names, truth[:, :420]) < 0.6 * gap_error(alone, truth[:, :420])
    lines = [text for name, text in by_names.reasons if name == "covariates"]
    assert lines[0].startswith("estimates follow t2m at the stations, their mean, 1")
    by_names.model.save(tmp_path / "model.npz")
    later = str(tmp_path / "later.csv")
    long[long.time >= readings.index[415]].to_csv(later, index=False)
    tomorrow = nareg.cleaning.apply(by_names.model, readings[420:], recipe=Recipe(series=(later,)))
    assert np.sqrt(np.mean((tomorrow.x.to_numpy() - truth.T[420:]) ** 2)) < 0.5
    followed = by_names.model.with_covariates({"t2m": wide.to_numpy().T}, readings.index.to_numpy())
    given = np.hstack([np.where(followed.excluded, np.nan, followed.readings), readings[420:].to_numpy().T])
    smoothed = followed.smooth(given, times=readings.index.to_numpy(), robust=False).x.T[420:]
    np.testing.assert_allclose(tomorrow.x, smoothed, atol=1e-6)
    with pytest.raises(InputError, match="has no value at some of these times"):
        nareg.cleaning.apply(by_names.model, readings[420:])


def test_several_quantities_of_every_station_are_a_series_each(tables, tmp_path):
    readings, places, _, truth = tables
    rng = np.random.default_rng(1)
    warmth, useless = (pd.DataFrame(values.T, readings.index, readings.columns) for values in (280 + truth, truth * 0))
    useless += rng.standard_normal(useless.shape)
    long = pd.concat({"t2m": warmth.stack(), "wind": useless.stack()}, axis=1).rename_axis(["time", "station"]).reset_index()
    long.to_csv(tmp_path / "era5.csv", index=False)
    network = assemble(readings, places, recipe=Recipe(series=(str(tmp_path / "era5.csv"),)))
    assert {name: np.shape(values) for name, values in network.covariates.items()} == dict.fromkeys(("t2m", "wind"), (8, HOURS))
    np.testing.assert_allclose(network.covariates["t2m"], 280 + truth)
    assert not any("averaged" in note for note in network.notes)
    two = assemble(readings, places, series=(warmth, useless))
    np.testing.assert_allclose(two.covariates["series"], 280 + truth)
    np.testing.assert_allclose(two.covariates["series 2"], useless.to_numpy().T)


def test_stations_under_other_names_are_no_series_that_all_share(tables):
    readings, places, *_ = tables
    first = readings.columns[0]
    there = readings.interpolate()

    def refused(table: pd.DataFrame) -> str:
        with pytest.raises(InputError) as error:
            assemble(readings, places, series=(table,))
        return str(error.value)

    assert refused(there.rename(columns=str.swapcase)).endswith(
        f"has {first.swapcase()!r}, and the readings {first!r}: write the names of stations alike."
    )
    quantities = pd.concat({"t2m": there.stack(), "wind": there.stack() ** 2}, axis=1).rename_axis(["time", "station"])
    other = quantities.reset_index().assign(station=lambda table: "X" + table["station"])
    # averages over the places would go for series that all stations share
    assert "has t2m, wind at 8 places, such as 'X" in refused(other)
    assert refused(other).endswith(f"name them like the stations, such as {first!r}.")


def test_a_series_that_stands_still_at_a_station_is_noted(tables):
    readings, places, *_ = tables
    there, second = readings.interpolate(), readings.columns[1]

    def noted(table: pd.DataFrame) -> list[str]:
        return [note for note in assemble(readings, places, series=(table,)).notes if "one value at all times" in note]

    (note,) = noted(there.assign(**{second: 7.0}))
    assert f"'series' has one value at all times at 1 station, such as {second!r}" in note
    assert noted(there) == noted(there * 0 + 7.0) == []


def test_what_cannot_be_followed_is_refused_with_the_remedy(tables):
    readings, places, series, _ = tables

    def refused(table: pd.DataFrame, *more: pd.DataFrame) -> str:
        with pytest.raises(InputError) as error:
            nareg.clean(readings, places, covariates=[table, *more])
        return str(error.value)

    assert "'t2m' has values from 2024-05-11" in refused(series["2024-05-11":])
    assert refused(series[:"2024-05-20 10:00"]).endswith(
        "cut the readings to the 469 of 480 times from 2024-05-01 00:00:00 to 2024-05-20 12:00:00."
    )
    later = series.set_axis(series.index + pd.Timedelta("90D"))
    assert refused(later).endswith("to 2024-05-20 23:00:00: pass a series of their times.")
    assert refused(readings[[readings.columns[0]]]).startswith(
        f"the table of series has values of 1 of 8 stations, but none of {readings.columns[1]!r}: pass values of every station"
    )
    assert f"'series' of the station {readings.columns[2]!r} has no value: fill it in" in refused(
        readings.interpolate().assign(**{readings.columns[2]: np.nan})
    )
    many = pd.DataFrame(np.ones((len(series), 21)), series.index, [f"c{i}" for i in range(21)])
    assert "has 21 columns, none of them a station's: at most 20 series that all stations share" in refused(many)
    assert "there is another series 't2m': rename one" in refused(series, series)
    assert "times of two kinds" in refused(series.reset_index(drop=True).rename_axis("time"))
    assert "'t2m' has no value: leave the column out" in refused(series.assign(t2m=np.nan))
    hole = series.copy()
    hole.iloc[50:60, 0] = np.nan  # where the network is silent a straight line would be taken for what the series says
    assert "'t2m' has no value between the times 2024-05-05 02:00:00 and 2024-05-06 00:00:00: fill it in" in refused(hole)


def test_a_series_in_utc_beside_readings_in_local_time_and_of_one_place(tables, tmp_path):
    readings, places, series, _ = tables
    readings.set_axis(readings.index + pd.Timedelta("2h")).to_csv(tmp_path / "local.csv")
    utc = series[["t2m"]].assign(latitude=48.0, longitude=-3.0)
    utc.set_axis(utc.index.tz_localize("UTC")).rename_axis("valid_time").to_csv(tmp_path / "point.csv")
    places.rename_axis("station").to_csv(tmp_path / "stations.csv")
    recipe = Recipe(zone="+02:00", series=(str(tmp_path / "point.csv"),))
    network = assemble(tmp_path / "local.csv", tmp_path / "stations.csv", recipe=recipe)
    values = network.covariates["t2m"][0]
    np.testing.assert_allclose(values[:-1:2], series["t2m"].to_numpy()[:-1], rtol=1e-9)
    local = utc[["t2m"]].set_axis(utc.index + pd.Timedelta("2h"))  # without offsets the zone holds for it, too
    local.rename_axis("time").to_csv(tmp_path / "point.csv")
    network = assemble(tmp_path / "local.csv", tmp_path / "stations.csv", recipe=recipe)
    np.testing.assert_allclose(network.covariates["t2m"][0], values)


def test_a_coarse_series_is_said_to_be_a_straight_line_between_its_times(tables):
    readings, places, series, _ = tables
    daily = series.iloc[[*range(0, 240, 12), len(series) - 1]]
    notes = nareg.cleaning.assemble(readings, places, series=[daily]).notes
    assert any("is coarser than the readings: between its times it is a straight line" in note for note in notes)


@pytest.mark.parametrize("more", [{}, {"pressure": 1000.0}])
def test_words_beside_a_series_are_left_out_with_a_note(tables, tmp_path, more):
    readings, places, series, _ = tables
    sky = ["clear", "cloudy"] * (len(series) // 2) + ["clear"]
    table = series[["t2m"]].assign(**more, sky=sky).rename_axis("time")
    table.to_csv(tmp_path / "era.csv")
    for source in (table, tmp_path / "era.csv"):
        network = assemble(readings, places, series=[source])
        assert set(network.covariates) == {"t2m", *more}
        assert network.notes[-1].endswith("column 'sky' holds words ('clear', 'cloudy') and is left out.")
    with pytest.raises(InputError, match=r"column 'sky' holds words .*: add a column of numbers, or leave the table out"):
        assemble(readings, places, series=[table[["sky"]]])


@pytest.mark.parametrize("hours", [-2, 0, 1])
def test_a_series_of_another_zone_is_said_to_be_late_or_early(tables, hours):
    readings, places, _, _ = tables
    cycle = np.sin(2 * np.pi * np.arange(HOURS + 48) / 24)
    whole = pd.date_range("2024-04-30", periods=HOURS + 48, freq="h", name="time")
    table = pd.DataFrame({"t2m": cycle, "other": np.random.default_rng(2).standard_normal(whole.size).cumsum()}, whole)
    notes = assemble(readings.add(10 * cycle[24:-24], axis=0), places, series=[table.shift(freq=f"{hours}h")]).notes
    said = [note.split(": ")[1] for note in notes if "better where its times are" in note]
    later = {-2: "2 hours later", 1: "1 hour earlier"}
    assert said == [f"'t2m' goes with the readings better where its times are {later.get(hours)}"] * (hours != 0)


def test_the_column_of_stations_is_that_of_a_series_at_each_too(tables, tmp_path):
    readings, places, series, _ = tables
    each = pd.concat([series[["t2m"]].assign(node="grid", Ort=name) for name in readings.columns])
    each.to_csv(tmp_path / "era.csv")
    long = readings.rename_axis(columns="Ort").stack(future_stack=True).rename("temp").reset_index()
    named = Recipe(station="Ort", series=(str(tmp_path / "era.csv"),))
    network = assemble(long, places.rename_axis("Ort").reset_index(), recipe=named)
    assert network.covariates["t2m"].shape == readings.T.shape
    series.assign(Ort="everywhere").to_csv(tmp_path / "era.csv")  # of all stations, a row per time
    network = assemble(long, places.rename_axis("Ort").reset_index(), recipe=named)
    assert {name: network.covariates[name].shape for name in ("t2m", "pressure")} == {
        name: (1, len(readings)) for name in ("t2m", "pressure")
    }
    series.to_csv(tmp_path / "era.csv")
    assert assemble(long, places.rename_axis("Ort").reset_index(), recipe=named).covariates["t2m"].shape == (1, len(readings))
