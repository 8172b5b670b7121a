"""A web server with a certificate, on this machine, and raw files in the layout of each source."""

from __future__ import annotations

import dataclasses
import http.server
import shutil
import ssl
import subprocess
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from nareg.datasets import fetching


class Site:
    """Files that it gives, and answers of its own by path."""

    def __init__(self, address: str, folder: Path) -> None:
        self.address, self.folder = address, folder
        self.answers: dict[str, Callable[[http.server.BaseHTTPRequestHandler], None]] = {}
        self.requested: list[str] = []

    def serve(self, monkeypatch: pytest.MonkeyPatch, name: str, raw: Path) -> None:
        """Let a data set's files come from here: those of the folder ``raw``, by their names."""
        source = fetching.SOURCES[name]
        for remote in source.files:
            (self.folder / name).mkdir(exist_ok=True)
            if (raw / remote.name).is_file():
                shutil.copyfile(raw / remote.name, self.folder / name / remote.name)
        files = tuple(dataclasses.replace(r, url=f"{self.address}/{name}/{r.name}") for r in source.files)
        monkeypatch.setitem(fetching.SOURCES, name, dataclasses.replace(source, files=files))


@pytest.fixture(scope="session")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """A certificate for 127.0.0.1 that signs itself, and its key."""
    if shutil.which("openssl") is None:
        pytest.skip("no openssl here to make a certificate with")
    folder = tmp_path_factory.mktemp("certificate")
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=127.0.0.1", "-addext",
         "subjectAltName=IP:127.0.0.1", "-keyout", str(folder / "key.pem"), "-out", str(folder / "certificate.pem")],
        check=True, capture_output=True,
    )  # fmt: skip
    return folder / "certificate.pem", folder / "key.pem"


def _running(folder: Path, certificate: tuple[Path, Path] | None) -> Iterator[Site]:
    folder.mkdir()

    class Handler(http.server.SimpleHTTPRequestHandler):
        def __init__(self, *arguments: object, **names: object) -> None:
            super().__init__(*arguments, directory=str(folder), **names)  # type: ignore[arg-type]

        def do_GET(self) -> None:
            path = urlsplit(self.path).path
            site.requested.append(path)
            answer = site.answers.get(path)
            if answer is None:
                super().do_GET()
            else:
                answer(self)

        def log_message(self, *_: object) -> None:
            """Say nothing."""

    class Server(http.server.ThreadingHTTPServer):
        def handle_error(self, *_: object) -> None:
            """A client that hangs up is no news."""

    server = Server(("127.0.0.1", 0), Handler)
    if certificate is not None:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(*certificate)
        server.socket = context.wrap_socket(server.socket, server_side=True)
    site = Site(f"http{'s' if certificate else ''}://127.0.0.1:{server.server_address[1]}", folder)
    thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)  # a test that ends does not wait
    thread.start()
    yield site
    server.shutdown()
    server.server_close()
    thread.join()


@pytest.fixture
def untrusted(tmp_path: Path, certificate: tuple[Path, Path]) -> Iterator[Site]:
    """A server whose certificate nobody trusts."""
    yield from _running(tmp_path / "untrusted", certificate)


@pytest.fixture
def site(tmp_path: Path, certificate: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch) -> Iterator[Site]:
    """A server whose certificate is trusted in this test."""
    monkeypatch.setenv("REQUESTS_CA_BUNDLE", str(certificate[0]))
    yield from _running(tmp_path / "site", certificate)


@pytest.fixture
def plain(tmp_path: Path) -> Iterator[Site]:
    """A server without TLS."""
    yield from _running(tmp_path / "plain", None)


@pytest.fixture
def planetoid_raw(data_root: Path) -> Path:
    """Planetoid's own files of Cora and Citeseer."""
    raw = data_root / "planetoid_raw"
    if not raw.is_dir():
        pytest.skip("the data folder has no planetoid_raw")
    return raw
