"""Open Graph Benchmark's archives: the files that nareg reads, checked by their numbers of lines.

No digest of their arrays is known here. Members are read by their exact names and never unpacked under a path of the archive's.
"""

from __future__ import annotations

import gzip
import zipfile
from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from typing import IO, Any

from nareg._storage.files import atomic_write

#: Of each set: folder in its archive, nodes, directed edges.
ARCHIVES = {"ogbn-arxiv": ("arxiv", 169_343, 1_166_243), "ogbn-products": ("products", 2_449_029, 61_859_140)}
#: Bytes that one member may have.
MEMBER_LIMIT = 4 * 2**30
PIECE = 2**20


def unpack(name: str, archive: Path, wanted: list[str], folder: Path) -> None:
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
