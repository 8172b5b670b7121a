"""Where every data set that can be fetched comes from, and the download of one file: over TLS alone, whole or not at all."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import urljoin, urlsplit

from nareg._storage.files import atomic_write
from nareg.datasets import _converters
from nareg.datasets._delivery import Deliver, converted, counted, radomeh_archive, shipped, unpacked
from nareg.datasets.registry import GIT, changed, git_blob, of_file
from nareg.errors import DatasetNotFoundError

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


_MB = 2**20
#: What a repository's default branch is called in an address: where the full name of a commit is not known here, its files are
#: the present ones, and their digest tells whether they are still those of the registry.
HEAD = "HEAD"
#: Names that git gives to the files of Planetoid, where they are known.
_PLANETOID = {
    "ind.citeseer.allx": "592091071ac35b78599c722d0e60b1c655711728",
    "ind.citeseer.ally": "7503f81a0b6ac1cc21cb5a97073542a6b1dfe99c",
    "ind.citeseer.graph": "a01dca663d0103c130f525017a4a9c313037e286",
    "ind.citeseer.test.index": "62d9e3d5ed53c66b069125af98529d76c70d9b3e",
    "ind.citeseer.tx": "b2aff18aa1fc6f4f5e8c64db7643b59b24e42584",
    "ind.citeseer.ty": "3795f79df0cd1123f4478b77c148a5fbacc4cefb",
    "ind.citeseer.x": "f094104a66f2689ffbd01085fe6a856689e9db9e",
    "ind.citeseer.y": "e857ac49b611da98e101a068cf4855350274f68a",
    "ind.cora.allx": "44d53b1fece343538e45592caac521d73c6f98d6",
    "ind.cora.ally": "04fbd0b083d09341fcf16b395c642329637f0542",
    "ind.cora.graph": "4d3bf85dfc8b1c105a2c995597a1b3eed6947925",
    "ind.cora.test.index": "ded8092db4cd767a367eebe09003b954a5316f24",
    "ind.cora.tx": "6e856d777401ee15dc8619db76c97d0a40ba2d60",
    "ind.cora.ty": "da1734ab670b5c8ecee78a9c30b35566df916f4b",
    "ind.cora.x": "c4a91d008245403e7f26aa616b437191509793c0",
    "ind.cora.y": "58e30ef120d3553cfaac33ff28c6b5436dbef661",
    "ind.pubmed.allx": "3b86bccf08111c37c632a9dd8ab63db25ea76361",
}


@dataclass(frozen=True)
class Source:
    """Files to download, and what becomes of them."""

    files: tuple[Remote, ...]
    deliver: Deliver


def _github(repository: str, commit: str, path: str, *, name: str = "", git: str | None = None) -> Remote:
    return Remote(
        name or path.rpartition("/")[2],
        f"https://raw.githubusercontent.com/{repository}/{commit}/{path}",
        None if git is None else f"git:{git}",
    )


def _planetoid_files(name: str) -> Iterable[Remote]:
    for part in _converters.PLANETOID_PARTS:
        file = f"ind.{name}.{part}"
        commit = "af6abf468a772cc055bec88c52e4d6f51b7c37e3"
        yield _github("kimiyoung/planetoid", commit, f"data/{file}", git=_PLANETOID.get(file))


def _planetoid(name: str) -> Source:
    return Source(tuple(_planetoid_files(name)), converted(partial(_converters.planetoid, name)))


def _geom_gcn(name: str) -> Source:
    repository, commit = "graphdml-uiuc-jlu/geom-gcn", "f1fc0d14b3b019c562737240d06ec83b07d16a8f"
    paths = [f"new_data/{name}/{file}" for file in (_converters.GEOM_NODES, _converters.GEOM_EDGES)]
    paths += [f"splits/{_converters.geom_split_file(name, k)}" for k in range(_converters.GEOM_SPLITS)]
    return Source(tuple(_github(repository, commit, path) for path in paths), converted(partial(_converters.geom_gcn, name)))


def _shchur(file: str) -> Source:
    remote = _github("shchur/gnn-benchmark", "master", f"data/npz/{file}")
    return Source((remote,), converted(partial(_converters.shchur, file)))


def _metattack(name: str) -> Source:
    pro_gnn, gadc = "ChandlerBang/Pro-GNN", "SongtaoLiu0823/GADC"
    files = [
        _github(pro_gnn, HEAD, f"splits/{_converters.METATTACK_SPLIT.format(name)}"),
        _github(pro_gnn, HEAD, f"meta/{name}_meta_adj_0.25.npz", name=f"pro-gnn-{name}-0.25.npz"),
    ]
    for share in ("0.25", "0.5", "0.75"):
        path = f"Non-Adaptive_Adversarial_Attack/meta_adj/{name}_meta_adj_{share}.npz"
        files.append(_github(gadc, HEAD, path, name=f"gadc-{name}-{share}.npz"))
    if name == "pubmed":
        files += _planetoid_files(name)
        return Source(tuple(files), converted(partial(_converters.metattack, name), partial(_converters.planetoid, name)))
    files.append(_github("danielzuegner/gnn-meta-attack", "master", f"data/{_converters.METATTACK_CLEAN.format(name)}"))
    return Source(tuple(files), converted(partial(_converters.metattack, name)))


def _graph_trss(readings: str, folder: str) -> Source:
    commit = "df5d592ee8e6574accba043d1cdfec2e8efdebb2"
    remote = _github("jhonygiraldo/GraphTRSS", commit, f"{folder}/{_converters.MAT[readings][0]}")
    return Source((remote,), converted(partial(_converters.graph_trss, readings)))


def _aqi36() -> Source:
    commit, folder = "f1292f04024fa37ddf1cadd1d9b6170e1f55dc75", "data/pm25/SampleData"
    names = (_converters.PLACES, _converters.MEASURED, _converters.SHOWN)
    return Source(tuple(_github("LMZZML/PriSTI", commit, f"{folder}/{name}") for name in names), converted(_converters.aqi36))


def _ogb(archive: str, megabytes: int) -> Source:
    url = f"https://snap.stanford.edu/ogb/data/nodeproppred/{archive}"
    return Source((Remote(archive, url, limit=megabytes * _MB),), unpacked)


def _flickr() -> Source:
    """The files that PyTorch Geometric's class ``Flickr`` downloads."""
    numbers = {
        "adj_full.npz": "1crmsTbd1-2sEXsGwa2IKnIB7Zd3TmUsy",
        "feats.npy": "1join-XdvX3anJU_MLVtick7MgeAQiWIZ",
        "class_map.json": "1uxIkbtg5drHTsKt-PAsZZ4_yJmgFmle9",
        "role.json": "1htXCtuktuCW8TR8KiKfrFDAxUgekQoV7",
    }
    address = "https://drive.usercontent.google.com/download?id={}&confirm=t"
    return Source(tuple(Remote(file, address.format(number), limit=800 * _MB) for file, number in numbers.items()), counted)


def _heterophilous(file: str) -> Source:
    commit = "a431395582e929d88271309716bea4fe24ce6318"
    return Source((_github("yandex-research/heterophilous-graphs", commit, f"data/{file}"),), counted)


#: By name of the data set.
SOURCES = {
    "au-weather": Source((), shipped),
    "molene": Source(
        (
            Remote(
                "RADOMEH.tar.gz",
                "https://donneespubliques.meteofrance.fr/donnees_libres/Hackathon/RADOMEH.tar.gz",
                limit=200 * _MB,
            ),
        ),
        radomeh_archive,
    ),
    "sea-surface-temperature": _graph_trss("temperature_C", "sea_surface_temperature_experiment"),
    "pm25-california": _graph_trss("pm25", "PM2_5_concentration_experiment"),
    "aqi36": _aqi36(),
    **{name: _planetoid(name) for name in ("cora", "citeseer", "pubmed")},
    **{name: _geom_gcn(name) for name in ("cornell", "texas", "wisconsin")},
    "actor": _geom_gcn("film"),
    "amazon-photo": _shchur("amazon_electronics_photo.npz"),
    "coauthor-cs": _shchur("ms_academic_cs.npz"),
    "coauthor-physics": _shchur("ms_academic_phy.npz"),
    **{f"metattack-{name}": _metattack(name) for name in ("cora", "citeseer", "pubmed")},
    "flickr": _flickr(),
    "amazon-ratings": _heterophilous("amazon_ratings.npz"),
    "roman-empire": _heterophilous("roman_empire.npz"),
    "ogbn-arxiv": _ogb("arxiv.zip", 400),
    "ogbn-products": _ogb("products.zip", 3000),
}
