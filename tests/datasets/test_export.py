"""Any sensor network as two tables, which read back to the precision of their source."""

from __future__ import annotations

import numpy as np
import pytest
from typer.testing import CliRunner

import nareg
from nareg import io
from nareg.cli import app


@pytest.mark.parametrize("out", [None, "elsewhere"])
@pytest.mark.slow
def test_exported_tables_read_back(out, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    done = CliRunner().invoke(app, ["datasets", "export", "us-weather", *(() if out is None else ("--out", out))])
    assert done.exit_code == 0, done.output
    folder = tmp_path / (out or "us-weather")
    network = nareg.datasets.load("us-weather")
    readings = io.read_readings(folder / "readings.csv")
    assert readings.names == network.names
    np.testing.assert_array_equal(readings.values.astype(np.float32), network.signals.astype(np.float32))  # as published
    np.testing.assert_array_equal(readings.timestamps, network.times.astype("datetime64[D]"))
    stations = io.read_stations(folder / "stations.csv")
    np.testing.assert_array_equal(stations.coordinates, network.coordinates)


@pytest.mark.skipif(
    not nareg.datasets.available("cora"), reason="NAREG_DATA does not name a folder with the prepared data sets"
)
def test_a_graph_for_node_classification_is_refused(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    done = CliRunner().invoke(app, ["datasets", "export", "cora"])
    assert done.exit_code != 0
    assert "not a sensor network" in str(done.exception) + done.output
    assert not list(tmp_path.iterdir())


def test_digits_are_the_fewest_that_give_the_value_back():
    from nareg.datasets.network import shortest

    for value, text in ((float(np.float32(12.3)), "12.3"), (0.1, "0.1"), (1 / 3, repr(1 / 3)), (-5.0, "-5.0")):
        assert shortest(value) == text
        assert float(text) == pytest.approx(value, rel=1e-6)
