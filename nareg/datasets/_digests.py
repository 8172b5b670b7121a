"""Digests of data: of arrays, whatever file holds them, and of files as git counts them."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping
from pathlib import Path

import numpy as np

#: In front of a digest in the registry; one without is the sha256 of the file.
ARRAYS, GIT = "arrays:", "git:"
#: Names of classes, which nothing reads and some sources store as Python objects.
NOT_COUNTED = ("class_names",)
#: Bytes that are read at a time.
PIECE = 2**20


def of_arrays(arrays: Mapping[str, np.ndarray]) -> str:
    """Digest of arrays by name: of their shapes and values, not of their types, their order, or how a file packs them.

    Numbers count as float64, so that uint8 ones and float32 ones are the same, and all NaN are one.

    Raises
    ------
    ValueError
        If an array holds neither numbers nor texts, or integers that float64 does not hold.

    Examples
    --------
    >>> import numpy as np
    >>> a = of_arrays({"x": np.ones(3, np.uint8), "names": np.array(["a", "b"])})
    >>> a == of_arrays({"names": np.array(["a", "b"], "U9"), "x": np.ones(3, ">f4")})
    True
    >>> a == of_arrays({"x": np.ones((3, 1)), "names": np.array(["a", "b"])})
    False
    """
    digest = hashlib.sha256()
    for name in sorted(set(arrays) - set(NOT_COUNTED)):
        array = np.asarray(arrays[name])
        kind = "text" if array.dtype.kind == "U" else "number"
        digest.update(f"{name!r} {kind} {array.shape}\n".encode())
        digest.update(_content(name, array))
    return ARRAYS + digest.hexdigest()


def _content(name: str, array: np.ndarray) -> bytes:
    if array.dtype.kind == "U":
        return "\0".join(array.ravel().tolist()).encode()
    if array.dtype.kind not in "fiub":
        raise ValueError(f"array {name!r} has dtype {array.dtype}: numbers or texts are expected")
    values = array.astype("<f8")
    if array.dtype.kind in "iu" and array.dtype.itemsize == 8 and (np.abs(values) >= 2.0**53).any():
        raise ValueError(f"array {name!r} holds an integer of 2^53 or more")
    values = np.where(np.isnan(values), np.nan, values + 0.0)  # one NaN, one zero
    return np.ascontiguousarray(values, "<f8").tobytes()


def of_file(path: str | os.PathLike[str]) -> str:
    """The sha256 of a file."""
    return _hashed(Path(path), hashlib.sha256())


def git_blob(path: str | os.PathLike[str]) -> str:
    """The name that git gives to the content of a file, as a repository's listing shows it."""
    path = Path(path)
    return GIT + _hashed(path, hashlib.sha1(b"blob %d\0" % path.stat().st_size, usedforsecurity=False))


def _hashed(path: Path, digest: hashlib._Hash) -> str:
    with path.open("rb") as handle:
        while piece := handle.read(PIECE):
            digest.update(piece)
    return digest.hexdigest()
