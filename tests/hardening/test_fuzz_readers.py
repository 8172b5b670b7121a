"""Damaged files: every reader ends in success or in a sentence that names the file, in little memory and time."""

from __future__ import annotations

import contextlib
import itertools
import shutil
import signal
import tracemalloc
from pathlib import Path

import numpy as np
import pytest

from nareg.errors import NaregError
from tests.hardening.damage import damaged
from tests.hardening.readers import READERS, Reader

#: Bytes that a reader may allocate for a file of some kilobytes, and the seconds after which it counts as hanging.
MEMORY, SECONDS = 2**26, 20
pytestmark = [
    pytest.mark.filterwarnings("ignore::nareg.errors.UtilityWarning"),
    pytest.mark.filterwarnings("ignore:Reading `.npy` or `.npz` file required additional header parsing:UserWarning"),
    # libraries of the files' formats, on damaged files
    pytest.mark.filterwarnings("ignore::RuntimeWarning:pyogrio"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
]
every = pytest.mark.parametrize("reader", READERS, ids=lambda reader: reader.name)


class Valid:
    """A valid file, or folder, of which fresh copies are made."""

    def __init__(self, reader: Reader, folder: Path) -> None:
        pytest.importorskip(reader.module)
        self.reader, self._original, self._work = reader, folder / "original", folder / "work"
        self._original.mkdir()
        reader.write(self._original / reader.name)

    def copy(self) -> Path:
        shutil.rmtree(self._work, ignore_errors=True)
        shutil.copytree(self._original, self._work)
        return self._work / self.reader.name


@contextlib.contextmanager
def limited():
    """Fail on a hang, and on memory that the file does not justify."""

    def hang(*_):
        raise TimeoutError(f"no end after {SECONDS} seconds")

    before = signal.signal(signal.SIGALRM, hang)
    signal.setitimer(signal.ITIMER_REAL, SECONDS)
    tracemalloc.start()
    try:
        yield
        assert tracemalloc.get_traced_memory()[1] < MEMORY
    finally:
        tracemalloc.stop()
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def check(valid: Valid, seeds) -> int:
    """Damage one file per seed and read; the number of files that were read all the same."""
    read = 0
    for seed in seeds:
        rng, path = np.random.default_rng(seed), valid.copy()
        parts = [path / part for part in valid.reader.parts] or [path]
        part = parts[int(rng.integers(len(parts)))]
        if len(parts) > 1 and rng.random() < 0.05:
            part.unlink()
        else:
            part.write_bytes(damaged(part.read_bytes(), rng))
        try:
            with limited():
                valid.reader.read(path)
            read += 1
        except NaregError as error:
            text = str(error)
            assert "\n" not in text, seed
            assert any(name in text for name in (str(path), part.name, part.stem)), (seed, text)
        except Exception as error:
            error.add_note(f"seed {seed}, {part.name}")
            raise
    return read


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(signal, "SIGALRM"), reason="a system without alarms")
@every
def test_damaged_files_are_read_or_refused_in_a_sentence_that_names_them(reader, tmp_path):
    valid = Valid(reader, tmp_path)
    if reader.valid:
        reader.read(valid.copy())
    assert check(valid, range(20)) < 20


@pytest.mark.nightly
@pytest.mark.skipif(not hasattr(signal, "SIGALRM"), reason="a system without alarms")
@every
def test_many_damaged_files(reader, tmp_path):
    check(Valid(reader, tmp_path), itertools.product([1], range(500)))
