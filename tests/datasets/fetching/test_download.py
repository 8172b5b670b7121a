"""The download of one file over real connections: TLS alone, whole files alone."""

from __future__ import annotations

import gzip

import pytest

from nareg.datasets._sources import Remote, download
from nareg.datasets.registry import git_blob
from nareg.errors import DatasetCorruptError, DatasetNotFoundError

CONTENT = bytes(range(256)) * 4000


def remote(site, path, **settings):
    return Remote("file.bin", f"{site.address}/{path}", **settings)


@pytest.fixture
def target(tmp_path):
    return tmp_path / "data" / "file.bin"


def left(target):
    return list(target.parent.iterdir()) if target.parent.exists() else []


def test_a_file_arrives_as_it_is(site, target):
    (site.folder / "a").write_bytes(CONTENT)
    shares = []
    download(remote(site, "a", digest=git_blob(site.folder / "a")), target, data_set="cora", report=shares.append)
    assert target.read_bytes() == CONTENT
    assert shares == sorted(shares)
    assert shares[-1] == 1.0


def test_another_content_than_expected_is_removed(site, target):
    (site.folder / "a").write_bytes(CONTENT)
    for digest in ("git:" + "0" * 40, "0" * 64):
        with pytest.raises(
            DatasetCorruptError, match=rf"'cora': {site.address}/a has digest .*, expected {digest}: the source"
        ):
            download(remote(site, "a", digest=digest), target, data_set="cora")
        assert left(target) == []


def test_a_truncated_download_leaves_nothing(site, target):
    def cut(handler):
        handler.send_response(200)
        handler.send_header("Content-Length", str(len(CONTENT)))
        handler.end_headers()
        handler.wfile.write(CONTENT[: len(CONTENT) // 2])
        handler.close_connection = True

    site.answers["/a"] = cut
    with pytest.raises(DatasetNotFoundError, match=r"\(the connection ended too early\): try again later"):
        download(remote(site, "a"), target, data_set="cora")
    assert left(target) == []


def redirect(to):
    def answer(handler):
        handler.send_response(302)
        handler.send_header("Location", to)
        handler.send_header("Content-Length", "0")
        handler.end_headers()

    return answer


def test_a_redirect_to_plain_http_is_refused(site, plain, target):
    (plain.folder / "a").write_bytes(CONTENT)
    site.answers["/a"] = redirect(f"{plain.address}/a")
    with pytest.raises(DatasetNotFoundError, match=rf"it redirects to {plain.address}/a, which is not https"):
        download(remote(site, "a"), target, data_set="cora")
    assert plain.requested == []
    assert left(target) == []


def test_a_redirect_over_tls_is_followed(site, target):
    (site.folder / "b").write_bytes(CONTENT)
    site.answers["/a"] = redirect("/b")
    download(remote(site, "a"), target, data_set="cora")
    assert target.read_bytes() == CONTENT
    site.answers["/a"] = redirect("/a")
    with pytest.raises(DatasetNotFoundError, match="too many redirects"):
        download(remote(site, "a"), target, data_set="cora")


def test_plain_http_is_not_even_asked(plain, target):
    (plain.folder / "a").write_bytes(CONTENT)
    with pytest.raises(DatasetNotFoundError, match="its address is not https"):
        download(remote(plain, "a"), target, data_set="cora")
    assert plain.requested == []


def test_a_certificate_that_nobody_signed_is_refused(untrusted, target):
    (untrusted.folder / "a").write_bytes(CONTENT)
    with pytest.raises(DatasetNotFoundError, match="its certificate is not valid"):
        download(remote(untrusted, "a"), target, data_set="cora")
    assert left(target) == []


def test_an_absent_file_and_an_absent_server(site, target):
    with pytest.raises(
        DatasetNotFoundError,
        match=r"could not be downloaded \(status 404\): .*put it at .*file\.bin, and run `nareg datasets fetch cora`",
    ):
        download(remote(site, "absent"), target, data_set="cora")
    nobody = Remote("a", "https://127.0.0.1:1/a")
    with pytest.raises(DatasetNotFoundError, match="no connection"):
        download(nobody, target, data_set="cora")
    assert left(target) == []


def test_more_than_the_limit_is_cut_off_even_if_it_expands(site, target):
    (site.folder / "a").write_bytes(CONTENT)
    with pytest.raises(DatasetNotFoundError, match="more than 1000 bytes"):
        download(remote(site, "a", limit=1000), target, data_set="cora")

    def bomb(handler):
        content = gzip.compress(bytes(10**7))
        handler.send_response(200)
        handler.send_header("Content-Encoding", "gzip")
        handler.send_header("Content-Length", str(len(content)))
        handler.end_headers()
        handler.wfile.write(content)

    site.answers["/b"] = bomb
    with pytest.raises(DatasetNotFoundError, match="more than 100000 bytes"):
        download(remote(site, "b", limit=10**5), target, data_set="cora")
    assert left(target) == []


def test_a_proxy_without_a_connection_is_no_traceback(site, target, monkeypatch):
    monkeypatch.setenv("HTTPS_PROXY", "http://127.0.0.1:1")
    monkeypatch.setenv("NO_PROXY", "")
    monkeypatch.setenv("no_proxy", "")
    with pytest.raises(DatasetNotFoundError, match="no connection"):
        download(remote(site, "a"), target, data_set="cora")
