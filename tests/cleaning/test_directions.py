"""Directions are recognized, and what only lies between 0 and 360 is not; they are cleaned around the circle."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from scipy.signal import lfilter

import nareg
from nareg.cleaning import assemble, directions, number
from nareg.errors import InputError

T = 400


def recognized(network) -> bool:
    return directions(network, "auto", None)


def network(values: np.ndarray, tmp_path=None, name: str = "readings", **columns):
    """Assemble readings (T, N) of stations at random places, from a file of this name where there is a folder."""
    rng = np.random.default_rng(1)
    names = [f"S{i}" for i in range(values.shape[1])]
    places = pd.DataFrame(rng.uniform(47, 48, (len(names), 2)), index=names, columns=["latitude", "longitude"])
    index = pd.date_range("2024-03-05", periods=len(values), freq="h", name="time")
    frame = pd.DataFrame(values, index=index, columns=names)
    if tmp_path is None:
        return assemble(frame, places)
    frame.to_csv(tmp_path / f"{name}.csv")
    return assemble(tmp_path / f"{name}.csv", places)


def wind(rng, mean: float = 0.0, spread: float = 60.0, step: float = 5.0) -> np.ndarray:
    """Directions (T, 6) that wander around a mean, in steps as vanes have them."""
    common = spread * np.sin(np.arange(T) / 30)[:, None] + mean
    return np.round((common + 12 * rng.standard_normal((T, 6))) / step) * step % 360


@pytest.mark.parametrize("step", [1.0, 5.0, 10.0, 0.1])
@pytest.mark.parametrize("mean", [0.0, 40.0, 330.0])
def test_readings_that_cross_north_are_directions(rng, mean, step):
    values = wind(rng, mean, 110.0, step)
    values[rng.random(values.shape) < 0.1] = np.nan
    assert recognized(network(values))


def test_directions_from_minus_180_to_180(rng):
    assert recognized(network((wind(rng, 180.0, 110.0, 1.0) + 180) % 360 - 180))


@pytest.mark.parametrize("name", ["wind_direction", "WindDir", "wdir_10m", "Windrichtung", "WD"])
def test_a_name_tells_directions_that_are_too_few_or_too_wild_to_tell(tmp_path, rng, name):
    values = rng.uniform(0, 360, (T, 6)).round()
    assert not recognized(network(values))
    assert recognized(network(values, tmp_path, name))
    assert not recognized(network(100 + values / 4, tmp_path, name))  # their mean is right where none points north


@pytest.mark.parametrize(("column", "unit"), [("value", "deg"), ("value", "degrees"), ("wind_dir", None)])
def test_a_column_or_a_unit_tells_directions(rng, column, unit):
    values = rng.uniform(0, 360, (20, 3)).round()
    rows = [(t, f"S{i}", values[t, i]) for t in range(20) for i in range(3)]
    long = pd.DataFrame(rows, columns=["time", "station", column])
    long["time"] = pd.Timestamp("2024-01-01") + pd.to_timedelta(long["time"], "h")
    places = pd.DataFrame({"x": [0, 1, 2], "y": [0, 1, 1]}, index=["S0", "S1", "S2"])
    if unit is not None:
        long["unit"] = unit
    assert recognized(assemble(long, places))
    long["unit"] = "W"
    assert not recognized(assemble(long, places))


def tilt(rng):
    return rng.normal(3, 1, (T, 6))


def humidity(rng):
    return np.clip(90 + 15 * rng.standard_normal((T, 6)).cumsum(axis=0) % 40, 0, 100)


def power(rng):
    """Solar power up to 360 W under clouds that come and go."""
    sun = np.clip(np.sin((np.arange(T) % 24 - 6) / 12 * np.pi), 0, None)[:, None]
    return 360 * sun * np.where(rng.random((T, 6)) < 0.4, rng.uniform(0.05, 0.4, (T, 6)), 1.0)


def machine(rng):
    """On and off, at about 355 W and 0."""
    return np.where(rng.random((T, 6)) < 0.3, 355 + 4 * rng.standard_normal((T, 6)), 0.0).clip(0, 360)


def counter(rng):
    return (np.arange(T)[:, None] * 7.3 + rng.uniform(0, 50, 6)) % 300


def flow(rng):
    return np.exp(rng.normal(3, 1.5, (T, 6))).clip(0, 360)


@pytest.mark.parametrize("quantity", [tilt, humidity, power, machine, counter, flow])
def test_what_only_lies_between_0_and_360_is_no_direction(rng, quantity):
    values = quantity(rng)
    assert not recognized(network(values))
    values[0, 0], values[1, 0] = 0.0, 360.0
    assert not recognized(network(values))


def turn(to: np.ndarray, from_: np.ndarray) -> np.ndarray:
    return (to - from_ + 180) % 360 - 180


def rms(errors: np.ndarray) -> float:
    return float(np.sqrt(np.nanmean(errors**2)))


@pytest.fixture(scope="module")
def vanes() -> tuple[pd.DataFrame, pd.DataFrame, np.ndarray]:
    """Readings, places and truth (T, N) of a wind that turns around the compass several times, read to 20 degrees."""
    rng = np.random.default_rng(3)
    n = 8
    names = [f"S{i}" for i in range(n)]
    places = pd.DataFrame(np.column_stack([47 + 2 * rng.random(n), 2 + 3 * rng.random(n)]), names, ["latitude", "longitude"])
    common = np.cumsum(8 * rng.standard_normal(T))[:, None]
    own = np.cumsum(1.5 * rng.standard_normal((T, n)), axis=0) + 20 * (places["latitude"].to_numpy() - 48)
    truth = (common + own) % 360
    values = np.round(truth + 20 * rng.standard_normal((T, n))) % 360
    values[rng.random(values.shape) < 0.1] = np.nan
    return pd.DataFrame(values, pd.date_range("2024-01-01", periods=T, freq="h", name="time"), names), places, truth


@pytest.fixture(scope="module")
def cleaned(vanes) -> nareg.cleaning.Cleaned:
    return nareg.clean(*vanes[:2])


@pytest.mark.slow
def test_directions_are_cleaned_around_the_circle(vanes, cleaned):
    readings, places, truth = vanes
    error = rms(turn(cleaned.x.to_numpy(), truth))
    assert error < 0.5 * rms(turn(readings.to_numpy(), truth))
    assert cleaned.x.to_numpy().min() >= 0
    assert cleaned.x.to_numpy().max() <= 360
    # vector averages of the neighbors are among the methods
    assert cleaned.method == cleaned.errors.index[0] == "space-time model"
    assert {"one weight", "neighbors' median", "kriging"} <= set(cleaned.errors.index[1:])
    assert (cleaned.kind, cleaned.unit) == ("direction", "degrees")
    assert any("kind='number'" in note for note in cleaned.notes)
    assert not cleaned.suspects
    assert rms(turn(nareg.clean(readings, places, kind="number").x.to_numpy(), truth)) > 3 * error


def test_the_picture_has_the_whole_circle_and_no_line_across_it(cleaned):
    for axes in cleaned.figures()["series"].axes:
        assert axes.get_ylim() == (-10, 370)
        assert "outside" not in axes.get_title(loc="right")
        line = next(line for line in axes.get_lines() if line.get_label() == "cleaned")
        assert np.nanmax(np.abs(np.diff(line.get_ydata()))) <= 180


def test_bands_around_the_circle_hold_the_truth(vanes, cleaned):
    low, high = cleaned.band(0.9)
    inside = np.abs(turn(cleaned.x.to_numpy(), vanes[2])) <= (high - low).T / 2
    assert 0.85 < inside.mean() < 0.95
    assert cleaned.coverage["observed"].iloc[2] == pytest.approx(0.9, abs=0.06)


@pytest.mark.slow
def test_signed_directions_stay_signed(vanes, cleaned):
    readings, places, _ = vanes
    signed = nareg.clean(turn(readings, 0.0), places)
    assert signed.x.to_numpy().min() < 0
    np.testing.assert_allclose(turn(signed.x.to_numpy(), cleaned.x.to_numpy()), 0.0, atol=1e-6)


@pytest.mark.slow
def test_the_speed_of_the_wind_weighs_its_directions(vanes, rng):
    """Of a vector that wanders, with gusts on it, the direction means little where the vector is short."""
    places = vanes[1]
    parts = []
    for _ in range(2):
        common, own = (lfilter([1.0], [1.0, -0.97], rng.standard_normal((T, n)), axis=0) for n in (1, len(places)))
        parts.append(common + 0.3 * own)
    gusts = [part + 1.5 * rng.standard_normal(part.shape) for part in parts]
    truth, told = (np.rad2deg(np.arctan2(*part)) % 360 for part in (parts, gusts))
    speeds = pd.DataFrame(np.hypot(*gusts), vanes[0].index, places.index)
    readings = speeds * 0 + told
    with_speed = nareg.clean(readings, places, kind=nareg.cleaning.Wind(speeds))
    without = nareg.clean(readings, places, kind="direction")
    blows = np.hypot(*parts) > 2
    errors = [turn(cleaned.x.to_numpy(), truth)[blows] for cleaned in (with_speed, without)]
    assert rms(errors[0]) < 0.95 * rms(errors[1])
    assert ("kind", "directions, cleaned as vectors as long as the speed") in with_speed.reasons


@pytest.mark.parametrize(
    ("change", "message"),
    [(lambda s: s - 100, "speed of -"), (lambda s: s * np.nan, "no speed where"), (lambda s: s * 0, "most are 0")],
)
def test_speeds_that_no_wind_has(vanes, change, message):
    readings, places, _ = vanes
    with pytest.raises(InputError, match=message):
        nareg.clean(readings, places, kind=nareg.cleaning.Wind(change(readings * 0 + 3.0)))


def test_a_kind_that_the_readings_cannot_be(vanes):
    readings, places, _ = vanes
    with pytest.raises(InputError, match=r"readings lie from .* convert them to degrees"):
        nareg.clean(readings * 2, places, kind="direction")
    with pytest.raises(InputError, match="kind"):
        nareg.clean(readings, places, kind="wind")


@pytest.mark.slow
def test_that_directions_are_not_corrected_is_said_once(vanes):
    notes = nareg.clean(vanes[0][:80], vanes[1], kind="direction", quality={"correct": True}).notes
    assert [note for note in notes if "orrected" in note] == ["Directions are not corrected."]


def test_the_explorer_refuses_directions(vanes):
    with pytest.raises(InputError, match="directions, which the page cannot show"):
        nareg.explore(*vanes[:2])


def test_the_headline_has_the_error_of_the_method_in_use(cleaned):
    for name, error in cleaned.errors["rmse"].items():
        assert f"predicted to ±{number(error)} degrees" in replace(cleaned, method=name).headline()


def test_kinds_by_the_names_of_quantities():
    rng = np.random.default_rng(5)
    rows = [
        {"time": pd.Timestamp("2024") + pd.Timedelta(hours=t), "station": s, "flow": abs(rng.normal())}
        for t in range(40) for s in "ABC"
    ]  # fmt: skip
    table = pd.DataFrame(rows)
    own = nareg.clean(table, kind={"flow": "nonnegative", "rain": "direction"}, effort="fast")
    assert own.bounds.low == 0
    assert own.kind == "number"
    assert "kind has 'rain: direction', but the quantity is 'flow': it is not used." in own.notes
    assert nareg.clean(table, kind={"flow": "direction"}, effort="fast").kind == "direction"
    both = nareg.clean(table, kind="bounded", bounds=(None, 50), effort="fast")
    assert (both.bounds.low, both.bounds.high) == (0, 50)
    assert nareg.clean(table, effort="fast").bounds.low == -np.inf


def test_directions_in_tens_of_degrees_are_refused(rng, tmp_path):
    """They were numbers from 0 to 36, whose mean across north points to the south."""
    tens = np.round(wind(rng) / 10) % 37
    tens[5, 2] = 99  # variable
    for how in ({"kind": "direction"}, {"kind": nareg.cleaning.Wind(pd.DataFrame(tens * 0 + 3))}):
        with pytest.raises(InputError, match="lie from 0 to 36, as those in tens of degrees do: multiply them by 10"):
            nareg.cleaning.run(network(tens), nareg.cleaning.CleanSettings(effort="fast", **how))
    with pytest.raises(InputError, match="tens of degrees"):
        nareg.cleaning.run(network(tens, tmp_path, "wind_direction"), nareg.cleaning.CleanSettings(effort="fast"))
    seen = nareg.io.inspect(tmp_path / "wind_direction.csv")
    assert [note.startswith("wind_direction: The directions lie from 0 to 36") for note in seen.notes if "tens" in note] == [
        True
    ]
    (tmp_path / "canada.csv").write_text(
        "time,Wind Dir (10s deg)\n" + "".join(f"2024-01-01 0{h}:00,{h + 1}\n" for h in range(9))
    )
    assert any("are in tens of degrees (10s deg): multiply" in note for note in nareg.io.inspect(tmp_path / "canada.csv").notes)
    number_of = nareg.cleaning.CleanSettings(effort="fast", kind="number")
    assert not any("tens" in note for note in nareg.cleaning.run(network(tens), number_of).notes)
    for values, name in (
        (tens * 10, "wind_direction"),
        (np.round(36 * rng.random(tens.shape), 1), "wind_direction"),
        (tens, "x"),
        (tens, "wind_direction_std"),
        (tens, "WDIR_SD"),
    ):
        seen = nareg.io.inspect(network_file(values, tmp_path, name))
        assert not any("tens" in note for note in seen.notes)


def network_file(values: np.ndarray, tmp_path, name: str):
    network(values, tmp_path, name)
    return tmp_path / f"{name}.csv"
