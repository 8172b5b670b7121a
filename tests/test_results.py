from __future__ import annotations

import errno
import json
import subprocess
import sys
import threading
import tracemalloc

import numpy as np
import pytest

import nareg
from nareg.errors import DatasetCorruptError, InputError
from nareg.results import atomic_write


@pytest.fixture(scope="module")
def designed():
    g = nareg.graphs.grid((4, 4))
    x = np.linspace(1, 2, 16)
    return g, nareg.design.exact(g, signals=x, noise=np.full(16, 0.1), data_weight="noise")


def test_design_survives_saving_and_still_fits_its_graph_only(designed, tmp_path):
    g, d = designed
    d.save(tmp_path / "d.npz")
    back = nareg.design.load(tmp_path / "d.npz")
    np.testing.assert_array_equal(back.weights, d.weights)
    np.testing.assert_array_equal(back.data_weight, d.data_weight)
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


WRITER = """
import sys, time
from nareg.results import atomic_write
with atomic_write(sys.argv[1]) as handle:
    handle.write(b"half")
    handle.flush()
    print("begun", flush=True)
    time.sleep(600)
"""


@pytest.mark.slow
@pytest.mark.parametrize("name", ["file.bin", "x" * 250])
def test_what_a_killed_write_has_left_goes_with_the_next(name, tmp_path):
    path, other, backup = tmp_path / name, tmp_path / "other.bin", tmp_path / f".{name[:200]}.20240101"
    backup.write_bytes(b"a user's")
    writers = []
    for target in (path, path, other):
        writer = subprocess.Popen([sys.executable, "-c", WRITER, str(target)], stdout=subprocess.PIPE)
        assert writer.stdout.readline() == b"begun\n"
        writers.append(writer)
    assert len(list(tmp_path.iterdir())) == 4
    writers[0].kill()
    writers[0].wait()
    with atomic_write(path) as handle:
        handle.write(b"new")
        assert len(list(tmp_path.iterdir())) == 4  # this one's, and those of the two that are at work
    assert path.read_bytes() == b"new"
    assert len(list(tmp_path.iterdir())) == 4
    for writer in writers:
        writer.kill()
        writer.communicate()
    for target in (path, other):
        with atomic_write(target) as handle:
            handle.write(b"newer")
    assert sorted(tmp_path.iterdir()) == sorted([path, other, backup])
    assert backup.read_bytes() == b"a user's"


def test_many_writers_of_one_file_leave_it_whole_and_nothing_else(tmp_path):
    """Each clears away what others seem to have left, while they begin."""
    path, failed = tmp_path / "file.bin", []

    def write(number):
        try:
            for _ in range(100):
                with atomic_write(path) as handle:
                    handle.write(bytes([number]) * 1000)
        except Exception as error:
            failed.append(error)

    threads = [threading.Thread(target=write, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failed
    assert len(set(path.read_bytes())) == 1
    assert list(tmp_path.iterdir()) == [path]


def test_links_in_a_circle_are_said(designed, tmp_path):
    (tmp_path / "a.npz").symlink_to("b.npz")
    (tmp_path / "b.npz").symlink_to("a.npz")
    with pytest.raises(InputError, match=r"a.npz cannot be written \(its links lead in a circle\)"):
        designed[1].save(tmp_path / "a.npz")
    with pytest.raises((InputError, DatasetCorruptError), match=r"a.npz"):
        nareg.design.load(tmp_path / "a.npz")


def altered(path, out, **changes):
    """A design's file with other arrays; None leaves one out."""
    with np.load(path) as archive:
        arrays = {name: archive[name] for name in archive.files} | changes
    np.savez_compressed(out, **{name: value for name, value in arrays.items() if value is not None})


def facts_with(**changes):
    """Facts as a design has them, with these."""

    def change(meta):
        return np.array(json.dumps({**json.loads(str(meta)), **changes}))

    return change


@pytest.mark.parametrize(
    "changes",
    [
        {"penalty_indices": lambda array: array - 1},
        {"penalty_indices": lambda array: array + 1},
        {"penalty_indptr": lambda array: array[::-1]},
        {"penalty_indptr": lambda array: array[:1]},
        {"penalty_data": lambda array: array * np.nan},
        {"penalty_data": lambda array: array[:-1]},
        {"weights": lambda array: array[:-1]},
        {"weights": lambda array: array * np.inf},
        {"weights": lambda array: array.astype(str)},
        {"weights": lambda array: None},
        {"data_weight": lambda array: np.ones(7)},
        {"omega": lambda array: np.ones((7, 7))},
        {"meta": lambda array: np.array("[" * 10**6)},
        {"meta": lambda array: np.array('{"a":' * 10**5)},
        {"meta": lambda array: np.array("[" + "[]," * 10**6 + "0]")},
        {"meta": lambda array: np.array("1" * 5000)},
        {"meta": lambda array: np.array([str(array)])},
        {"meta": lambda array: np.array("null")},
        {"meta": facts_with(objective="small")},
        {"meta": facts_with(objective=10**400)},
        {"meta": facts_with(settings=[])},
        {"meta": facts_with(settings=None)},
        {"meta": facts_with(timings={"design": "long"})},
        {"meta": facts_with(certificate={})},
        {"meta": facts_with(method=3)},
        {"meta": facts_with(status="FINE")},
        {"meta": facts_with(status=[])},
        {"meta": facts_with(version=True)},
        {"meta": facts_with(more=1)},
    ],
)
def test_designs_whose_parts_do_not_fit_are_refused(changes, designed, tmp_path):
    designed[1].save(tmp_path / "d.npz")
    with np.load(tmp_path / "d.npz") as archive:
        changes = {name: change(archive[name] if name in archive.files else None) for name, change in changes.items()}
    altered(tmp_path / "d.npz", tmp_path / "other.npz", **changes)
    with pytest.raises(DatasetCorruptError, match=r"other.npz' is not a design written by WeightDesign.save"):
        nareg.design.load(tmp_path / "other.npz")


@pytest.mark.slow
@pytest.mark.parametrize("part", ["meta", "penalty_data", "weights", "unknown"])
def test_a_design_that_would_fill_the_memory_is_refused_before_it_is_read(part, designed, tmp_path):
    designed[1].save(tmp_path / "d.npz")
    bomb = np.array(" " * 10**7) if part == "meta" else np.zeros(10**7 if part != "unknown" else 5 * 10**7)
    altered(tmp_path / "d.npz", tmp_path / "other.npz", **{part: bomb})
    del bomb
    tracemalloc.start()
    with pytest.raises(DatasetCorruptError, match=r"other.npz' is not a design"):
        nareg.design.load(tmp_path / "other.npz")
    assert tracemalloc.get_traced_memory()[1] < 2**22
    tracemalloc.stop()


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
        {"data_weight": np.ones(3)},
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
