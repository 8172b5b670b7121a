"""Facts about a data set, and where its files are."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from nareg._storage.array_files import read_npz
from nareg.datasets._digests import ARRAYS, of_arrays, of_file
from nareg.errors import UNREADABLE, DatasetCorruptError, DatasetNotFoundError, InputError, TooLargeError, brief

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
    try:
        values = read_npz(path)
        actual = of_arrays(values) if expected.startswith(ARRAYS) else expected
    except TooLargeError:
        raise
    except UNREADABLE as error:
        raise DatasetCorruptError(f"{path} cannot be read ({brief(error)}): delete it and download it again.") from None
    if actual != expected:
        raise _differs(path, actual, expected)
    return values
