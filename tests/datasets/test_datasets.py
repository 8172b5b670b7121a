from __future__ import annotations

import io
import tarfile
from typing import get_args

import numpy as np
import pytest

import nareg
from nareg.datasets import loaders, registry
from nareg.errors import DatasetCorruptError, DatasetNotFoundError, InputError

PREPARED = {
    # name: (stations, times, missing, complete stations, unit)
    "au-weather": (126, 365, 410, 41, "°C"),
    "molene": (37, 744, 0, 37, "K"),
    "sea-surface-temperature": (100, 1733, 0, 100, "°C"),
    "pm25-california": (93, 304, 12081, 2, "µg/m³"),
    "aqi36": (36, 8759, 77508, 0, "µg/m³"),
}


def test_bundled_network_needs_no_folder(monkeypatch, tmp_path):
    monkeypatch.setenv("NAREG_DATA", str(tmp_path / "nowhere"))
    us = nareg.datasets.load("us-weather")
    assert (us.n_nodes, us.n_times, int((~us.observed).sum())) == (144, 365, 44)
    assert us.units == "°C"
    assert us.graph.is_connected
    assert us.graph.names == us.names
    assert np.isnan(us.signals[~us.observed]).all()
    assert np.isfinite(us.signals[us.observed]).all()
    assert -40 < np.nanmin(us.signals) < np.nanmax(us.signals) < 50
    complete = us.complete()
    assert complete.n_nodes == 140
    assert complete.observed.all()
    # joined anew: 140 stations with 7 neighbors each have 570 distinct edges
    assert complete.graph.n_edges == 570


def test_notice_and_citation_lie_beside_the_bundled_data():
    notice = (registry.BUNDLED / "NOTICE.md").read_text()
    for phrase in (
        "doi:10.7289/V5D21VHZ",
        "without warranty",
        "Licence Ouverte",
        "doi:10.1175/BAMS-D-11-00197.1",
        "17 U.S.C. 105",
    ):
        assert phrase in notice


@pytest.mark.parametrize("name", PREPARED)
def test_prepared_networks(name, data_root):
    stations, times, missing, complete, unit = PREPARED[name]
    network = nareg.datasets.load(name, root=data_root)
    assert (network.n_nodes, network.n_times) == (stations, times)
    assert int((~network.observed).sum()) == missing
    assert int(network.observed.all(axis=1).sum()) == complete
    assert network.units == unit
    assert np.isnan(network.signals[~network.observed]).all()
    assert network.source
    assert network.license


def test_pm25_zeros_are_missing_and_negative_values_are_kept(data_root):
    network = nareg.datasets.load("pm25-california", root=data_root)
    assert not (network.signals == 0).any()
    assert int((network.signals < 0).sum()) == 120


def test_aqi36_hides_what_the_literature_scores(data_root):
    """Counts and two errors that published tables state: linear interpolation in time and the network's mean."""
    network = nareg.datasets.load("aqi36", root=data_root)
    hidden = network.held_out
    assert int(hidden.sum()) == 20434
    assert not (hidden & network.observed).any()
    assert np.isfinite(network.reference[hidden]).all()
    np.testing.assert_array_equal(network.reference[network.observed], network.signals[network.observed])
    assert int(np.isfinite(network.reference).sum() - network.observed.sum()) == 35737
    line = nareg.baselines.interpolate_in_time(network.signals)
    mean = nareg.baselines.network_mean(network.signals)
    mean[np.isnan(mean)] = np.nanmean(network.signals)  # 426 hours at which no station reads
    for estimate, mae in ((line, 14.68), (mean, 30.96)):
        assert np.abs(estimate - network.reference)[hidden].mean() == pytest.approx(mae, abs=0.005)
    part = network.select(np.arange(10))
    assert part.held_out.shape == part.reference.shape == part.signals.shape


def test_root_comes_from_the_argument_then_the_environment(monkeypatch, tmp_path):
    monkeypatch.setenv("NAREG_DATA", str(tmp_path / "a"))
    with pytest.raises(DatasetNotFoundError, match=str(tmp_path / "a")):
        nareg.datasets.load("molene")
    with pytest.raises(DatasetNotFoundError, match=str(tmp_path / "b")):
        nareg.datasets.load("molene", root=tmp_path / "b")


@pytest.mark.parametrize("name", [n for n in nareg.datasets.names() if not nareg.datasets.info(n).bundled])
def test_absent_data_sets_say_what_to_put_where(name, tmp_path):
    with pytest.raises(DatasetNotFoundError, match=f"data set '{name}' is not here: expected .*To get it: "):
        nareg.datasets.load(name, root=tmp_path)


def test_a_folder_under_the_users_home(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    assert nareg.datasets.data_root("~/data") == tmp_path / "data"
    monkeypatch.setenv("NAREG_DATA", "~/data")
    assert nareg.datasets.data_root() == tmp_path / "data"


def test_unknown_names_are_refused():
    for call in (nareg.datasets.load, nareg.datasets.info, nareg.datasets.fetch):
        with pytest.raises(InputError, match="name is 'molène'; choose one of us-weather"):
            call("molène")


def test_a_changed_file_is_refused(tmp_path):
    (tmp_path / "molene").mkdir()
    np.savez(tmp_path / "molene" / "molene.npz", temperature_K=np.ones((3, 3)))
    with pytest.raises(
        DatasetCorruptError, match=r"has digest \w{12}..., expected 9e485392e46c.*: delete it and download it again"
    ):
        nareg.datasets.load("molene", root=tmp_path)


# -- the original archive ---------------------------------------------------------------------------------


def archive_text(station: str, hours: np.ndarray, temperatures: np.ndarray, delimiter: str = ",") -> str:
    """A station file in the layout of the archive: header, a row an hour, a trailing separator, an odd last line."""
    header = ["numer_sta", "date", "date_insert", "td", "t", "tx", ""]
    rows = []
    for hour, t in zip(hours, temperatures, strict=True):
        stamp = str(hour).replace("T", " ") + ":00:00"
        rows.append([station, stamp, stamp, "mq", "mq" if np.isnan(t) else f"{t:.2f}", "mq", ""])
    return "\n".join(delimiter.join(row) for row in [header, *rows]) + "\n# end\n"


def write_archive(path, files: dict[str, str], extra: list[tarfile.TarInfo] | None = None) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with tarfile.open(path, "w:gz") as archive:
        for name, text in files.items():
            member = tarfile.TarInfo(name)
            member.size = len(text.encode())
            archive.addfile(member, io.BytesIO(text.encode()))
        for member in extra or []:
            archive.addfile(member)


@pytest.fixture
def molene_files(data_root):
    prepared = nareg.datasets.load("molene", root=data_root)
    ids = [s[0] for s in loaders.radomeh_stations()]
    hours = loaders.FIRST_HOUR + np.arange(loaders.N_HOURS)
    files = {
        f"RADOMEH/{station}.txt": archive_text(station, hours, series, "," if k % 2 else ";")
        for k, (station, series) in enumerate(zip(ids, prepared.signals, strict=True))
    }
    files["RADOMEH/readme_radomeh.txt"] = "Données horaires de 55 stations\n"
    gap = np.full(loaders.N_HOURS, 280.0)
    gap[10] = np.nan
    files["RADOMEH/99999999.txt"] = archive_text("99999999", hours, gap)
    return prepared, files


@pytest.mark.slow
def test_molene_from_the_original_archive_equals_the_prepared_file(molene_files, tmp_path):
    prepared, files = molene_files
    write_archive(tmp_path / "molene" / "RADOMEH.tar.gz", files)
    network = nareg.datasets.load("molene", root=tmp_path)
    np.testing.assert_array_equal(network.signals, prepared.signals)
    np.testing.assert_array_equal(network.times, prepared.times)
    assert network.names == prepared.names
    np.testing.assert_allclose(network.coordinates, prepared.coordinates, atol=1e-6)
    np.testing.assert_allclose(network.graph.adjacency.toarray(), prepared.graph.adjacency.toarray(), rtol=1e-3, atol=1e-6)


@pytest.mark.slow
def test_an_archive_with_other_content_is_refused(molene_files, tmp_path):
    _, files = molene_files
    name = next(iter(files))
    changed = dict(files)
    changed[name] = changed[name].replace("mq;2", "mq;1", 1)
    write_archive(tmp_path / "a.tar.gz", changed)
    with pytest.raises(DatasetCorruptError, match="have digest"):
        loaders.read_radomeh(tmp_path / "a.tar.gz")
    del changed[name]
    write_archive(tmp_path / "b.tar.gz", changed)
    with pytest.raises(DatasetCorruptError, match="digest missing 22"):
        loaders.read_radomeh(tmp_path / "b.tar.gz")
    (tmp_path / "c.tar.gz").write_bytes(b"no archive")
    with pytest.raises(DatasetCorruptError, match=r"not a readable tar\.gz"):
        loaders.read_radomeh(tmp_path / "c.tar.gz")


@pytest.mark.slow
def test_a_hostile_archive_writes_nothing_outside(molene_files, tmp_path):
    prepared, files = molene_files
    link = tarfile.TarInfo("RADOMEH/link.txt")
    link.type, link.linkname = tarfile.SYMTYPE, "/etc/passwd"
    hostile = {"../../escape.txt": "numer_sta,date,t\n", "/tmp/nareg-escape.txt": "x", **files}
    folder = tmp_path / "deep" / "molene"
    write_archive(folder / "RADOMEH.tar.gz", hostile, [link])
    before = {p for p in tmp_path.rglob("*")}
    network = nareg.datasets.load("molene", root=tmp_path / "deep")
    assert {p for p in tmp_path.rglob("*")} == before
    np.testing.assert_array_equal(network.signals, prepared.signals)


def test_an_oversized_member_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(loaders, "MEMBER_LIMIT", 10)
    write_archive(tmp_path / "a.tar.gz", {"big.txt": "x" * 100})
    with pytest.raises(DatasetCorruptError, match="too large"):
        loaders.read_radomeh(tmp_path / "a.tar.gz")


def test_an_editor_knows_what_every_name_loads():
    assert {*get_args(loaders.SensorName), *get_args(loaders.GraphName)} == set(nareg.datasets.names())
