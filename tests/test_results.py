from __future__ import annotations

import errno
import json

import numpy as np
import pytest

import nareg
from nareg.errors import DatasetCorruptError, InputError
from nareg.results import atomic_write


@pytest.fixture(scope="module")
def designed():
    g = nareg.graphs.grid((4, 4))
    x = np.linspace(1, 2, 16)
    return g, nareg.design.exact(g, signals=x, noise=np.full(16, 0.1), fit="noise")


def test_design_survives_saving_and_still_fits_its_graph_only(designed, tmp_path):
    g, d = designed
    d.save(tmp_path / "d.npz")
    back = nareg.design.load(tmp_path / "d.npz")
    np.testing.assert_array_equal(back.weights, d.weights)
    np.testing.assert_array_equal(back.fit, d.fit)
    assert (back.matrix != d.matrix).nnz == 0
    assert back.certificate == d.certificate
    assert (back.status, back.objective, back.method, back.version) == (d.status, d.objective, d.method, nareg.__version__)
    y = np.arange(16.0)
    np.testing.assert_array_equal(nareg.filters.denoise(g, back, y).x, nareg.filters.denoise(g, d, y).x)
    with pytest.raises(InputError, match="another graph"):
        nareg.filters.denoise(nareg.Graph(3 * g.adjacency), back, y)


def test_omega_is_stored_too(tmp_path):
    g = nareg.graphs.grid((3, 3))
    d = nareg.design.prony(g, signals=np.linspace(1, 2, 9), noise=0.1)
    d.save(tmp_path / "d.npz")
    np.testing.assert_array_equal(nareg.design.load(tmp_path / "d.npz").omega, d.omega)


def test_files_that_are_no_design_are_refused_without_unpickling(tmp_path):
    with pytest.raises(InputError, match="does not exist"):
        nareg.design.load(tmp_path / "absent.npz")
    (tmp_path / "text.npz").write_text("hello")
    np.savez(tmp_path / "other.npz", weights=np.ones(3))
    np.savez(tmp_path / "objects.npz", weights=np.ones(1), meta=np.array({"a": 1}, dtype=object))
    np.savez(tmp_path / "meta.npz", weights=np.ones(1), meta=np.array(json.dumps({"status": "CONVERGED"})))
    for name in ("text.npz", "other.npz", "objects.npz", "meta.npz"):
        with pytest.raises(DatasetCorruptError, match="is not a design written by"):
            nareg.design.load(tmp_path / name)


def test_a_write_that_fails_leaves_the_old_file_and_nothing_else(tmp_path):
    path = tmp_path / "file.bin"
    path.write_bytes(b"old")

    def interrupted() -> None:
        with atomic_write(path) as handle:
            handle.write(b"new")
            raise RuntimeError("halfway")

    with pytest.raises(RuntimeError, match="halfway"):
        interrupted()
    assert path.read_bytes() == b"old"
    assert [p.name for p in tmp_path.iterdir()] == ["file.bin"]
    with atomic_write(path) as handle:
        handle.write(b"new")
    assert path.read_bytes() == b"new"


def test_a_file_that_is_there_keeps_its_mode_and_a_link_its_target(tmp_path):
    path, link, new = tmp_path / "real.bin", tmp_path / "link.bin", tmp_path / "new.bin"
    path.write_bytes(b"old")
    path.chmod(0o600)
    link.symlink_to(path)
    for target in (link, new):
        with atomic_write(target) as handle:
            handle.write(b"new")
    assert link.is_symlink()
    assert path.read_bytes() == b"new"
    ordinary = tmp_path / "ordinary"
    ordinary.touch()
    assert [p.stat().st_mode & 0o777 for p in (path, new)] == [0o600, ordinary.stat().st_mode & 0o777]


def test_a_disk_that_runs_full_is_said(tmp_path):
    def full():
        with atomic_write(tmp_path / "file.bin") as handle:
            handle.write(b"some")
            raise OSError(errno.ENOSPC, "No space left on device")

    with pytest.raises(InputError, match=r"file.bin cannot be written \(No space left on device\)"):
        full()
    assert not list(tmp_path.iterdir())


def test_summary_names_what_matters(designed):
    _, d = designed
    text = d.summary()
    for word in ("exact: converged", "objective", "|w| from", "smallest eigenvalue", "L-BFGS-B"):
        assert word in text


def test_paths_that_cannot_be_written_are_named(designed, tmp_path):
    _, d = designed
    (tmp_path / "file").write_text("x")
    (tmp_path / "folder.npz").mkdir()
    for path in (tmp_path / "file" / "d.npz", tmp_path / "folder.npz"):
        with pytest.raises(InputError, match="cannot be written"):
            d.save(path)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["file", "folder.npz"]


@pytest.mark.parametrize(
    "change",
    [
        {"weights": np.full(16, np.nan)},
        {"weights": np.ones((4, 4))},
        {"fit": np.ones(3)},
        {"penalty_data": np.zeros(64)},
    ],
)
def test_a_design_file_that_was_changed_is_refused(designed, tmp_path, change):
    _, d = designed
    d.save(tmp_path / "d.npz")
    with np.load(tmp_path / "d.npz") as stored:
        arrays = {**stored, **change}
    np.savez(tmp_path / "d.npz", **arrays)
    with pytest.raises(DatasetCorruptError, match="is not a design written by"):
        nareg.design.load(tmp_path / "d.npz")
