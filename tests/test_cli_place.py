"""``nareg place`` as a user runs it."""

from __future__ import annotations

import numpy as np
import pytest

import nareg
from tests.command_line import run
from tests.spacetime.reference import network


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    path = tmp_path_factory.mktemp("place") / "model.npz"
    model = network(n=9)
    model.readings[[4, 7]] = np.nan
    model.save(path)
    return path, model


def test_sites_are_ranked_and_written(saved, tmp_path):
    path, model = saved
    done = run("place", path, "--count", 2, "--unit", "°C", "--picture", "sites.png", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    ranking = nareg.spacetime.placement(model, count=2)
    assert f"expected root mean squared error today: {np.sqrt(ranking.mse):.4g} °C" in done.stdout
    assert done.stdout.splitlines()[-1] == "written: sites.csv, sites.png"
    after = 100 * (ranking.mse_after[-1] / ranking.mse - 1)
    names = ", ".join(ranking.names[i] for i in ranking.order)
    assert f"with {names}: mean squared error {after:+.2f} %" in done.stdout
    assert (tmp_path / "sites.csv").read_text().splitlines()[1].startswith(f"{ranking.best},")
    assert (tmp_path / "sites.png").read_bytes().startswith(b"\x89PNG")


def test_places_of_a_file_and_removal(saved, tmp_path):
    path, model = saved
    (tmp_path / "places.csv").write_text("station,x,y\nroof,1.5,1.5\nhill,3.0,0.5\n")
    done = run("place", path, "--sites", "places.csv", "--noise-std", 0.5, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    ranking = nareg.spacetime.placement(model, coordinates=[[1.5, 1.5], [3.0, 0.5]], names=["roof", "hill"], noise=0.25)
    lines = (tmp_path / "sites.csv").read_text().splitlines()
    assert [line.split(",")[0] for line in lines[1:]] == [ranking.names[i] for i in np.argsort(ranking.rank)]
    assert float(lines[1].split(",")[3]) == pytest.approx(ranking.reduction.max(), rel=1e-12)
    done = run("place", path, "--remove", "--out", "gone.csv", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert f"without {nareg.spacetime.removal(model).best}: mean squared error +" in done.stdout
    assert len((tmp_path / "gone.csv").read_text().splitlines()) == 8


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--remove", "--noise-std", 1.0], "omit --sites and --noise-std"),
        (["--noise-std", -1.0], "--noise-std is -1: it must be a finite number above 0"),
        (["--count", 5], "count is 5 but there are 2 sites"),
        (["--out", "sites.txt"], "the name must end in .csv"),
        (["--picture", "sites.jpg"], "--picture sites.jpg: the name must end in .png"),
        (["--sites", "globe.csv"], "has another kind of coordinates than the model: write columns x and y"),
    ],
)
def test_bad_options_are_one_sentence(saved, tmp_path, options, message):
    (tmp_path / "globe.csv").write_text("station,latitude,longitude\nroof,45.5,7.5\nhill,45.1,6.9\n")
    done = run("place", saved[0], *options, cwd=tmp_path)
    assert done.returncode == 2
    assert message in " ".join(done.stderr.split())
    assert not (tmp_path / "sites.csv").exists()


def test_a_file_that_is_no_model(tmp_path):
    (tmp_path / "model.npz").write_text("hello")
    done = run("place", tmp_path / "model.npz", cwd=tmp_path)
    assert done.returncode == 2
    assert "model.npz" in done.stderr


def test_sites_have_what_the_means_follow(tmp_path):
    network_ = nareg.datasets.simulated(16, 120, faults=(), rng=np.random.default_rng(1))
    coast = np.arange(16.0)
    readings = network_.readings + 3 * coast[:, None]
    model = nareg.spacetime.fit(
        network_.graph(), readings, times=network_.times, dynamics="scalar",
        covariates={"altitude": network_.altitude, "coast": coast},
    )  # fmt: skip
    assert set(model.cycles.follows) == {"altitude", "coast"}
    model.save(tmp_path / "model.npz")
    latitude, longitude = network_.coordinates[:2].mean(axis=0)
    (tmp_path / "places.csv").write_text(f"station,latitude,longitude,altitude,coast\nhill,{latitude},{longitude},900,4\n")
    (tmp_path / "flat.csv").write_text(f"station,latitude,longitude,coast\nhill,{latitude},{longitude},4\n")
    (tmp_path / "bare.csv").write_text(f"station,latitude,longitude,altitude\nhill,{latitude},{longitude},900\n")
    done = run("place", "model.npz", "--sites", "places.csv", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "sites.csv").read_text().splitlines()[1].startswith("hill,")
    for name, message in (
        ("flat.csv", "has not the altitude of every place"),
        ("bare.csv", "covariates is 'coast', but there is"),
    ):
        done = run("place", "model.npz", "--sites", name, cwd=tmp_path)
        assert done.returncode == 2
        assert message in " ".join(done.stderr.split())
