"""NumPy's files from strangers: a header is believed only where the file bears it out."""

from __future__ import annotations

import io
import os
import re
import sys
import tracemalloc
import zipfile

import numpy as np
import pytest

from nareg._storage import array_files
from nareg.cli import node_files
from nareg.errors import UNREADABLE, InputError, TooLargeError
from nareg.io import read_readings


def header(shape, descr="<f8", version=1):
    """The beginning of an ``.npy`` file that declares this."""
    text = f"{{'descr': {descr!r}, 'fortran_order': False, 'shape': {shape}, }}\n".encode()
    size = len(text).to_bytes(2 if version == 1 else 4, "little")
    return b"\x93NUMPY" + bytes([version, 0]) + size + text


@pytest.mark.parametrize("write", [np.savez, np.savez_compressed])
def test_what_numpy_saved_comes_back(write, rng, tmp_path):
    arrays = {
        "floats": rng.standard_normal((3, 4)), "columns": np.asfortranarray(rng.standard_normal((3, 4))), "text": np.array("a"),
        "texts": np.array(["a", "bcd"]), "none": np.empty((0, 5)), "whole": np.arange(7, dtype=np.int16), "b": np.array(b"c"),
    }  # fmt: skip
    write(tmp_path / "a.npz", **arrays)
    result = array_files.read_npz(tmp_path / "a.npz")
    assert sorted(result) == sorted(arrays)
    for name, value in arrays.items():
        assert np.array_equal(result[name], value)
        assert result[name].dtype == value.dtype
    np.save(tmp_path / "a.npy", arrays["columns"])
    assert np.array_equal(array_files.read_npy(tmp_path / "a.npy"), arrays["columns"])


BAD = {
    "huge": (header((10**6, 10**6)) + bytes(80), "declares (1000000, 1000000) of float64, 8000000000000 bytes, but has 80"),
    "huge in version 2": (header((10**12,), version=2) + bytes(80), "8000000000000 bytes, but has 80"),
    "more than any integer": (header((10**30,)), "bytes, but has 0"),
    "cut off": (header((11,)) + bytes(80), "declares (11,) of float64, 88 bytes, but has 80"),
    "below zero": (header((-1, -10)) + bytes(80), "has the shape (-1, -10)"),
    "no size": (header((10**12,), "|V0"), "1000000000000 values of no size"),
    "objects": (header((1,), "|O") + bytes(80), "holds Python objects, which are not read from files"),
    "another version": (b"\x93NUMPY\x09\x00" + bytes(80), "has version (9, 0) of NumPy's format"),
    "deep": (header("(" * 3000 + ")" * 3000), "has a header that cannot be read"),
    "no tuple": (header("3")[:-3], ""),
    "text": (b"an error page", ""),
    "empty": (b"", ""),
}


@pytest.mark.parametrize("name", BAD)
def test_arrays_that_are_not_there_are_refused(name, tmp_path):
    content, message = BAD[name]
    (tmp_path / "a.npy").write_bytes(content)
    with zipfile.ZipFile(tmp_path / "a.npz", "w") as archive:
        archive.writestr("values.npy", content)
    for path, read in [("a.npy", array_files.read_npy), ("a.npz", array_files.read_npz)]:
        with pytest.raises(InputError if message else UNREADABLE, match=re.escape(message) or None):
            read(tmp_path / path)
    with pytest.raises(InputError):
        node_files.matrix(tmp_path / "a.npy")
    with pytest.raises(InputError):
        read_readings(tmp_path / "a.npz")


@pytest.mark.slow
def test_what_expands_beyond_reason_is_refused_before_it_is_read(tmp_path):
    with zipfile.ZipFile(tmp_path / "a.npz", "w", zipfile.ZIP_DEFLATED) as archive, archive.open("values.npy", "w") as handle:
        handle.write(header((2**26,)))
        for _ in range(2**6):
            handle.write(bytes(2**23))
    assert os.stat(tmp_path / "a.npz").st_size < 10**6
    tracemalloc.start()
    with pytest.raises(TooLargeError, match="declares 536870912, more than 200 times as many"):
        array_files.read_npz(tmp_path / "a.npz")
    assert tracemalloc.get_traced_memory()[1] < 2**22
    tracemalloc.stop()


def test_encrypted_members_are_refused(tmp_path):
    np.savez(tmp_path / "a.npz", values=np.ones(3))
    content = bytearray((tmp_path / "a.npz").read_bytes())
    content[content.index(b"PK\x01\x02") + 8] |= 1  # in the directory
    content[6] |= 1  # and in front of the member
    (tmp_path / "a.npz").write_bytes(content)
    with pytest.raises(InputError, match=r"'values.npy' is encrypted: write the file again without a password"):
        array_files.read_npz(tmp_path / "a.npz")


@pytest.mark.parametrize("method", [zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
def test_other_compressions_are_refused(method, tmp_path):
    result = io.BytesIO()
    np.save(result, np.ones(3))
    with zipfile.ZipFile(tmp_path / "a.npz", "w", method) as archive:
        archive.writestr("values.npy", result.getvalue())
    with pytest.raises(InputError, match="is not compressed as NumPy does"):
        array_files.read_npz(tmp_path / "a.npz")


@pytest.mark.filterwarnings("ignore:Duplicate name")
@pytest.mark.parametrize("names", [["readme.txt"], ["values.npy", "values.npy"], ["values"]])
def test_members_that_are_no_arrays_are_refused(names, tmp_path):
    result = io.BytesIO()
    np.save(result, np.ones(3))
    with zipfile.ZipFile(tmp_path / "a.npz", "w") as archive:
        for name in names:
            archive.writestr(name, result.getvalue())
    with pytest.raises(InputError, match="is not an NPZ file of plain arrays"):
        array_files.read_npz(tmp_path / "a.npz")


def test_pipes_and_folders_are_not_waited_for(tmp_path):
    os.mkfifo(tmp_path / "pipe.npy")
    for path in (tmp_path, tmp_path / "pipe.npy"):
        for read in (array_files.read_npy, array_files.read_npz):
            with pytest.raises(InputError, match="is a folder or a device, a file is expected"):
                read(path)


def test_a_loop_of_links_is_no_file(tmp_path):
    (tmp_path / "a.npy").symlink_to(tmp_path / "b.npy")
    (tmp_path / "b.npy").symlink_to(tmp_path / "a.npy")
    with pytest.raises(InputError, match="cannot be read"):
        node_files.matrix(tmp_path / "a.npy")


BEYOND = np.frombuffer(b"a\0\0\0\xff\xff\xff\x7f", "<U1")


@pytest.mark.parametrize(
    "texts",
    [
        BEYOND,
        np.frombuffer(b"\0\0\0a\x7f\xff\xff\xff", ">U1"),
        np.frombuffer(b"\0\xd8\0\0", "<U1").reshape(()),
        np.frombuffer(b"\x01\0\0\0\xff\xff\xff\x7f", [("number", "<i4"), ("name", "<U1")]),
    ],
)
def test_texts_beyond_unicode_are_refused_as_numpy_does_not(texts, tmp_path):
    np.savez(tmp_path / "a.npz", names=texts)
    np.save(tmp_path / "a.npy", texts)
    for read, path in (
        (array_files.read_npz, "a.npz"), (array_files.read_npy, "a.npy"), (array_files.map_npy, "a.npy")
    ):  # fmt: skip
        with pytest.raises(InputError, match=r"is damaged: text . holds 0x.*, no character: write it again"):
            read(tmp_path / path)


def test_texts_of_any_script_are_read(tmp_path):
    texts = np.array(["", "Zürich", "東京", "𝔊", chr(sys.maxunicode)])
    for kind in ("<", ">"):
        np.savez(tmp_path / "a.npz", names=texts.astype(texts.dtype.newbyteorder(kind)), none=np.zeros(0, "U3"))
        assert array_files.read_npz(tmp_path / "a.npz")["names"].tolist() == texts.tolist()
