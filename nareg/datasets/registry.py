"""The registry of data sets, as ``bundled/registry.toml`` states it; where their files are, and the digests of them."""

from __future__ import annotations

import hashlib
import os
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from nareg._storage.array_files import read_npz
from nareg.errors import DatasetCorruptError, DatasetNotFoundError, InputError, TooLargeError, read_errors

#: In front of a digest in the registry; one without is the sha256 of the file.
ARRAYS, GIT = "arrays:", "git:"
#: Names of classes, which nothing reads and some sources store as Python objects.
NOT_COUNTED = ("class_names",)


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
        return hashlib.file_digest(handle, lambda: digest).hexdigest()


BUNDLED = Path(__file__).parent / "bundled"


@dataclass(frozen=True)
class DatasetInfo:
    """One data set of the registry.

    Attributes
    ----------
    name, title : str
    source, license, citation : str
    shape : str
        Nodes, times and what is missing, in words.
    files : dict
        Path under the data folder -> digest: ``"arrays:..."`` of the arrays in an ``.npz`` file, or the file's sha256; None
        where there is none to compare with.
    how_to_get : str
        What to do when the files are absent.
    size : str
        Of the files that ``fetch`` writes; empty where there is nothing to fetch.
    bundled : bool
        Whether it ships inside the package.
    """

    name: str
    title: str
    source: str
    license: str
    citation: str
    shape: str
    files: dict[str, str | None]
    how_to_get: str = ""
    size: str = ""
    bundled: bool = False
    notes: tuple[str, ...] = field(default=())


def data_root(root: str | os.PathLike[str] | None = None) -> Path:
    """The data folder: ``root``, else ``$NAREG_DATA``, else the user's cache.

    Parameters
    ----------
    root : path, optional

    Returns
    -------
    pathlib.Path

    Examples
    --------
    >>> import nareg
    >>> nareg.datasets.data_root("data").name
    'data'
    """
    if root is not None:
        if not isinstance(root, (str, os.PathLike)):
            raise InputError(f"root is {root!r}, a path is expected.")
        return Path(root).expanduser()
    if os.environ.get("NAREG_DATA"):
        return Path(os.environ["NAREG_DATA"]).expanduser()
    import pooch

    return Path(pooch.os_cache("nareg"))


def locate(entry: DatasetInfo, relative: str, root: Path) -> Path:
    """Path of a file that exists and, where the registry has a digest of the file, matches it."""
    path = (BUNDLED if entry.bundled else root) / relative
    if not path.is_file():
        raise not_found(entry, root)
    expected = entry.files.get(relative)
    if expected is not None and not expected.startswith(ARRAYS):
        actual = of_file(path)
        if actual != expected:
            raise _differs(path, actual, expected)
    return path


def _differs(path: Path, actual: str, expected: str) -> DatasetCorruptError:
    return DatasetCorruptError(
        f"{path} has digest {actual.rpartition(':')[2][:12]}..., expected {expected.rpartition(':')[2][:12]}...: delete it and "
        "download it again."
    )


def changed(data_set: str, what: str, expected: str, actual: str) -> DatasetCorruptError:
    """The error that tells that a source is not what it was."""
    return DatasetCorruptError(
        f"data set {data_set!r}: {what} has digest {actual}, expected {expected}: the source has changed, nothing was "
        "written; get the files of that digest by other means, or report it to nareg's authors."
    )


def not_found(entry: DatasetInfo, root: Path) -> DatasetNotFoundError:
    """The error that names the missing files and how to get them."""
    wanted = " or ".join(str(root / f) for f in entry.files) if entry.name == "molene" else " and ".join(
        str(root / f) for f in entry.files
    )  # fmt: skip
    return DatasetNotFoundError(
        f"data set {entry.name!r} is not here: expected {wanted} (the folder is root=, else $NAREG_DATA, else the user "
        f"cache). To get it: {entry.how_to_get or f'run `nareg datasets fetch {entry.name}`'}."
    )


def arrays(entry: DatasetInfo, relative: str, root: Path) -> dict[str, np.ndarray]:
    """The arrays of an ``.npz`` file of the data set, if they are those of the registry; nothing is unpickled."""
    path, expected = locate(entry, relative, root), entry.files.get(relative) or ""
    remedy = "delete it and download it again"
    with read_errors(f"{path} cannot be read", remedy, kind=DatasetCorruptError, passed=TooLargeError):
        values = read_npz(path)
        actual = of_arrays(values) if expected.startswith(ARRAYS) else expected
    if actual != expected:
        raise _differs(path, actual, expected)
    return values


__all__ = ["BUNDLED", "REGISTRY", "DatasetInfo", "data_root", "info", "names"]


def _entries() -> dict[str, DatasetInfo]:
    stated = tomllib.loads((BUNDLED / "registry.toml").read_text(encoding="utf-8"))
    entries = {}
    for name, own in stated["sets"].items():
        facts: dict[str, Any] = {**stated["shared"].get(own.pop("like", ""), {}), **own}
        facts["files"] = {path: digest or None for path, digest in facts["files"].items()}
        entries[name] = DatasetInfo(name=name, **{**facts, "notes": tuple(facts.get("notes", ()))})
    return entries


REGISTRY = _entries()


def names() -> list[str]:
    """Names that :func:`load` takes.

    Examples
    --------
    >>> import nareg
    >>> nareg.datasets.names()[:2]
    ['us-weather', 'au-weather']
    """
    return list(REGISTRY)


def info(name: str) -> DatasetInfo:
    """Registry entry of a data set: origin, license, citation, files, and how to get it.

    Parameters
    ----------
    name : str
        One of :func:`names`, in upper or lower case.

    Returns
    -------
    DatasetInfo

    Examples
    --------
    >>> import nareg
    >>> nareg.datasets.info("us-weather").bundled
    True
    """
    known = {entry.lower(): entry for entry in REGISTRY}
    if not isinstance(name, str) or name.lower() not in known:
        raise InputError(f"name is {name!r}; choose one of {', '.join(names())}.")
    return REGISTRY[known[name.lower()]]
