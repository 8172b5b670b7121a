"""Stations without a reading follow what is known of them: their altitude by itself, other columns where they are named."""

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

N, T = 12, 120


def tables(rng: np.random.Generator, rate: float) -> tuple[pd.DataFrame, pd.DataFrame, np.ndarray]:
    """Readings without those of the last station, the highest; places with heights; the truth."""
    heights = np.append(rng.uniform(500, 1800, N - 1), 2900.0)
    names = [f"S{i}" for i in range(N)]
    truth = 10 + rate * heights[:, None] + 3 * np.sin(np.arange(T) / 4) + 0.3 * rng.standard_normal((N, 1))
    y = truth + 0.3 * rng.standard_normal((N, T))
    y[rng.random(y.shape) < 0.1] = np.nan
    y[-1] = np.nan
    index = pd.date_range("2024-05-01", periods=T, freq="h", name="time")
    places = pd.DataFrame(47 + rng.random((N, 2)), index=names, columns=["latitude", "longitude"])
    return pd.DataFrame(y.T, index=index, columns=names), places.assign(elevation=heights), truth


@pytest.mark.slow
def test_a_silent_summit_is_as_cold_as_its_height_says(rng):
    readings, places, truth = tables(rng, -0.0065)
    cleaned = nareg.clean(readings, places)
    assert np.abs(cleaned.x["S11"].to_numpy() - truth[-1]).mean() < 2.5
    low, high = cleaned.band()
    assert ((truth[-1] >= low[-1]) & (truth[-1] <= high[-1])).mean() > 0.5
    reasons = [text for name, text in cleaned.reasons if name == "covariates"]
    assert len(reasons) == 1
    assert reasons[0].startswith("means and cycles follow altitude, by -6.")
    flat = nareg.clean(readings, places[["latitude", "longitude"]])
    assert np.abs(flat.x["S11"].to_numpy() - truth[-1]).mean() > 8


@pytest.mark.slow
def test_where_the_altitude_does_not_help_the_reasons_say_so(rng):
    readings, places, _ = tables(rng, 0.0)
    cleaned = nareg.clean(readings, places)
    assert ("covariates", "altitude is not used: it does not help at stations that are left out") in cleaned.reasons
    plain = nareg.clean(readings, places[["latitude", "longitude"]])
    pd.testing.assert_frame_equal(cleaned.x, plain.x)


@pytest.mark.slow
def test_a_silent_station_has_the_models_estimate_where_another_method_wins(rng, monkeypatch):
    readings, places, truth = tables(rng, -0.0065)
    monkeypatch.setattr("nareg.cleaning._clean.choose", lambda *_: ("neighbors' median", "for a test"))
    cleaned = nareg.clean(readings, places)
    assert np.abs(cleaned.x["S11"].to_numpy() - truth[-1]).mean() < 2.5
    assert any(
        note == "1 station without a reading: by the space-time model, which follows altitude." for note in cleaned.notes
    )


@pytest.mark.slow
def test_columns_that_are_named_are_followed(rng):
    readings, places, truth = tables(rng, -0.0065)
    renamed = places.rename(columns={"elevation": "Relief"})
    cleaned = nareg.clean(readings, renamed, covariates="Relief")
    assert np.abs(cleaned.x["S11"].to_numpy() - truth[-1]).mean() < 2.5
    assert any("follow Relief" in text for _, text in cleaned.reasons)


def test_an_altitude_that_is_named_counts_once(rng):
    readings, places, _ = tables(rng, -0.0065)
    network = assemble(readings, places, recipe=Recipe(covariates="elevation"))
    assert list(network.covariates) == ["elevation"]
    both = assemble(readings, places.assign(coast=1.0 + np.arange(N)), recipe=Recipe(covariates="coast"))
    assert list(both.covariates) == ["coast", "altitude"]


def test_an_unknown_altitude_is_that_of_the_neighbors(rng):
    readings, places, _ = tables(rng, -0.0065)
    places.loc["S3", "elevation"] = np.nan
    network = assemble(readings, places, neighbors=3)
    near = network.graph.adjacency[[3]].toarray()[0]
    expected = near @ places["elevation"].fillna(0.0).to_numpy() / near.sum()
    assert network.covariates["altitude"][3] == pytest.approx(expected)
    assert "1 station without an altitude: that of the neighbors is taken." in network.notes


def test_wrong_names_and_empty_cells(rng):
    readings, places, _ = tables(rng, 0.0)
    coast = np.where(np.arange(N) == 4, np.nan, 1.0 + np.arange(N))
    graph = nareg.Graph.from_knn(places[["latitude", "longitude"]].to_numpy(), 3, names=list(places.index))
    for stations, names, message in (
        (places, "coast", "covariates is 'coast', but there is no such column: it has"),
        (places.assign(coast=coast), "coast", "covariate 'coast' has no value at station 'S4': fill it in"),
        (graph, "coast", "stations is a graph"),
        (nareg.io.stations_from_frame(places), "coast", "covariates names 'coast', which the stations do not have"),
        (None, "coast", "covariates are columns of a table of stations, but none was read: pass one"),
    ):
        with pytest.raises(InputError, match=message):
            nareg.clean(readings, stations, covariates=names)


@pytest.mark.slow
def test_in_a_large_network_the_altitude_is_followed_too(rng, monkeypatch):
    readings, places, truth = tables(rng, -0.0065)
    monkeypatch.setattr("nareg.spacetime._model.fit.LARGEST", N - 1)
    cleaned = nareg.clean(readings, places, dynamics="scalar")
    assert isinstance(cleaned.model, nareg.spacetime.SparseSpaceTimeModel)
    assert np.abs(cleaned.x["S11"].to_numpy() - truth[-1]).mean() < 2.5
    assert any(name == "covariates" and text.startswith("means and cycles follow altitude") for name, text in cleaned.reasons)


@pytest.mark.slow
def test_the_command_takes_covariates(rng, tmp_path):
    readings, places, _ = tables(rng, -0.0065)
    readings.to_csv(tmp_path / "readings.csv")
    places.rename(columns={"elevation": "Relief"}).to_csv(tmp_path / "stations.csv", index_label="station")
    files = [str(tmp_path / "stations.csv"), str(tmp_path / "readings.csv")]
    done = CliRunner().invoke(
        app, ["clean", *files, "--covariate", "Relief", "--dynamics", "scalar", "--out", str(tmp_path / "o")]
    )
    assert done.exit_code == 0
    assert "covariates: means and cycles follow Relief" in done.output.replace("\n", " ")
    assert nareg.spacetime.load(tmp_path / "o" / "model.npz").covariate_lines[0].startswith("means and cycles follow Relief")
