"""The reader of Planetoid's pickles: what it reads, and everything else it refuses before anything runs."""

from __future__ import annotations

import collections
import hashlib
import os
import pickle
import pickletools
import subprocess
import sys
import warnings

import numpy as np
import pytest
import scipy.sparse as sp

from nareg.datasets._pickles import NAMES, read_pickle
from nareg.errors import DatasetCorruptError

#: Digest of the fourteen pickles of Cora and Citeseer, one after the other by name.
PUBLISHED = "6ad381a2611bedf86a7c2dfb1865e2497b1dda7b393cc3d451ce58b83e81d4bf"


def written(path, content: bytes):
    path.write_bytes(content)
    return path


def array_opcodes(shape: bytes, code: bytes, order: bytes, data: bytes) -> bytes:
    """An array as Python 2 pickled it."""
    length = len(data).to_bytes(4, "little")
    return (
        b"cnumpy.core.multiarray\n_reconstruct\ncnumpy\nndarray\nK\x00\x85U\x01b\x87R(K\x01" + shape + b"cnumpy\ndtype\nU"
        + bytes([len(code)]) + code + b"K\x00K\x01\x87R(K\x03U\x01" + order + b"NNNJ\xff\xff\xff\xffJ\xff\xff\xff\xffK\x00tb"
        + b"\x89T" + length + data + b"tb"
    )  # fmt: skip


def test_the_published_files_are_read_as_pickle_reads_them(planetoid_raw):
    """An ordinary reader gets no other files than these."""
    paths = [path for path in sorted(planetoid_raw.glob("ind.*")) if not path.name.endswith("test.index")]
    assert hashlib.sha256(b"".join(path.read_bytes() for path in paths)).hexdigest() == PUBLISHED
    for path in paths:
        mine = read_pickle(path)
        with path.open("rb") as handle, warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # about the old names of NumPy and SciPy in them
            theirs = pickle.load(handle, encoding="latin-1")
        if sp.issparse(theirs):
            assert (mine != theirs).nnz == 0
            assert mine.dtype == theirs.dtype
        elif isinstance(theirs, np.ndarray):
            np.testing.assert_array_equal(mine, theirs)
            assert mine.dtype == theirs.dtype
        else:
            assert mine == dict(theirs)


@pytest.mark.parametrize(("order", "code"), [(b"<", b"f8"), (b">", b"f4"), (b"<", b"i4"), (b"|", b"u1")])
def test_arrays_of_either_byte_order(tmp_path, order, code):
    values = np.arange(3, dtype=np.dtype(order.decode().replace("|", "<") + code.decode()))
    content = b"\x80\x02" + array_opcodes(b"K\x03\x85", code, order, values.tobytes()) + b"."
    read = read_pickle(written(tmp_path / "a", content))
    np.testing.assert_array_equal(read, values)
    assert read.dtype == values.dtype


class Malicious:
    """Runs a command when an ordinary reader unpickles it."""

    def __init__(self, mark) -> None:
        self.mark = mark

    def __reduce__(self):
        return os.system, (f"touch {self.mark}",)


@pytest.mark.parametrize("protocol", range(6))
def test_a_malicious_pickle_runs_nothing(tmp_path, protocol):
    mark = tmp_path / "ran"
    path = written(tmp_path / "evil", pickle.dumps(Malicious(mark), protocol=protocol))
    with pytest.raises(DatasetCorruptError, match=r"evil is not a pickle of arrays, .*: it is damaged or malicious; delete it"):
        read_pickle(path)
    assert not mark.exists()
    pickle.loads(path.read_bytes())  # so that the test tests something
    assert mark.exists()


HOSTILE = {
    "a builtin": b"\x80\x02c__builtin__\neval\nU\x011\x85R.",
    "an attribute of numpy": b"\x80\x02cnumpy\nload\nU\x01x\x85R.",
    "a submodule by a dotted name": b"\x80\x02cnumpy\nndarray.tofile\n.",
    "numpy's own unpickler of objects": b"\x80\x02cnumpy.core.multiarray\nscalar\n.",
    "a class that makes objects": b"\x80\x02ccopy_reg\n_reconstructor\n.",
    "a persistent object": b"\x80\x02U\x01xQ.",
    "an extension code": b"\x80\x02\x82\x01.",
    "an instruction of another protocol": b"\x80\x04\x8c\x02os\x8c\x06system\x93.",
    "an old instruction that calls": b"(U\x04trueios\nsystem\n.",
    "a memo slot that takes all memory": b"\x80\x02}r\xff\xff\xff\x7f.",
    "a length beyond the file": b"\x80\x02T\xff\xff\xff\x7fabc.",
    "an array of objects": b"\x80\x02" + array_opcodes(b"K\x01\x85", b"O8", b"|", b"\0" * 8) + b".",
    "an array larger than its bytes": b"\x80\x02" + array_opcodes(b"J\xff\xff\xff\x7f\x85", b"f8", b"<", b"\0" * 8) + b".",
    "a state for a class": b"\x80\x02cnumpy\nndarray\n}(U\x01aK\x01ub.",
    "a state for a list": b"\x80\x02]}(U\x01aK\x01ub.",
    "a state for a dict": b"\x80\x02ccollections\ndefaultdict\n)R}(U\x01aK\x01ub.",
    "two states for a class": b"\x80\x02cnumpy\ndtype\nN}(U\x01aK\x01u\x86b.",
    "an array of no class": b"\x80\x02cnumpy.core.multiarray\n_reconstruct\nK\x01K\x00\x85U\x01b\x87R.",
    "a matrix without parts": b"\x80\x02cscipy.sparse.csr\ncsr_matrix\n)\x81}b.",
    "a dict of texts": b"\x80\x02}U\x01aU\x01bs.",
    "a dict of bools": b"\x80\x02}K\x01]\x88as.",
    "a number alone": b"\x80\x02K\x01.",
    "a list of a list": b"\x80\x02c__builtin__\nlist\n]\x85R.",
    "an array whose shape is no tuple": b"\x80\x02" + array_opcodes(b"]", b"f8", b"<", b"") + b".",
    "nothing": b"",
    "a text file": b"hello",
}


@pytest.mark.parametrize("kind", HOSTILE)
def test_everything_else_is_refused(tmp_path, kind):
    before = {name: set(vars(value)) for name, value in NAMES.items()}
    with pytest.raises(DatasetCorruptError, match="is not a pickle of arrays"):
        read_pickle(written(tmp_path / "hostile", HOSTILE[kind]))
    assert {name: set(vars(value)) for name, value in NAMES.items()} == before


def nested(depth: int, start: bytes = b"K\x01") -> bytes:
    """A tuple of 2^depth elements, which are all the same few."""
    return start + b"".join(b"q" + bytes([k]) + b"h" + bytes([k]) + b"\x86" for k in range(depth))


BOMBS = {
    "hash": b"\x80\x02}" + nested(60) + b"K\x00s.",
    "hash, between a mark": b"\x80\x02}(" + nested(60) + b"K\x00K\x01K\x02u.",
    "hash, out of the memo": b"\x80\x02" + nested(60) + b"q\xf0}h\xf0K\x00s.",
    "hash, after a state": b"\x80\x02" + nested(60) + b"Nbq\xf0}h\xf0K\x00s.",
    "hash, after no items": b"\x80\x02" + nested(60) + b"(eq\xf0}h\xf0K\x00s.",
    "hash of depth": b"\x80\x02}" + b")" + b"\x85" * 200_000 + b"K\x00s.",
    "type in a message": (
        b"\x80\x02" + array_opcodes(b"K\x01\x85", b"f8", b"<", b"\0" * 8).replace(b"U\x02f8", nested(60)) + b"."
    ),
    "order in a message": (
        b"\x80\x02" + array_opcodes(b"K\x01\x85", b"f8", b"<", b"\0" * 8).replace(b"U\x01<", nested(60)) + b"."
    ),
    "shape in a message": b"\x80\x02" + array_opcodes(nested(60), b"f8", b"<", b"\0" * 8) + b".",
    "shape of a matrix": (
        b"\x80\x02cscipy.sparse.csr\ncsr_matrix\n)\x81}(U\x06_shape" + nested(60) + b"U\x04data"
        + array_opcodes(b"K\x01\x85", b"f8", b"<", b"\0" * 8) + b"U\x07indices"
        + array_opcodes(b"K\x01\x85", b"i4", b"<", b"\0" * 4) + b"U\x06indptr"
        + array_opcodes(b"K\x02\x85", b"i4", b"<", b"\0\0\0\0\1\0\0\0") + b"ub."
    ),
    "one string in many arrays": (
        b"\x80\x02T" + (2**24).to_bytes(4, "little") + b"\0" * 2**24 + b"q\x00](" + 2000 * (
            b"cnumpy.core.multiarray\n_reconstruct\ncnumpy\nndarray\nK\x00\x85U\x01b\x87R(K\x01J\0\0\0\1\x85cnumpy\ndtype\n"
            b"U\x02u1K\x00K\x01\x87R(K\x03U\x01|NNNK\x00K\x00K\x00tb\x89h\x00tb"
        ) + b"e."
    ),
    "lists of a long list": (
        b"\x80\x02](" + b"K\x01" * 100_000 + b"e\x85q\x00c__builtin__\nlist\nq\x01](" + b"h\x01h\x00R" * 20_000 + b"e."
    ),
}  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("kind", BOMBS)
def test_small_files_that_would_take_forever_or_all_memory_are_refused(tmp_path, kind):
    """In a process with 5 seconds of time and 2 GB of addresses more than the library takes."""
    script = f"""
import resource, nareg
from nareg.datasets._pickles import read_pickle
pages = int(open("/proc/self/statm").read().split()[0]) if {sys.platform == "linux"} else 0
if pages:
    limit = pages * resource.getpagesize() + 2**31
    resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
used = resource.getrusage(resource.RUSAGE_SELF).ru_utime
resource.setrlimit(resource.RLIMIT_CPU, (int(used) + 6, int(used) + 6))
try:
    read_pickle({str(written(tmp_path / "bomb", BOMBS[kind]))!r})
except nareg.errors.DatasetCorruptError:
    print("refused")
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=120, check=False)
    assert done.stdout == "refused\n", done.stderr


def test_a_matrix_with_an_index_outside_is_refused(planetoid_raw, tmp_path):
    """SciPy's compiled loops would write where the index points."""
    content = (planetoid_raw / "ind.cora.x").read_bytes()
    columns = [argument for code, argument, _ in pickletools.genops(content) if code.name == "BINSTRING"][1].encode("latin-1")
    assert content.count(columns[:64]) == 1
    broken = content.replace(columns[:4], (5000).to_bytes(4, "little"), 1)
    with pytest.raises(DatasetCorruptError, match=r"in column 5000 of 1433"):
        read_pickle(written(tmp_path / "broken", broken))


@pytest.mark.slow
def test_changed_bytes_never_end_in_another_error(planetoid_raw, tmp_path, rng):
    """A bounded fuzz: every change is read as data or refused."""
    for name in ("ind.cora.y", "ind.cora.x", "ind.citeseer.graph"):
        content = bytearray((planetoid_raw / name).read_bytes())
        for _ in range(150):
            changed = content.copy()
            for at in rng.integers(0, min(len(content), 2000), 3):
                changed[at] = rng.integers(256)
            try:
                read = read_pickle(written(tmp_path / "fuzzed", bytes(changed)))
            except DatasetCorruptError:
                continue
            assert isinstance(read, np.ndarray | sp.csr_array | dict)
    assert not isinstance(read_pickle(planetoid_raw / "ind.cora.graph"), collections.defaultdict)
