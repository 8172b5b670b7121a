"""Hostile archives and wrong checksums: refused before anything is written outside, or allocated.

What lies beside this: members that point outside and too long downloads in tests/datasets/fetching, links in
tests/datasets/test_datasets.py, archives of arrays in tests/test_array_files.py.
"""

from __future__ import annotations

import gzip
import hashlib
import io
import tarfile
import tracemalloc
import zipfile

import numpy as np
import pytest
import scipy.io

import nareg
from nareg._storage.array_files import EXPANSION, FREE
from nareg.datasets import _converters, _delivery, _graph_loaders, loaders
from nareg.datasets._sources import Remote, verify
from nareg.errors import DatasetCorruptError, InputError, NaregError, TooLargeError
from nareg.io import read_readings, read_stations
from tests.hardening.readers import entry, ogb_files

PARTS = ["raw/edge.csv.gz", "raw/node-label.csv.gz"]
MEMORY = 2**26


def archive(path, members: dict[str, bytes]) -> None:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as made:
        for name, content in members.items():
            made.writestr(name, content)


def zeros(n_bytes: int) -> bytes:
    """So many zero bytes, compressed a thousandfold."""
    out = io.BytesIO()
    with gzip.GzipFile(fileobj=out, mode="wb") as handle:
        for _ in range(n_bytes // 2**20):
            handle.write(bytes(2**20))
    return out.getvalue()


def test_a_member_that_expands_beyond_the_limit_is_not_written(tmp_path, monkeypatch):
    monkeypatch.setattr(_delivery, "MEMBER_LIMIT", 2**20)
    archive(tmp_path / "arxiv.zip", {f"arxiv/{part}": bytes(2**21) for part in PARTS})
    with pytest.raises(ValueError, match="has 2097152 bytes"):
        _delivery.unpack_ogb("ogbn-arxiv", tmp_path / "arxiv.zip", PARTS, tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_a_table_that_expands_beyond_the_limit_is_counted_no_further(tmp_path, monkeypatch):
    monkeypatch.setattr(_delivery, "MEMBER_LIMIT", 2**20)
    archive(tmp_path / "arxiv.zip", dict.fromkeys((f"arxiv/{part}" for part in PARTS), zeros(2**26)))
    with pytest.raises(ValueError, match="expands to more than 1048576 bytes"):
        _delivery.unpack_ogb("ogbn-arxiv", tmp_path / "arxiv.zip", PARTS, tmp_path / "out")


def test_a_link_in_an_archive_is_content_and_no_link(tmp_path):
    """Where it points is neither read nor written."""
    (tmp_path / "secret").write_bytes(gzip.compress(b"0\n"))
    with zipfile.ZipFile(tmp_path / "arxiv.zip", "w") as made:
        for part in PARTS:
            link = zipfile.ZipInfo(f"arxiv/{part}")
            link.create_system, link.external_attr = 3, 0o120777 << 16
            made.writestr(link, str(tmp_path / "secret"))
    with pytest.raises(OSError, match="gzip"):
        _delivery.unpack_ogb("ogbn-arxiv", tmp_path / "arxiv.zip", PARTS, tmp_path / "out")
    for part in PARTS:
        assert not (tmp_path / "out" / part).is_symlink()
        assert (tmp_path / "out" / part).read_text() == str(tmp_path / "secret")


def test_a_members_wrong_checksum_is_refused(tmp_path):
    content = gzip.compress(b"0\n" * 50)
    with zipfile.ZipFile(tmp_path / "arxiv.zip", "w") as made:
        for part in PARTS:
            made.writestr(f"arxiv/{part}", content)
    whole = (tmp_path / "arxiv.zip").read_bytes()
    (tmp_path / "arxiv.zip").write_bytes(whole.replace(content, content[:-1] + b"\x01"))
    with pytest.raises(zipfile.BadZipFile, match="Bad CRC-32"):
        _delivery.unpack_ogb("ogbn-arxiv", tmp_path / "arxiv.zip", PARTS, tmp_path / "out")
    assert not (tmp_path / "out" / PARTS[0]).exists()


@pytest.mark.slow
def test_a_users_table_that_expands_beyond_reason_is_refused(tmp_path, monkeypatch):
    """One endless line, of which no more is read than the file justifies."""
    ogb_files(tmp_path)
    monkeypatch.setattr(_graph_loaders, "LONGEST", 2**20)
    monkeypatch.setattr(_graph_loaders, "FREE", 2**20)
    monkeypatch.setattr("nareg._storage.array_files.FREE", 2**20)
    feature = tmp_path / next(name for name in entry("ogbn-arxiv").files if "feat" in name)
    feature.write_bytes(gzip.compress(b"1\n" * 2**24))
    assert EXPANSION * feature.stat().st_size + 2**20 < 2**25
    with pytest.raises(TooLargeError, match="more than 200 times as many"):
        _graph_loaders.ogb(entry("ogbn-arxiv"), tmp_path)


@pytest.mark.parametrize("name", ["readme.doc", "../outside.bin", "/absolute.bin"])
def test_members_that_are_passed_over_count_too(name, tmp_path, monkeypatch):
    """They are decompressed all the same."""
    monkeypatch.setattr(loaders, "TOTAL_LIMIT", 2**20)
    with tarfile.open(tmp_path / "a.tar.gz", "w:gz") as made:
        member = tarfile.TarInfo(name)
        member.size = 2**21
        made.addfile(member, io.BytesIO(bytes(2**21)))
    with pytest.raises(DatasetCorruptError, match="is too large for this archive"):
        loaders.read_radomeh(tmp_path / "a.tar.gz")
    assert [path.name for path in tmp_path.iterdir()] == ["a.tar.gz"]


@pytest.mark.parametrize("algorithm", ["sha256", "git"])
def test_a_download_of_another_checksum_is_removed(algorithm, tmp_path):
    content = b"0,1\n"
    wrong = hashlib.sha256(b"other").hexdigest() if algorithm == "sha256" else "git:" + hashlib.sha1(b"other").hexdigest()
    (tmp_path / "file").write_bytes(content)
    with pytest.raises(DatasetCorruptError, match="the source has changed, nothing was written"):
        verify(Remote("file", "https://example.org/file", wrong), tmp_path / "file", "cora")
    assert not (tmp_path / "file").exists()


@pytest.mark.parametrize("network", ["us-weather", "noaa-109"])
def test_a_bundled_file_of_another_checksum_is_refused(network, tmp_path, monkeypatch):
    info = nareg.datasets.info(network)
    for name in info.files:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_bytes(b"PK\x05\x06" + bytes(18))
    monkeypatch.setattr("nareg.datasets.registry.BUNDLED", tmp_path)
    with pytest.raises(DatasetCorruptError, match="has digest"):
        nareg.datasets.load(network)


def test_declared_shapes_of_a_source_are_compared_with_the_file(tmp_path):
    """Rows and columns that no file of this size can have."""
    arrays = {"data": np.ones(1), "indices": np.zeros(1, int), "indptr": np.array([0, 1]), "shape": np.array([1, 2**59])}
    named = {f"{matrix}_{part}": value for matrix in ("adj", "attr") for part, value in arrays.items()}
    np.savez(tmp_path / "crafted.npz", **(named | {"adj_shape": np.array([2**40, 2**40])}), labels=np.zeros(1))
    tracemalloc.start()
    with pytest.raises(InputError, match="1099511627776 rows and 2 row starts"):
        _converters.read_shchur(tmp_path / "crafted.npz")
    assert tracemalloc.get_traced_memory()[1] < MEMORY
    tracemalloc.stop()


@pytest.mark.slow
def test_a_matlab_file_that_expands_beyond_reason_is_refused(tmp_path):
    rows = FREE // 8 // 100
    scipy.io.savemat(
        tmp_path / "PM2_5_concentration.mat",
        {"myDataPM": np.zeros((rows, 150)), "Position": np.zeros((rows, 2))},
        do_compression=True,
    )
    with pytest.raises(TooLargeError, match="more than 200 times as many"):
        _converters.graph_trss("pm25", tmp_path)


def test_a_netcdf_file_of_a_few_kilobytes_allocates_no_gigabytes(tmp_path):
    """Parts of an array that were never written take no room in a file."""
    h5py = pytest.importorskip("h5py")
    with h5py.File(tmp_path / "a.nc", "w") as file:
        for name, length in (("time", 200_000), ("station", 20_000)):
            file.create_dataset(name, (length,), "i8", chunks=(1000,)).make_scale(name)
        values = file.create_dataset("x", (200_000, 20_000), "f8", chunks=(1000, 1000))
        values.dims[0].attach_scale(file["time"])
        values.dims[1].attach_scale(file["station"])
    assert (tmp_path / "a.nc").stat().st_size < 10_000
    for read in (read_readings, read_stations):
        with pytest.raises(TooLargeError, match=r"a\.nc has \d+ bytes and declares 32001760000"):
            read(tmp_path / "a.nc")


def test_a_parquet_file_of_one_value_allocates_no_gigabytes(tmp_path):
    arrow = pytest.importorskip("pyarrow")
    from pyarrow import parquet

    column = arrow.array(np.zeros(2**21, np.int8))
    names = ["time", *(f"s{i}" for i in range(31))]
    parquet.write_table(arrow.table({name: column for name in names}), tmp_path / "a.parquet", compression="zstd")
    with pytest.raises(TooLargeError, match="declares 536870912"):
        read_readings(tmp_path / "a.parquet")


@pytest.mark.parametrize("line", [b"#\n", b"\n"])
def test_many_lines_in_front_of_a_table_take_no_square_of_their_number(line, tmp_path):
    (tmp_path / "edges.csv").write_bytes(line * 200_000 + b"0,1\n1,2\n")
    assert nareg.io.convert(tmp_path / "edges.csv", tmp_path / "a.graph") == "3 nodes, 2 edges"


def test_a_line_without_an_end_is_given_up(tmp_path, monkeypatch):
    monkeypatch.setattr("nareg._storage.text_files.LONGEST", 2**20)
    monkeypatch.setattr("nareg._storage.text_files.TEXT", 2**18)
    (tmp_path / "edges.csv.gz").write_bytes(gzip.compress(b"0,1" * 2**22))
    with pytest.raises(NaregError, match="line 1, has more than 1048576 characters"):
        nareg.io.convert(tmp_path / "edges.csv.gz", tmp_path / "a.graph")
