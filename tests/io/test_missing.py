"""Missing readings: words, sentinels, infinite values, stations that never read."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nareg import io
from nareg.errors import InputError

WORDS = ["", "NA", "N/A", "#N/A", "null", "None", "NaN", "nan", "-", "missing", " na ", "#DIV/0!", "--"]


def read(tmp_path, text, *arguments, **options):
    path = tmp_path / "r.csv"
    path.write_text(text, encoding="utf-8")
    return io.read_readings(path, *arguments, **options)


def frame(values):
    values = np.asarray(values, dtype=float)
    names = [f"s{i}" for i in range(values.shape[1])]
    return pd.DataFrame(values, index=pd.date_range("2024-01-01", periods=len(values)), columns=names)


@pytest.mark.parametrize("word", WORDS)
@pytest.mark.parametrize("quote", ["", '"'])
def test_words_for_missing(tmp_path, word, quote):
    table = read(tmp_path, f"time,A,B\n2024-01-01,{quote}{word}{quote},1\n", strict=True)
    np.testing.assert_array_equal(table.values, [[np.nan], [1]])
    cells = pd.DataFrame({"A": [word], "B": ["1"]}, index=pd.date_range("2024-01-01", periods=1))
    np.testing.assert_array_equal(io.readings_from_frame(cells, strict=True).values, [[np.nan], [1]])


@pytest.mark.parametrize("empty", [None, np.nan, pd.NA, pd.NaT])
def test_missing_objects_of_frames(empty):
    cells = pd.DataFrame({"A": [empty, 2], "B": [1.0, 3.0]}, index=pd.date_range("2024-01-01", periods=2), dtype=object)
    np.testing.assert_array_equal(io.readings_from_frame(cells, strict=True).values, [[np.nan, 2], [1, 3]])


@pytest.mark.parametrize("code", [-9999, -999, -99.9, 9999, 999.9, -32768])
def test_sentinels_are_named_and_counted(rng, code):
    values = rng.normal(12, 8, (40, 5))
    holes = rng.random(values.shape) < 0.1
    table = io.readings_from_frame(frame(np.where(holes, code, values)))
    np.testing.assert_array_equal(table.values, np.where(holes, np.nan, values).T)
    assert f"{code:g} appears in {holes.sum()} cells, far outside the other readings, and is taken as missing" in table.notes[0]
    with pytest.raises(InputError, match=f"{code:g} appears in .*; leave these cells empty"):
        io.readings_from_frame(frame(np.where(holes, code, values)), strict=True)


@pytest.mark.parametrize(
    "values",
    [
        [*np.linspace(950, 1050, 101).tolist(), 999.0, 999.0, 999.9, 999.9],  # pressure
        np.linspace(-1000, 1000, 41).tolist() + [-999.0] * 3,
        [*np.geomspace(1, 20_000, 60).tolist(), 9999.0, 9999.0],  # discharge
        [*np.linspace(0, 30, 50).tolist(), 999.9],  # once: a spike
        [*np.linspace(0, 30, 50).tolist(), 999.0, 999.0, 950.0, 970.0],  # in company
    ],
)
def test_readings_that_look_like_sentinels_stay(values):
    table = io.readings_from_frame(frame(np.array(values)[:, None]), strict=True)
    np.testing.assert_array_equal(table.values[0], values)


def test_one_unmistakable_sentinel_beside_a_spike():
    values = [*np.linspace(-5, 30, 80), -9999.0]
    assert np.isnan(io.readings_from_frame(frame(np.array(values)[:, None])).values).sum() == 1
    values = [*np.linspace(-5, 30, 80), -60.0, *[-999.0] * 12]
    assert np.isnan(io.readings_from_frame(frame(np.array(values)[:, None])).values).sum() == 12


def test_two_codes_and_nothing_else(tmp_path):
    values = [*np.linspace(0, 30, 50), -999.0, -999.0, -9999.0, -9999.0]
    table = io.readings_from_frame(frame(np.array(values)[:, None]))
    assert len(table.notes) == 2
    assert np.isnan(table.values).sum() == 4
    table = io.readings_from_frame(frame(np.full((3, 2), -9999.0)))
    assert np.isnan(table.values).all()
    assert "2 stations have no reading: 's0', 's1'" in table.notes[1]


def test_a_sentinel_is_not_averaged_with_a_reading(tmp_path):
    rows = "".join(f"2024-01-01,A,{v}\n2024-01-02,A,{v}\n" for v in (1, 3, -9999, -9999))
    np.testing.assert_array_equal(read(tmp_path, "time,station,value\n" + rows).values, [[2, 2]])


@pytest.mark.parametrize("cell", ["inf", "-inf", "Infinity", "1e400"])
def test_infinite_readings_are_missing_or_refused(tmp_path, cell):
    text = f"time,A,B\n2024-01-01,1,2\n2024-01-02,{cell},{cell}\n"
    table = read(tmp_path, text)
    np.testing.assert_array_equal(table.values, [[1, np.nan], [2, np.nan]])
    assert "2 readings are infinite and taken as missing" in table.notes[0]
    with pytest.raises(InputError, match=f"line 3, column 'A': '{cell}' is infinite"):
        read(tmp_path, text, strict=True)
    cells = frame([[1, 2], [np.inf, np.inf]])
    np.testing.assert_array_equal(io.readings_from_frame(cells).values, table.values)
    with pytest.raises(InputError, match="row 1, column 's0': the value is infinite: write NaN"):
        io.readings_from_frame(cells, strict=True)


def test_a_silent_station_stays_and_is_named(tmp_path):
    table = read(tmp_path, "time,A,B\n2024-01-01,1,\n2024-01-02,2,\n", ["A", "B"], strict=True)
    assert table.names == ("A", "B")
    assert "1 station has no reading: 'B'" in table.notes[0]


@pytest.mark.slow
@given(st.lists(st.floats(-50, 50), min_size=5, max_size=40), st.sampled_from([-9999.0, -999.0, 9999.0]), st.integers(2, 5))
@settings(max_examples=60)
def test_only_the_sentinel_becomes_missing(values, code, times):
    column = np.array([*values, *[code] * times])[:, None]
    table = io.readings_from_frame(frame(column))
    np.testing.assert_array_equal(table.values[0], [*values, *[np.nan] * times])


@pytest.mark.parametrize("code", [99.9, 77.7, -88.8, 55.5, 6999, -1e6, 85.0])
@pytest.mark.parametrize("shape", ["wide", "long", "frame"])
def test_any_number_that_repeats_far_from_all_others_is_missing(tmp_path, rng, code, shape):
    values = (10 + 4 * rng.standard_normal((300, 6))).round(1)
    marked = rng.random(values.shape) < 0.02
    values[marked] = code
    frame = pd.DataFrame(values, index=pd.date_range("2024-01-01", periods=300, freq="h", name="time"), columns=list("ABCDEF"))
    long = frame.reset_index().melt("time", var_name="station", value_name="value")
    (long if shape == "long" else frame).to_csv(tmp_path / "r.csv", index=shape == "wide")
    table = (
        io.readings_from_frame(frame) if shape == "frame" else io.read_readings(tmp_path / "r.csv") if shape == "long" else None
    )
    table = table or io.read_readings(tmp_path / "r.csv")
    np.testing.assert_array_equal(np.isnan(table.values), marked.T)
    (note,) = table.notes
    assert f"{code:g} appears in {marked.sum()} cells, far outside the other readings, and is taken as missing" in note
    with pytest.raises(InputError, match="leave these cells empty"):
        io.readings_from_frame(frame, strict=True)


def test_two_codes_that_are_no_convention(rng):
    values = rng.normal(10, 3, (300, 4)).round(1)
    values[rng.random(values.shape) < 0.03] = 77.7
    values[rng.random(values.shape) < 0.03] = -66.6
    assert np.isfinite(values).all()
    read = io.readings_from_frame(pd.DataFrame(values, columns=list("ABCD"), index=pd.RangeIndex(300, name="time"))).values
    np.testing.assert_array_equal(np.isnan(read.T), np.isin(values, (77.7, -66.6)))


def rain(rng):
    """Tips of a gauge: mostly 0, then 0.2, and rarely more."""
    return np.where(rng.random((400, 6)) < 0.9, 0.0, 0.2 * rng.geometric(0.3, (400, 6)))


def counts(rng):
    return rng.poisson(0.05, (400, 6)) * 1.0


def saturated(rng):
    """A sensor that ends at 1000, among readings that spread over decades."""
    return np.clip(np.exp(rng.normal(3, 2.5, (400, 6))), 0, 1000).round()


def humid(rng):
    return np.clip(93 + 5 * rng.standard_normal((400, 6)), 0, 100).round()


def frozen(rng):
    """One station that stands still far from the others: a fault, which is found as one."""
    values = rng.normal(10, 2, (400, 6)).round(1)
    values[200:, 3] = 55.5
    return values


def pressure(rng):
    """One station that always reads another quantity."""
    values = rng.normal(10, 2, (400, 6)).round(1)
    values[:, 3] = 1013.0
    return values


def pump(rng):
    return np.where(rng.random((400, 6)) < 0.6, 0.0, rng.normal(480, 5, (400, 6)).round(1))


@pytest.mark.parametrize("kind", [rain, counts, saturated, humid, frozen, pressure, pump])
def test_readings_that_repeat_for_other_reasons_stay(rng, kind):
    values = kind(rng)
    table = io.readings_from_frame(pd.DataFrame(values, columns=list("ABCDEF"), index=pd.RangeIndex(len(values), name="time")))
    np.testing.assert_array_equal(table.values.T, values)
