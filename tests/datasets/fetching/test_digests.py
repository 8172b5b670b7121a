"""Digests of arrays and of files, and those of the registry against the prepared files."""

from __future__ import annotations

import hashlib

import numpy as np
import pytest

import nareg
from nareg._storage.array_files import read_npz
from nareg.datasets import registry

ARRAYS = {"x": np.array([[0.0, 1.5], [np.nan, -2.0]]), "n": np.array(3), "names": np.array(["a", "bc"])}


def test_the_container_type_and_order_do_not_count(tmp_path):
    expected = registry.of_arrays(ARRAYS)
    assert expected.startswith("arrays:")
    other = {
        "names": ARRAYS["names"].astype("U20"),
        "n": np.array(3, np.uint8),
        "x": np.asfortranarray(ARRAYS["x"].astype(">f4")),
        "class_names": np.array(["not", "counted"]),
    }
    assert registry.of_arrays(other) == expected
    np.savez(tmp_path / "a.npz", **ARRAYS)
    np.savez_compressed(tmp_path / "b.npz", **other)
    assert registry.of_file(tmp_path / "a.npz") != registry.of_file(tmp_path / "b.npz")
    assert {registry.of_arrays(read_npz(tmp_path / f"{k}.npz")) for k in "ab"} == {expected}
    assert registry.of_arrays({"x": np.array([-0.0])}) == registry.of_arrays({"x": np.array([0.0])})


@pytest.mark.parametrize(
    "other",
    [
        {"x": ARRAYS["x"] + 1e-9},
        {"x": ARRAYS["x"].T},
        {"x": ARRAYS["x"].ravel()},
        {"x": np.nan_to_num(ARRAYS["x"])},
        {"names": np.array(["ab", "c"])},
        {"names": np.array(["a", "bd"])},
        {"y": ARRAYS["x"]},
    ],
)
def test_every_value_shape_and_name_counts(other):
    assert registry.of_arrays({**ARRAYS, **other}) != registry.of_arrays(ARRAYS)


def test_what_has_no_plain_values_is_refused():
    with pytest.raises(ValueError, match="array 'x' has dtype object"):
        registry.of_arrays({"x": np.array([None])})
    with pytest.raises(ValueError, match="integer of 2\\^53"):
        registry.of_arrays({"x": np.array([2**53])})


def test_file_digests_are_gits_and_sha256(tmp_path):
    (tmp_path / "a").write_bytes(b"what is up, doc?")
    assert registry.git_blob(tmp_path / "a") == "git:bd9dbf5aae1a3862dd1526723246b20206e5fc37"  # the example of Pro Git
    assert registry.of_file(tmp_path / "a") == hashlib.sha256(b"what is up, doc?").hexdigest()


@pytest.mark.parametrize("name", nareg.datasets.names())
def test_the_registry_has_the_digests_of_the_prepared_files(name, data_root):
    """``python data/digests.py FOLDER`` prints the actual ones."""
    for relative, expected in nareg.datasets.info(name).files.items():
        path = data_root / relative
        if expected is None or not path.is_file():
            continue
        if expected.startswith("arrays:"):
            assert registry.of_arrays(read_npz(path)) == expected
        else:
            assert registry.of_file(path) == expected
