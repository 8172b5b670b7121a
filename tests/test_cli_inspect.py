"""``nareg inspect`` and the options for untidy tables of ``nareg clean``, as a user runs them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

import nareg
from nareg.cli import app
from nareg.io import Recipe


@pytest.fixture(autouse=True)
def in_a_folder_of_its_own(tmp_path, monkeypatch):
    """Where ``nareg inspect`` writes its recipe."""
    monkeypatch.chdir(tmp_path)


def run(*arguments: object):
    return CliRunner().invoke(app, [str(a) for a in arguments])


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """A network as a Dutch logger writes it: an index, date and clock apart, two quantities, a code of its own."""
    folder = tmp_path_factory.mktemp("untidy")
    network = nareg.datasets.simulated(5, 60, rng=np.random.default_rng(1))
    rows, number = [], 0
    for t in range(60):
        for name, value in zip(network.names, network.readings[:, t], strict=True):
            cell = "n.b." if np.isnan(value) else f"{value:.2f}"
            rows.append(f"{number},2024-01-{1 + t // 24:02},{t % 24:02}:00:00,{cell},{50 + t % 7},{name}")
            number += 1
    (folder / "data.csv").write_text("\n".join([",Datum,Tijd,Temperatuur,Vochtigheid,Meetpunt", *rows]))
    places = [
        f"{k},{name},plein {name},{a:.5f},{b:.5f}"
        for k, (name, (a, b)) in enumerate(zip(network.names, network.coordinates, strict=True))
    ]
    (folder / "meta.csv").write_text("\n".join([",Meetpunt,adres,lat,lon", *places]))
    return folder


@pytest.mark.slow
def test_it_says_what_is_understood_and_writes_a_recipe_that_clean_takes(files, tmp_path):
    recipe = tmp_path / "recipe.toml"
    seen = run(
        "inspect", files / "meta.csv", files / "data.csv", "--value", "Temperatuur", "--missing", "n.b.", "--out", recipe
    )
    assert seen.exit_code == 0, seen.output
    assert "places: 5 stations" in seen.output
    assert "a reading every hour (100 % of steps)" in seen.output
    assert Recipe.load(recipe) == Recipe(
        station="Meetpunt", time=("Datum", "Tijd"), value="Temperatuur", missing="n.b."
    )  # fmt: skip
    done = run("clean", files / "meta.csv", files / "data.csv", "--recipe", recipe, "--out", tmp_path / "clean")
    assert done.exit_code == 0, done.output
    cleaned = nareg.io.read_readings(tmp_path / "clean" / "clean.csv")
    assert cleaned.values.shape == (5, 60)
    assert np.isfinite(cleaned.values).all()


def test_several_quantities_and_no_choice_name_the_option(files):
    seen = run("inspect", files / "meta.csv", files / "data.csv", "--missing", "n.b.")
    assert "nareg clean cleans each; name some by --value, such as --value 'Temperatuur'" in seen.output
    columns = ("--missing", "n.b.", "--station-column", "Meetpunt", "--time-column", "Datum", "--time-column", "Tijd")
    refused = run("clean", files / "meta.csv", files / "data.csv", *columns, "--strict")
    assert refused.exit_code == 2
    assert "name the one to read by --value" in refused.output


def test_an_option_replaces_an_entry_of_the_recipe(files, tmp_path):
    Recipe(station="Meetpunt", value="Temperatuur", missing="n.b.").save(tmp_path / "r.toml")
    seen = run("inspect", files / "meta.csv", files / "data.csv", "--recipe", tmp_path / "r.toml", "--value", "Vochtigheid")
    assert "Vochtigheid" in seen.output
    assert "50" in seen.output


def test_a_recipe_loses_no_quantity_that_is_named(files, tmp_path):
    values = ("--value", "Temperatuur", "--value", "Vochtigheid")
    refused = run("inspect", files / "meta.csv", files / "data.csv", *values, "--out", tmp_path / "r.toml")
    assert refused.exit_code == 2
    assert "a recipe has one: omit it here" in refused.output
    assert not (tmp_path / "r.toml").exists()


def test_a_recipe_is_written_to_the_current_folder_and_over_no_other(files, tmp_path):
    tables = (files / "meta.csv", files / "data.csv", "--missing", "n.b.", "--value", "Temperatuur")
    assert "recipe, for nareg clean --recipe: recipe.toml" in run("inspect", *tables).output
    first = Recipe(station="Meetpunt", time=("Datum", "Tijd"), value="Temperatuur", missing="n.b.")
    assert Recipe.load("recipe.toml") == first
    with open("recipe.toml", "a") as handle:
        handle.write("# mine\n")
    again = run("inspect", *tables)
    assert "recipe, for nareg clean --recipe: recipe.toml" in again.output
    other = run("inspect", *tables[:-1], "Vochtigheid")
    assert other.exit_code == 0
    assert "The recipe is not written (recipe.toml says something else): name another file by --out." in other.output
    assert Recipe.load("recipe.toml") == first
    assert "# mine" in Path("recipe.toml").read_text()


def test_a_recipe_in_a_folder_of_readings_is_no_table(tmp_path):
    Path("readings.csv").write_text("time,A,B\n2024-01-01,1,2\n2024-01-02,2,3\n2024-01-03,2,4\n")
    assert run("inspect", ".").exit_code == 0
    again = run("inspect", ".")
    assert again.exit_code == 0
    assert "note: recipe.toml is a recipe or settings, not a table, and is left out." in again.output


def test_the_table_of_quantities_says_kinds_and_what_shows_them(tmp_path):
    rows = [f"2024-01-01 {t:02}:00,A,{t},{50 + t},{(350 + 7 * t) % 360},{t % 5},{t - 9}" for t in range(24)]
    header = "time,station,temperature,humidity (%),wind direction,x1 (mm),y1"
    Path("readings.csv").write_text("\n".join([header, *rows]))
    seen = nareg.io.inspect("readings.csv").quantities
    assert list(zip(seen["kind"], seen["shown_by"], strict=True)) == [
        ("number", "name"), ("bounded", "name"), ("direction", "name"), ("nonnegative", "unit"), ("number", "values"),
    ]  # fmt: skip
    assert "kind" in run("inspect", "readings.csv").output  # a narrow terminal folds the cells below


def test_a_recipe_is_not_written_over_a_table(files):
    refused = run("inspect", files / "meta.csv", files / "data.csv", "--out", files / "data.csv")
    assert refused.exit_code == 2
    assert "data.csv" in refused.output


@pytest.mark.slow
def test_a_folder_of_files_per_station(files, tmp_path):
    table = nareg.io.read_readings(files / "data.csv", recipe=Recipe(station="Meetpunt", value="Temperatuur", missing="n.b."))
    (tmp_path / "parts").mkdir()
    for name, row in zip(table.names, table.values, strict=True):
        lines = [f"{time},{'' if np.isnan(v) else v},1" for time, v in zip(table.times, row, strict=True)]
        (tmp_path / "parts" / f"logger {name}.csv").write_text("\n".join(["time,temp,volt", *lines]))
    done = run("clean", files / "meta.csv", tmp_path / "parts", "--value", "temp", "--out", tmp_path / "clean")
    assert done.exit_code == 0, done.output
    assert nareg.io.read_readings(tmp_path / "clean" / "clean.csv").values.shape == (5, 60)
    (tmp_path / "none").mkdir()
    assert "is an empty folder" in run("clean", files / "meta.csv", tmp_path / "none").output


@pytest.mark.slow
def test_two_quantities_are_cleaned_into_two_folders_and_one_that_fails_stops_no_other(files, tmp_path):
    tables = (files / "meta.csv", files / "data.csv", "--missing", "n.b.", "--effort", "fast", "--out", tmp_path / "c")
    done = run("clean", *tables, "--value", "Windrichting", "--value", "Temperatuur", "--value", "Vochtigheid")
    assert done.exit_code == 2
    assert "value is 'Windrichting', but there is no such column" in done.output
    for name in ("Temperatuur", "Vochtigheid"):
        assert np.isfinite(nareg.io.read_readings(tmp_path / "c" / name / "clean.csv").values).all()
        whole = nareg.io.read_readings(tmp_path / "c" / "clean.csv", recipe=Recipe(value=f"{name} estimate"))
        own = nareg.io.read_readings(tmp_path / "c" / name / "clean.csv", whole.names)
        np.testing.assert_array_equal(whole.values, own.values)
    every = run("clean", *tables[:-1], tmp_path / "all")
    assert every.exit_code == 0, every.output
    assert "2 quantities: each is cleaned" in every.output
    assert {path.name for path in (tmp_path / "all").iterdir()} == {"Temperatuur", "Vochtigheid", "clean.csv", "report.html"}
    refused = run("clean", *tables, "--value", "Temperatuur", "--value", "Temperatuur")
    assert "names a quantity twice" in refused.output


@pytest.mark.parametrize("entry", ['dismis = ["x"]', 'checks = ["spike"]', 'correct = "yes"'])
@pytest.mark.parametrize("command", ["inspect", "design"])
def test_rules_of_a_recipe_that_cannot_be_are_refused_by_every_command(files, tmp_path, command, entry):
    (tmp_path / "r.toml").write_text(f"[quality]\n{entry}\n")
    done = run(command, files / "meta.csv", files / "data.csv", "--recipe", tmp_path / "r.toml", "--out", tmp_path / "x.npz")
    assert done.exit_code == 2 or "quality" in str(done.exception)
    assert not (tmp_path / "x.npz").exists()


def test_the_two_tables_may_come_in_either_order(files, tmp_path):
    """They were refused: exchange the two tables."""
    orders = [(files / "meta.csv", files / "data.csv"), (files / "data.csv", files / "meta.csv")]
    options = ("--value", "Temperatuur", "--missing", "n.b.", "--out", tmp_path / "r.toml")
    right, exchanged = (run("inspect", *both, *options) for both in orders)
    assert exchanged.exit_code == 0, exchanged.output
    assert f"{files / 'meta.csv'} has the places and no times: it is taken as the table of stations." in exchanged.stderr
    assert "places: 5 stations" in exchanged.stdout
    assert right.stdout.splitlines()[:3] == exchanged.stdout.splitlines()[:3]
