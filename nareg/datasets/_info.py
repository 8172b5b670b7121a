"""Facts about a data set, and where its files are."""

from __future__ import annotations

import hashlib
import os
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from nareg._array_files import read_npz
from nareg.errors import DatasetCorruptError, DatasetNotFoundError, InputError

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
        Path under the data folder -> sha256 (None where the content is the user's own).
    how_to_get : str
        What to do when the files are absent.
    url : str or None
        Public address that ``fetch`` downloads from.
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
    url: str | None = None
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
    """Path of a file that exists and, where the registry has a checksum, matches it."""
    path = (BUNDLED if entry.bundled else root) / relative
    if not path.is_file():
        raise not_found(entry, root)
    expected = entry.files.get(relative)
    if expected is not None:
        actual = hashlib.sha256(path.read_bytes()).hexdigest()
        if actual != expected:
            raise DatasetCorruptError(
                f"{path} has sha256 {actual[:12]}..., expected {expected[:12]}...: delete it and download it again."
            )
    return path


def not_found(entry: DatasetInfo, root: Path) -> DatasetNotFoundError:
    """The error that names the missing files and how to get them."""
    wanted = " or ".join(str(root / f) for f in entry.files) if entry.name == "molene" else " and ".join(
        str(root / f) for f in entry.files
    )  # fmt: skip
    return DatasetNotFoundError(
        f"data set {entry.name!r} is not here: expected {wanted} (the folder is root=, else $NAREG_DATA, else the user "
        f"cache). To get it: {entry.how_to_get}."
    )


def arrays(entry: DatasetInfo, relative: str, root: Path) -> dict[str, np.ndarray]:
    """The arrays of an ``.npz`` file of the data set; nothing is unpickled."""
    return read_npz(locate(entry, relative, root))
