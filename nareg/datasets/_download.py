"""One file from its public address, over TLS alone, whole or not at all."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urljoin, urlsplit

from nareg._storage.files import atomic_write
from nareg.datasets.registry import GIT, git_blob, of_file
from nareg.errors import DatasetCorruptError, DatasetNotFoundError

#: Seconds to wait for a server's answer, and for each piece of it.
TIMEOUT = 30
#: Bytes that are read at a time.
PIECE = 2**18


@dataclass(frozen=True)
class Remote:
    """A file of a source.

    Attributes
    ----------
    name : str
        Under which the converter finds it.
    url : str
        Where it is; https.
    digest : str or None
        Of its content, as in the registry of data sets.
    limit : int
        Bytes that it may have at most.
    """

    name: str
    url: str
    digest: str | None = None
    limit: int = 50 * 2**20


class _Refused(Exception):
    """Why a download ends, in words."""


class _Limited:
    """A handle that takes so many bytes and no more: an answer may be of any length, and expand."""

    def __init__(self, handle: Any, limit: int) -> None:
        self._handle, self._left, self._limit = handle, limit, limit

    def write(self, data: bytes) -> None:
        self._left -= len(data)
        if self._left < 0:
            raise _Refused(f"it has more than {self._limit} bytes")
        self._handle.write(data)

    def flush(self) -> None:
        self._handle.flush()


class _Bar:
    """What pooch takes for a bar, with the share that has arrived."""

    def __init__(self, report: Callable[[float], None]) -> None:
        self._report, self._done, self.total = report, 0, 0

    def update(self, size: int) -> None:
        self._done += size
        if self.total:
            self._report(min(self._done / self.total, 1.0))

    def reset(self) -> None:
        self._done = 0

    def close(self) -> None:
        self._report(1.0)


def download(remote: Remote, path: Path, *, data_set: str, report: Callable[[float], None] | None = None) -> None:
    """Download a file to a path, where it appears when it is whole and, where its digest is known, right.

    Parameters
    ----------
    remote : Remote
    path : pathlib.Path
    data_set : str
        For messages.
    report : callable, optional
        Called with the share that has arrived, from 0 to 1.

    Raises
    ------
    DatasetNotFoundError
        If the server does not give it: no network, no such file, no valid certificate, a redirect to plain http, a connection
        that ends too early.
    DatasetCorruptError
        If it is another file than expected.
    """
    import pooch
    import requests

    fetch = pooch.HTTPDownloader(
        progressbar=False if report is None else _Bar(report),
        chunk_size=PIECE,
        timeout=TIMEOUT,
        hooks={"response": _refuse_plain},
    )
    problem = "its address is not https" if urlsplit(remote.url).scheme != "https" else ""
    try:
        if not problem:
            with atomic_write(path) as handle:
                try:
                    fetch(remote.url, _Limited(handle, remote.limit), None)
                except requests.RequestException as error:  # an OSError, which atomic_write would take for a full disk
                    raise _Refused(_reason(error)) from error
    except _Refused as refused:
        problem = str(refused)
    if problem:
        raise DatasetNotFoundError(
            f"data set {data_set!r}: {remote.url} could not be downloaded ({problem}): try again later, or get it by other "
            f"means, put it at {path}, and run `nareg datasets fetch {data_set}` again."
        )
    verify(remote, path, data_set)


def verify(remote: Remote, path: Path, data_set: str) -> None:
    """Remove a file that is another one than expected, and say so."""
    if remote.digest is None:
        return
    actual = git_blob(path) if remote.digest.startswith(GIT) else of_file(path)
    if actual != remote.digest:
        path.unlink()
        raise changed(data_set, remote.url, remote.digest, actual)


def changed(data_set: str, what: str, expected: str, actual: str) -> DatasetCorruptError:
    """The error that tells that a source is not what it was."""
    return DatasetCorruptError(
        f"data set {data_set!r}: {what} has digest {actual}, expected {expected}: the source has changed, nothing was "
        "written; get the files of that digest by other means, or report it to nareg's authors."
    )


def _refuse_plain(response: Any, *_: Any, **__: Any) -> None:
    """A hook of requests that sees every answer before a redirect in it is followed."""
    if response.is_redirect:
        target = urljoin(response.url, response.headers["location"])
        if urlsplit(target).scheme != "https":
            raise _Refused(f"it redirects to {target}, which is not https")


def _reason(error: BaseException) -> str:
    """A few words about a failed request, without the libraries' inner names."""
    import requests

    kinds = (
        (requests.exceptions.SSLError, "its certificate is not valid"),
        (requests.exceptions.ChunkedEncodingError, "the connection ended too early"),
        (requests.exceptions.Timeout, f"no answer in {TIMEOUT} seconds"),
        (requests.exceptions.TooManyRedirects, "too many redirects"),
        (requests.exceptions.ConnectionError, "no connection"),
    )
    known = next((words for kind, words in kinds if isinstance(error, kind)), type(error).__name__)
    if isinstance(error, requests.exceptions.HTTPError) and error.response is not None:
        return f"status {error.response.status_code}"
    return known
