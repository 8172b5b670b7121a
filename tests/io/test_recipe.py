"""Recipes: columns by name, written and read back, and refused where they do not fit the table."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nareg import io
from nareg.errors import InputError
from nareg.io import Recipe

TEXT = "Meetpunt,Datum,Uur,Temp,Vocht\nA,2024-01-31,10:00,3.5,80\nB,2024-01-31,10:00,M,81\nA,2024-01-31,11:00,-99,82\n"
DUTCH = Recipe(station="Meetpunt", time=("Datum", "Uur"), value="Temp", missing=("M", "-99"))


def write(folder, name, text):
    (folder / name).write_text(text)
    return folder / name


NAMES = st.text(st.characters(exclude_categories=("Cs", "Cc")), min_size=1, max_size=12)


RECIPES = st.builds(
    Recipe, station=st.lists(NAMES, max_size=2), time=st.lists(NAMES, max_size=3), value=st.none() | NAMES,
    missing=st.lists(NAMES, max_size=3),
    quality=st.none() | st.fixed_dictionaries({"dismiss": st.lists(NAMES, max_size=2), "correct": st.booleans()}),
)  # fmt: skip


@given(RECIPES)
def test_what_is_written_is_read_back(tmp_path_factory, recipe):
    path = tmp_path_factory.mktemp("recipe") / "recipe.toml"
    recipe.save(path, {"value": "a remark"})
    assert Recipe.load(path) == recipe


def test_named_columns_are_taken_and_named_cells_are_missing(tmp_path):
    table = io.read_readings(write(tmp_path, "r.csv", TEXT), recipe=DUTCH)
    np.testing.assert_array_equal(table.values, [[3.5, np.nan], [np.nan, np.nan]])
    assert table.names == ("A", "B")
    assert table.quantity == "Temp"
    assert str(table.timestamps[1]) == "2024-01-31T11:00:00.000000000"
    assert not any("left out" in note for note in table.notes)  # the recipe names what is wanted


def test_a_frame_is_read_by_the_same_recipe(tmp_path):
    path = write(tmp_path, "r.csv", TEXT)
    table = io.readings_from_frame(pd.read_csv(path), recipe=DUTCH)
    np.testing.assert_array_equal(table.values, io.read_readings(path, recipe=DUTCH).values)


def test_the_order_of_dates_can_be_said(tmp_path):
    """A day of which nothing shows whether it is April 3 or March 4."""
    path = write(tmp_path, "r.csv", "time,A,B\n03/04/2024 10:00,1,2\n03/04/2024 11:00,3,4\n")
    guessed = io.read_readings(path)
    assert str(guessed.timestamps[0])[:10] == "2024-04-03"
    assert any("if that is wrong, pass --dates month-first" in note for note in guessed.notes)
    said = io.read_readings(path, recipe=Recipe(dates="month-first"), strict=True)
    assert str(said.timestamps[0])[:10] == "2024-03-04"
    assert not any("dates" in note for note in said.notes)
    assert io.inspect(path).recipe.dates == "day-first"  # so that tomorrow's file is read alike
    assert io.inspect(path, recipe=Recipe(dates="month-first")).recipe.dates == "month-first"
    with pytest.raises(InputError, match="line 3, column 'time': dates is 'month-first', but this is '31/04/2024 11:00'"):
        io.read_readings(
            write(tmp_path, "s.csv", path.read_text().replace("03/04/2024 11", "31/04/2024 11")),
            recipe=Recipe(dates="month-first"),
        )
    with pytest.raises(InputError, match="dates is 'us': pass 'day-first' or 'month-first'"):
        Recipe(dates="us")


def test_nothing_that_is_named_is_guessed(tmp_path):
    path = write(tmp_path, "r.csv", TEXT)
    assert io.read_readings(path, recipe=DUTCH, strict=True).values.shape == (2, 2)


def test_stations_by_named_columns(tmp_path):
    path = write(tmp_path, "s.csv", "naam,noord,oost,hoogte\nA,50.1,4.2,12\nB,50.3,4.1,80\n")
    recipe = Recipe(station=("Meetpunt", "naam"), latitude="noord", longitude="oost", altitude="hoogte")
    places = io.read_stations(path, recipe=recipe)
    np.testing.assert_array_equal(places.coordinates, [[50.1, 4.2], [50.3, 4.1]])
    np.testing.assert_array_equal(places.altitude, [12, 80])
    with pytest.raises(InputError, match="Name those of the positions: --latitude-column"):
        io.read_stations(path, recipe=Recipe(station="naam"))


@pytest.mark.parametrize(
    ("recipe", "words"),
    [
        (Recipe(station="Punt"), r"station is 'Punt', but there is no such column: it has 'Meetpunt', 'Datum'"),
        (Recipe(time="Tijd"), "time is 'Tijd', but there is no such column"),
        (Recipe(station="Meetpunt", value="Druk"), "value is 'Druk', but there is no such column"),
        (Recipe(station="Meetpunt", time=("Datum", "Uur")), r"not 2 \('Licht', 'Vocht'\): name the one to read by --value"),
    ],
)
def test_a_recipe_of_another_table_is_refused_with_the_columns_it_has(tmp_path, recipe, words):
    with pytest.raises(InputError, match=words):
        io.read_readings(write(tmp_path, "r.csv", TEXT.replace("Temp", "Licht").replace(",M,", ",,")), recipe=recipe)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("station = [", "is no recipe"),
        ("stations = 'A'", "'stations' is no entry of a recipe: it may have station, time"),
        ("value = 3", "value is 3: pass the name of a column"),
        ("zone = 'Europe/Brusels'", "zone is 'Europe/Brusels', which is not known: pass a name such as"),
        ("step = '10zz'", "step is '10zz': pass a time such as"),
        ("missing = [1, 2]", r"missing is \[1, 2\]: pass names in quotes"),
    ],
)
def test_what_is_no_recipe_is_refused(tmp_path, text, words):
    with pytest.raises(InputError, match=words):
        Recipe.load(write(tmp_path, "recipe.toml", text))
    with pytest.raises(InputError, match="cannot be read"):
        Recipe.load(tmp_path / "absent.toml")


def test_columns_that_are_asked_for_come_with_the_stations(tmp_path):
    path = tmp_path / "places.csv"
    path.write_text("id,lat,lon,height,coast,owner\nA,48.1,4.2,12,3.5,me\nB,48.2,4.3,80,,you\n")
    stations = io.read_stations(path, recipe=Recipe(covariates=("coast", "lat")))
    assert list(stations.covariates) == ["coast", "lat"]
    np.testing.assert_array_equal(stations.covariates["coast"], [3.5, np.nan])
    np.testing.assert_array_equal(stations.covariates["lat"], [48.1, 48.2])
    assert not any("'coast'" in note for note in stations.notes)
    assert not io.read_stations(path).covariates
    other = tmp_path / "more.csv"
    other.write_text("id,lat,lon,height,coast,owner\nC,48.3,4.4,12,7,me\n")
    both = io.read_stations([path, other], recipe=Recipe(covariates="coast"))
    np.testing.assert_array_equal(both.covariates["coast"], [3.5, np.nan, 7.0])
    with pytest.raises(InputError, match="covariates is 'sea', but there is no such column"):
        io.read_stations(path, recipe=Recipe(covariates="sea"))


def test_rules_of_the_checks_are_a_table_of_their_own(tmp_path):
    path = write(tmp_path, "recipe.toml", 'value = "Temp"\n\n[quality]\ndismiss = ["A: drift"]\ncorrect = true\n')
    recipe = Recipe.load(path)
    assert recipe == Recipe(value="Temp", quality={"dismiss": ["A: drift"], "correct": True})
    recipe.save(path)
    assert path.read_text().endswith('\n[quality]\ndismiss = ["A: drift"]\ncorrect = true\n')
    with pytest.raises(InputError, match=r"write a table \[quality\]"):
        Recipe.load(write(tmp_path, "wrong.toml", 'quality = "strict"\n'))


@pytest.mark.parametrize(
    "header",
    [
        "Station,Breedtegraad,Lengtegraad,Hoogte",
        "stazione,latitudine,longitudine,altitudine",
        "stasjon,breddegrad,lengdegrad,høyde",
    ],
)
def test_places_in_other_languages(tmp_path, header):
    (tmp_path / "places.csv").write_text(f"{header}\nA,52.1,9.1,10\nB,52.2,9.3,20\n", encoding="utf-8")
    places = io.read_stations(tmp_path / "places.csv")
    assert places.coordinates.tolist() == [[52.1, 9.1], [52.2, 9.3]]
    assert places.altitude.tolist() == [10, 20]


def test_a_column_of_the_table_of_stations_is_none_of_a_column_per_station(tmp_path):
    places, readings = tmp_path / "s.csv", tmp_path / "r.csv"
    places.write_text("Mast,Breite,Laenge\nA,52.1,9.1\nB,52.2,9.3\nC,52.3,9.2\n")
    readings.write_text("time,A,B,C\n" + "".join(f"2024-01-0{day},4.5,5.5,{day}\n" for day in range(1, 6)))
    seen = io.inspect(readings, places, recipe=Recipe(station=("Mast",)))
    assert seen.quantities["stations"].tolist() == [3]
    with pytest.raises(InputError, match="station is 'Mat', but there is no such column"):
        io.inspect(readings, places, recipe=Recipe(station=("Mat",)))


@pytest.mark.parametrize("kind", [{"Flow": "direction"}, ["flow = direction"], "direction", ["number", "flow: direction"]])
def test_a_kind_of_the_recipe_says_how_readings_of_one_time_are_averaged(tmp_path, kind):
    recipe = Recipe(value="flow", kind=kind)
    recipe.save(tmp_path / "r.toml")
    assert Recipe.load(tmp_path / "r.toml") == recipe
    (tmp_path / "a.csv").write_text("time,station,flow,x\n2024-01-01,A,350,1\n2024-01-01,A,20,1\n2024-01-02,A,7,1\n")
    (tmp_path / "b.csv").write_text("time,flow\n2024-01-01,350\n2024-01-01,20\n2024-01-02,7\n")
    for name in "ab":
        read = io.read_readings(tmp_path / f"{name}.csv", recipe=recipe)
        np.testing.assert_allclose(read.values, [[5, 7]])
        if name == "a":
            assert io.read_readings(tmp_path / "a.csv", recipe=Recipe(value="flow")).values[0, 0] == 185
    (tmp_path / "c.csv").write_text("time,station,flow\n2024-01-01,A,350\n2024-01-02,A,7\n2024-01-03,A,7\n")
    (tmp_path / "d.csv").write_text("time,station,flow\n2024-01-01,A,20\n")
    read = io.read_readings([tmp_path / "c.csv", tmp_path / "d.csv"], recipe=recipe)
    np.testing.assert_allclose(read.values, [[5, 7, 7]])


def test_a_kind_says_against_the_name_that_readings_are_numbers(tmp_path):
    (tmp_path / "a.csv").write_text("time,station,wind direction\n2024-01-01,A,350\n2024-01-01,A,20\n")
    for kind, mean in (((), 5), ("number", 185), ("wind direction: number", 185), ("rain: number", 5), ("auto", 5)):
        read = io.read_readings(tmp_path / "a.csv", recipe=Recipe(kind=kind))
        np.testing.assert_allclose(read.values, [[mean]])
    seen = io.inspect(tmp_path / "a.csv", recipe=Recipe(kind="number"))
    assert seen.quantities.loc["wind direction", ["kind", "shown_by"]].tolist() == ["number", "recipe"]


def test_a_kind_that_is_none_is_refused():
    with pytest.raises(InputError, match="kind is 'rain: positive': pass number, nonnegative, bounded, direction"):
        Recipe(kind="rain: positive")
