"""nareg.clean: what it returns for a network, and for what nobody should send."""

from __future__ import annotations

import ctypes
import pickle
import re
import signal
from dataclasses import replace
from functools import partial

import numpy as np
import pandas as pd
import pytest
from matplotlib.figure import Figure
from scipy.signal import lfilter
from scipy.stats import norm

import nareg
from nareg.cleaning import _pictures
from nareg.errors import InputError
from tests.cleaning.conftest import frames
from tests.helpers import at_night


def rms(values: np.ndarray) -> float:
    return float(np.sqrt(np.mean(values**2)))


def test_estimate_is_closer_to_the_truth_than_readings_and_fills_gaps(network, cleaned):
    error = cleaned.x.to_numpy().T - network.truth
    at = network.healthy[:, None] & network.observed
    assert cleaned.method == "space-time model"
    assert rms(error[at]) < 0.5 * rms((network.readings - network.truth)[at])
    assert np.isfinite(cleaned.x.to_numpy()).all()
    assert rms(error[network.healthy[:, None] & ~network.observed]) < network.noise


def test_results_are_shown_in_a_line(cleaned):
    assert repr(cleaned) == f"Cleaned(10 stations, 160 times, space-time model: {cleaned.headline()})"
    assert repr(cleaned.model) == f"SpaceTimeModel(10 stations, 160 times, {cleaned.model.details.chosen})"
    shown = repr(cleaned.model.smooth())
    assert shown.startswith("Smoothed(x=<10 x 160 float64>, std=<10 x 160 float64>, status=Status.")
    assert len(shown) < 200


def test_frames_have_the_shape_and_the_labels_of_the_readings(network, cleaned):
    readings, _ = frames(network)
    for frame in (cleaned.x, cleaned.std, cleaned.flags):
        pd.testing.assert_index_equal(frame.index.as_unit("ns"), readings.index.as_unit("ns"), check_names=True)
        assert list(frame.columns) == list(readings.columns)
    assert (cleaned.std.to_numpy() > 0).all()
    assert set(np.unique(cleaned.flags)) <= {1, 3, 4, 9}
    assert ((cleaned.flags.to_numpy() == 9) == readings.isna().to_numpy()).all()


def test_standard_deviations_agree_with_the_true_errors(network, cleaned):
    error = (cleaned.x.to_numpy().T - network.truth)[network.healthy]
    std = cleaned.std.to_numpy().T[network.healthy]
    assert 0.6 < rms(error) / rms(std) < 1.5
    assert cleaned.clean_error == pytest.approx(rms(error), rel=0.5)
    assert cleaned.reading_error == pytest.approx(network.noise, rel=0.25)


def test_standard_deviations_are_those_of_the_band(cleaned):
    """Tables had another width than the band: the root mean square of all errors at hidden readings."""
    low, high = cleaned.band(0.9)
    own = ~cleaned.replaced & (cleaned.drift == 0)
    assert own.any()
    np.testing.assert_allclose(((high - low) / 2)[own], norm.ppf(0.95) * cleaned.std.to_numpy().T[own], rtol=1e-9)


def test_faulty_stations_are_suspects_and_do_not_enter(network, cleaned):
    assert set(network.faults) <= set(cleaned.suspects)
    stuck = next(name for name, kind in network.faults.items() if kind == "stuck")
    i = network.names.index(stuck)
    wrong = network.bad[i] & network.observed[i]
    assert (cleaned.flags[stuck].to_numpy()[wrong] == 4).mean() > 0.9
    assert rms((cleaned.x[stuck].to_numpy() - network.truth[i])[wrong]) < rms((network.readings - network.truth)[i, wrong])


def test_hidden_errors_of_all_methods_stand_side_by_side(network, cleaned):
    expected = {
        "space-time model", "last reading", "straight line in time", "neighbors' median", "rolling mean of 13", "one weight",
        "kriging",
    }  # fmt: skip
    assert set(cleaned.errors.index) == expected
    assert dict(cleaned.reasons)["edge weights"] == (
        "left out: other filters of single times (one weight and kriging) are far behind the space-time model"
    )
    assert cleaned.errors["rmse"].is_monotonic_increasing
    assert cleaned.errors.loc[cleaned.method, "rmse"] < 1.5 * network.noise
    assert (cleaned.hidden & ~network.observed).sum() == 0
    assert cleaned.summary().splitlines()[-1] == cleaned.headline()
    assert cleaned.headline().startswith("readings ±1.")
    assert cleaned.headline().endswith("(hidden readings), 2 suspect stations")
    assert "°C, cleaned ±0." in cleaned.headline()
    in_gaps = replace(cleaned, clean_error=1.2 * cleaned.reading_error).headline()
    assert "(hidden readings): of use in gaps, no better where there is a reading, 2 suspect" in in_gaps


def test_results_travel_to_other_processes(cleaned):
    """joblib and multiprocessing pickle what a worker returns."""
    again = pickle.loads(pickle.dumps(cleaned))
    pd.testing.assert_frame_equal(again.x, cleaned.x)
    assert (again.suspects, again.summary(), again.unit) == (cleaned.suspects, cleaned.summary(), "°C")
    np.testing.assert_array_equal(again.band(0.8), cleaned.band(0.8))
    np.testing.assert_array_equal(again.model.forecast(2).x, cleaned.model.forecast(2).x)
    assert again.network.graph == cleaned.network.graph


def test_hidden_readings_are_smoothed_in_the_end(network, cleaned):
    hidden = cleaned.hidden & network.healthy[:, None]
    at = network.observed & ~cleaned.hidden & network.healthy[:, None]
    std = cleaned.std.to_numpy().T
    assert rms(std[hidden]) == pytest.approx(rms(std[at]), rel=0.3)


@pytest.mark.slow
def test_same_generator_gives_the_same_result(network):
    small = frames(network)[0].iloc[:40, :4], frames(network)[1]
    one, two = (nareg.clean(*small, rng=np.random.default_rng(7)) for _ in range(2))
    np.testing.assert_array_equal(one.x, two.x)


def test_unevenly_named_frames_paths_and_graphs_are_the_same_network(network, tmp_path):
    from nareg.cleaning._network import assemble

    readings, stations = frames(network)
    first = assemble(readings, stations)
    long = readings.reset_index().melt("time", var_name="station", value_name="value")
    network.to_csv(tmp_path)
    others = [
        assemble(long, stations),
        assemble(readings.reset_index(), stations.reset_index(names="station")),
        assemble(tmp_path / "readings.csv", tmp_path / "stations.csv"),
        assemble(nareg.io.read_readings(tmp_path / "readings.csv"), nareg.io.read_stations(tmp_path / "stations.csv")),
        assemble(readings, network.graph()),
    ]
    for other in others:
        assert other.readings.names == first.readings.names
        np.testing.assert_array_equal(other.readings.values, first.readings.values)
        assert (other.graph.adjacency != first.graph.adjacency).nnz == 0


def test_results_are_in_the_order_of_the_readings_whatever_that_of_the_stations(network, tmp_path):
    from nareg.cleaning._network import assemble

    readings, stations = frames(network)
    mixed = readings[list(reversed(network.names))]
    mixed.to_csv(tmp_path / "readings.csv")
    long = mixed.stack(future_stack=True).rename_axis(["time", "station"]).rename("value").reset_index()
    for table in (mixed, nareg.io.readings_from_frame(mixed), tmp_path / "readings.csv", long):
        for places in (stations, stations.sample(frac=1, random_state=0), network.graph()):
            read = assemble(table, places)
            assert read.readings.names == read.graph.names == tuple(mixed.columns)
            np.testing.assert_array_equal(read.readings.values, mixed.to_numpy().T)
            rows = [network.names.index(name) for name in read.readings.names]
            np.testing.assert_array_equal(read.graph.coordinates, network.graph().coordinates[rows])
    left_out = assemble(nareg.io.readings_from_frame(mixed), stations.iloc[:-2])
    assert left_out.readings.names == tuple(mixed.columns[2:])
    assert any("left out: no coordinates" in note for note in left_out.notes)


def test_a_station_whose_readings_are_not_evaluated_is_named(rng):
    """All its flags were 2, and no word said why."""
    network = nareg.datasets.simulated(12, 300, faults=(), rng=rng)
    readings, stations = frames(network)
    name = readings.columns[3]
    readings[name] = 10 + lfilter([1], [1, -0.95], rng.standard_normal(300))
    stations.loc[name, "latitude"] += 8.0
    cleaned = nareg.clean(readings, stations)
    assert (cleaned.flags[name] == 2).all()
    (note,) = (note for note in cleaned.notes if "not evaluated (flag 2)" in note)
    assert repr(name) in note


@pytest.mark.slow
def test_the_band_of_a_drifting_station_is_as_wide_as_it_is_off():
    network = nareg.datasets.simulated(20, 400, faults=(), rng=np.random.default_rng(7))
    readings, stations = frames(network)
    name = readings.columns[3]
    readings.loc[readings.index[150] :, name] += 8.0
    cleaned = nareg.clean(readings, stations)
    (drift,) = cleaned.quality.suspects
    assert (drift.name, drift.kind) == (name, "drift")
    assert drift.size == pytest.approx(8.0, rel=0.3)
    during = (readings.index.to_numpy() >= drift.start) & (readings.index.to_numpy() <= drift.stop)
    assert (cleaned.std[name][during] >= drift.size).all()
    assert cleaned.std[name][~during].max() < drift.size / 3
    low, high = (pd.DataFrame(end.T, index=readings.index, columns=readings.columns)[name] for end in cleaned.band(0.9))
    np.testing.assert_array_less(1.6 * drift.size, (high - cleaned.x[name])[during])
    assert ((high - low)[~during] < drift.size).all()
    truth = network.truth[3]
    assert np.mean((truth >= low) & (truth <= high)) > 0.8  # no station is right where the readings are off by 8
    assert any("1 station drifts" in note for note in cleaned.notes)


@pytest.mark.slow
def test_evidence_has_the_times_of_the_table(network):
    readings, stations = frames(network)
    zoned = readings.set_axis(pd.DatetimeIndex(readings.index).tz_localize("UTC").tz_convert("Asia/Kolkata"))
    cleaned = nareg.clean(zoned, stations)
    labels = set(cleaned.network.readings.times)
    found = [date for s in cleaned.quality.suspects for date in re.findall(r"\d{4}-\d\d-\d\d\S*(?: \d\d:\S*)?", s.evidence)]
    assert found
    assert {date.strip(".,:") for date in found} <= labels


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda r, s: (r * np.nan, s, {}), "readings contains no reading: check the table"),
        (lambda r, s: (r * 1e200, s, {}), "use another unit"),
        (lambda r, s: (r, s, {"noise": -1.0}), "negative"),
        (lambda r, s: (r, s, {"noise": {"S0": 1.0}}), "no entry for station"),
        (lambda r, s: (r, s, {"noise": "a lot"}), "pass a variance"),
        (lambda r, s: (r, s, {"noise": 1e6}), "variance"),
        (lambda r, s: (r, s, {"hidden": 0.7}), "hidden is 0.7"),
        (lambda r, s: (r, s, {"rng": 3}), "generator"),
        (lambda r, s: (r, s, {"unit": 3}), "unit is 3"),
        (lambda r, s: (r, s, {"dynamics": "fast"}), "dynamics is 'fast'"),
        (lambda r, s: (r.to_numpy(), s, {}), "readings is a ndarray"),
        (lambda r, s: (r, s.to_numpy(), {}), "stations is a ndarray"),
        (lambda r, s: (r, s.rename(index=lambda name: name + "x"), {}), "S0"),
        (lambda r, s: (r, s * np.nan, {}), "no coordinates"),
    ],
)
def test_what_cannot_work_is_one_sentence(network, change, message):
    readings, stations, options = change(*frames(network))
    with pytest.raises(InputError, match=message) as caught:
        nareg.clean(readings, stations, **options)
    assert "\n" not in str(caught.value)


@pytest.mark.slow
def test_a_station_in_fahrenheit_is_named_and_does_not_mislead():
    network = nareg.datasets.simulated(12, 144, faults=(), rng=np.random.default_rng(5))
    y = network.readings.copy()
    y[3] = 1.8 * y[3] + 32
    cleaned = nareg.clean(*frames(network, y))
    assert cleaned.suspects == ("S03",)
    assert any("fitted again without" in note and "'S03'" in note for note in cleaned.notes)
    error = cleaned.x.to_numpy().T - network.truth
    assert rms(np.delete(error, 3, axis=0)) < 0.5 * network.noise
    assert rms(error[3]) < 5  # its level, in °C, from its neighbors


def few(network, change):
    readings, stations = frames(network)
    return nareg.clean(*change(readings.iloc[:60], stations))


def test_one_time_is_cleaned_in_space(network):
    cleaned = few(network, lambda r, s: (r.iloc[:1], s))
    assert cleaned.model is None
    assert cleaned.method == "one weight"
    assert np.isfinite(cleaned.x.to_numpy()).all()
    assert np.isnan(cleaned.std.to_numpy()).all()
    assert "error unknown" in cleaned.headline()


def test_one_station_is_cleaned_in_time(network):
    name = next(name for name in network.names if name not in network.faults)
    cleaned = few(network, lambda r, s: (r[[name]], s))
    assert cleaned.x.shape == (60, 1)
    assert np.isfinite(cleaned.x.to_numpy()).all()


def test_constant_readings_stay_what_they_are(network):
    cleaned = few(network, lambda r, s: (r * 0 + 3.5, s))
    np.testing.assert_allclose(cleaned.x, 3.5)
    assert cleaned.model is None
    assert any("nothing to learn" in note for note in cleaned.notes)
    assert "errors" in cleaned.figures()


@pytest.mark.slow
def test_times_without_any_reading_are_filled(network):
    def change(readings, stations):
        readings = readings.copy()
        readings.iloc[20:25] = np.nan
        return readings, stations

    cleaned = few(network, change)
    assert np.isfinite(cleaned.x.to_numpy()).all()
    assert np.nanmean(cleaned.std.iloc[20:25].to_numpy()) > np.nanmean(cleaned.std.iloc[40:45].to_numpy())


@pytest.mark.slow
def test_two_stations_at_one_place_are_both_used(network):
    def change(readings, stations):
        stations = stations.copy()
        stations.iloc[1] = stations.iloc[0]
        return readings, stations

    cleaned = few(network, change)
    assert np.isfinite(cleaned.x.to_numpy()).all()
    assert any("at the place of another" in note for note in cleaned.notes)


@pytest.mark.slow
def test_infinite_readings_are_gaps_with_a_note(network):
    def change(readings, stations):
        readings = readings.copy()
        readings.iloc[3, 2] = np.inf
        return readings, stations

    cleaned = few(network, change)
    assert cleaned.flags.iloc[3, 2] == 9
    assert any("infinite" in note for note in cleaned.notes)


@pytest.mark.slow
def test_known_noise_is_used(network):
    readings, stations = frames(network)
    variance = pd.Series(2.25, index=readings.columns)
    cleaned = nareg.clean(readings.iloc[:80], stations, noise=variance)
    np.testing.assert_allclose(cleaned.model.noise, 2.25)
    assert any(name == "noise given" for name, _ in cleaned.reasons)


@pytest.mark.slow
@pytest.mark.parametrize("n", [45, *at_night([600])])
def test_networks_too_large_for_dense_covariances_have_a_sparse_model(n, rng, tmp_path, monkeypatch):
    monkeypatch.setattr("nareg.spacetime._model.fit.LARGEST", min(n - 1, 500))
    network = nareg.datasets.simulated(n, 60, faults=("dead", "stuck", "spiking"), rng=rng)
    cleaned = nareg.clean(*frames(network))
    assert isinstance(cleaned.model, nareg.spacetime.SparseSpaceTimeModel)
    assert cleaned.method == cleaned.errors.index[0] == "space-time model"
    error = np.sqrt(np.nanmean((cleaned.x.to_numpy().T - network.truth)[network.healthy] ** 2))
    assert error < 0.5 * np.sqrt(np.nanmean((network.readings - network.truth)[network.healthy] ** 2))
    assert np.isfinite(cleaned.x.to_numpy()).all()
    assert np.isfinite(cleaned.std.to_numpy()).all()
    assert any("only readings that all others contradict" in note for note in cleaned.notes)
    silent = {name for name, never in zip(network.names, ~network.observed.any(axis=1), strict=True) if never}
    assert set(cleaned.suspects) == set(network.faults) | silent
    low, high = cleaned.band(0.9)
    inside = ((network.truth >= low) & (network.truth <= high))[network.healthy]
    assert inside.mean() > 0.85
    page = (cleaned.save(tmp_path / "clean") / "report.html").read_text()
    assert page.count("data:image/png;base64,") == 4


@pytest.mark.parametrize(
    ("step", "count", "shared"), [("h", 500, "2023-03 to 2023-04"), ("h", 240, "2023-Mar"), ("D", 200, "2023")]
)
def test_dates_below_a_picture_say_what_they_share(step, count, shared):
    """The month of the last tick stood there, under days of the month before."""
    when = np.datetime64("2023-03-12", step) + np.arange(count)
    axes = Figure().add_subplot()
    axes.plot(when, np.zeros(count))
    _pictures._time_axis(axes, when)
    axes.figure.draw_without_rendering()
    assert axes.xaxis.get_offset_text().get_text() == shared


def test_long_records_are_drawn_where_they_matter(network, cleaned, monkeypatch):
    """A part per station: what makes it suspect, with what was before; the latest readings of the others."""
    monkeypatch.setattr(_pictures, "LONGEST", 50)
    monkeypatch.setattr(_pictures, "BEFORE", 10)
    stuck = next(s for s in cleaned.quality.suspects if s.kind == "stuck")
    begins = int(np.flatnonzero(cleaned.quality.times == stuck.start)[0])
    window = _pictures._window(cleaned, stuck.station)
    assert window.start < begins < window.start + 20
    assert window.stop - window.start == 50
    typical = [i for i, word in _pictures.shown(cleaned) if word == "typical"]
    assert [_pictures._window(cleaned, i).stop for i in typical] == [160, 160]
    for first, last, start in ((70, 79, 50), (0, 3, 0), (158, 159, 110), (100, 149, 100)):
        fault = replace(stuck, station=typical[0], start=cleaned.quality.times[first], stop=cleaned.quality.times[last])
        other = replace(cleaned, quality=replace(cleaned.quality, suspects=(fault,)))
        assert _pictures._window(other, typical[0]) == slice(start, start + 50)
    titles = [axes.get_title(loc="left") for axes in cleaned.figures()["series"].axes]
    assert all(title.endswith("(50 of 160 times)") for title in titles)


@pytest.mark.slow
def test_a_report_without_anything_to_compare(network, tmp_path):
    cleaned = few(network, lambda r, s: (r.iloc[:1], s))
    page = cleaned.report(tmp_path / "report.html").read_text()
    assert "Too few readings could be hidden" in page
    rows = (cleaned.save(tmp_path / "clean") / "std.csv").read_text().splitlines()
    assert set(rows[1].split(",")[1:]) == {""}


@pytest.mark.slow
@pytest.mark.parametrize(("unit", "noted"), [("°C", True), ("K", False), (None, False)])
def test_a_unit_other_than_the_one_of_the_table_is_noted(network, unit, noted):
    xarray = pytest.importorskip("xarray")
    kelvin = xarray.DataArray(
        network.readings[:, :9] + 273.15, dims=("station", "time"), attrs={"units": "K"},
        coords={"station": list(network.names), "time": network.times[:9].astype("datetime64[ns]"),
                "latitude": ("station", network.coordinates[:, 0]), "longitude": ("station", network.coordinates[:, 1])},
    )  # fmt: skip
    cleaned = nareg.clean(kelvin, unit=unit)
    assert any("readings in K, but unit is °C" in note for note in cleaned.notes) == noted
    assert cleaned.unit == ("K" if unit is None else unit)


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_ctrl_c_whose_exception_is_lost_ends_it_at_the_next_step(network, request):
    """C code that calls Python back, as LLVM does while loops are compiled, drops what is raised there."""
    seen = []

    def progress(step):
        seen.append(step.fraction)
        if len(seen) == 2:
            ctypes.CFUNCTYPE(None)(lambda: signal.raise_signal(signal.SIGINT))()

    usual = signal.default_int_handler  # which a process in the background of a shell does not have
    request.addfinalizer(partial(signal.signal, signal.SIGINT, signal.signal(signal.SIGINT, usual)))
    with pytest.raises(KeyboardInterrupt):
        nareg.clean(*frames(network), progress=progress)
    assert seen[-1] < 0.1
    assert signal.getsignal(signal.SIGINT) is usual


def test_times_that_nobody_reads_are_dates_in_the_evidence(rng, tmp_path):
    """Seconds since 1970 stay in the tables, but "stuck from 1709985600 on" says nothing."""
    seconds = 1709985600 + 3600 * np.arange(200)
    values = 15 + np.cumsum(0.3 * rng.standard_normal(200))[:, None] + 0.3 * rng.standard_normal((200, 5))
    values[40:90, 2] = values[40, 2]
    frame = pd.DataFrame(values.round(2), columns=list("ABCDE"))
    frame.insert(0, "time", seconds)
    frame.to_csv(tmp_path / "r.csv", index=False)
    cleaned = nareg.clean(tmp_path / "r.csv", hidden=0)
    (stuck,) = (s for s in cleaned.quality.suspects if s.kind == "stuck")
    assert "from 2024-03-11 04:00 UTC to 2024-03-13 05:00 UTC" in stuck.evidence
    cleaned.save(tmp_path / "clean")
    page = (tmp_path / "clean" / "report.html").read_text(encoding="utf-8")
    assert "2024-03-09 12:00 UTC to" in page
    assert (tmp_path / "clean" / "clean.csv").read_text().splitlines()[1].startswith("1709985600,")
