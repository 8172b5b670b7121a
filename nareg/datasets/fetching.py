"""Download a data set from its public source, convert it, and check it against the registry."""

from __future__ import annotations

import os
import shutil
from functools import partial
from pathlib import Path

from nareg.datasets._sources import SOURCES, download, verify
from nareg.datasets.registry import ARRAYS, DatasetInfo, arrays, data_root, info, locate
from nareg.errors import DatasetCorruptError, DatasetNotFoundError, InputError, NaregError
from nareg.progress import Progress, ProgressCallback

#: Folder of downloads that are not converted yet, below the data folder.
DOWNLOADS = "downloads"


def fetch(name: str, folder: str | os.PathLike[str] | None = None, *, progress: ProgressCallback | None = None) -> Path:
    """Download a data set from its public source into the data folder, as :func:`load` reads it.

    Every file comes over TLS with a checked certificate. What is downloaded is converted and compared with the digest in the
    registry, and only then appears in the data folder. A download that was interrupted continues with the file that it had
    reached. Nothing is downloaded if the data set is already there. Without a network, put the source's files into the folder
    ``downloads/NAME`` of the data folder, and call it.

    Parameters
    ----------
    name : str
        One of :func:`names`. Those without a public source are refused with what to do instead.
    folder : path, optional
        Data folder. Default: ``$NAREG_DATA``, else the user's cache.
    progress : callable, optional
        Called with a :class:`nareg.progress.Progress` per piece of a download.

    Returns
    -------
    pathlib.Path
        The data set's first file.

    Raises
    ------
    InputError
        If the data set has no public source, or the folder cannot be written.
    DatasetNotFoundError
        If a download fails.
    DatasetCorruptError
        If the source has changed: the message has the expected and the actual digest.

    Notes
    -----
    Planetoid's files are pickles. They are read by a reader that admits numbers, lists, dicts, arrays and CSR matrices, and
    nothing else.

    Examples
    --------
    >>> import nareg
    >>> nareg.datasets.fetch("us-weather")
    Traceback (most recent call last):
    nareg.errors.InputError: name='us-weather' ships with nareg: there is nothing to fetch.
    """
    entry = info(name)
    if entry.bundled:
        raise InputError(f"name={name!r} ships with nareg: there is nothing to fetch.")
    if entry.name not in SOURCES:
        raise InputError(f"name={name!r} cannot be fetched: {entry.how_to_get}.")
    root = data_root(folder)
    there = _first_whole(entry, root)
    if there is not None:
        return there
    source, raw = SOURCES[entry.name], root / DOWNLOADS / entry.name
    for i, remote in enumerate(source.files):
        path = raw / remote.name
        try:
            if path.is_file():  # from an earlier call, which leaves whole files only, or put there by hand
                verify(remote, path, entry.name)
            else:
                report = None if progress is None else partial(_report, progress, remote.name, i, len(source.files))
                download(remote, path, data_set=entry.name, report=report)
        except NaregError:
            _remove_empty(raw)
            raise
    if progress is not None:
        progress(Progress("check and convert", len(source.files), len(source.files), 1.0))
    try:
        source.deliver(entry, raw, root)
    except NaregError:  # what does not fit is downloaded anew the next time
        shutil.rmtree(raw, ignore_errors=True)
        _remove_empty(raw)
        raise
    shutil.rmtree(raw, ignore_errors=True)
    _remove_empty(raw)
    written = _first_whole(entry, root)
    if written is None:
        raise DatasetCorruptError(f"data set {entry.name!r} was written but cannot be read back: check the disk of {root}.")
    return written


def addresses(name: str) -> list[str]:
    """Public addresses of the files that a data set is made of; empty if it cannot be fetched."""
    source = SOURCES.get(info(name).name)
    return [] if source is None else [remote.url for remote in source.files]


def _first_whole(entry: DatasetInfo, root: Path) -> Path | None:
    """The data set's first file, if all of them (of Molène: one) are there with the content of the registry."""
    whole = []
    for relative, expected in entry.files.items():
        try:
            if (expected or "").startswith(ARRAYS):
                arrays(entry, relative, root)
            whole.append(locate(entry, relative, root))
        except (DatasetNotFoundError, DatasetCorruptError):
            if entry.name != "molene":
                return None
    return whole[0] if whole else None


def _report(progress: ProgressCallback, name: str, number: int, total: int, share: float) -> None:
    """Report the share of one file that has arrived as the share of all."""
    progress(Progress(f"download {name}", number + 1, total, (number + share) / total))


def _remove_empty(raw: Path) -> None:
    """Remove the folder of one data set's downloads, and that of all, where nothing is in them."""
    for folder in (raw, raw.parent):
        if folder.is_dir() and not any(folder.iterdir()):
            folder.rmdir()
