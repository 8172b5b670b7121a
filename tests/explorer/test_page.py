"""The file: self-contained, escaped, the same every time, whole or not at all."""

from __future__ import annotations

import base64
import hashlib
import re
from html.parser import HTMLParser

import numpy as np
import pytest

import nareg
from nareg.errors import TooLargeError
from nareg.explorer import _explore
from tests.explorer.page_data import unpack

from .conftest import AWKWARD, data_of


class Elements(HTMLParser):
    """Tags with their attributes, and the text of scripts."""

    def __init__(self) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.scripts: list[str] = []

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))
        if tag == "script":
            self.scripts.append("")

    def handle_data(self, data):
        if self.cdata_elem == "script":
            self.scripts[-1] += data


@pytest.fixture(scope="module")
def elements(page):
    parser = Elements()
    parser.feed(page.read_text(encoding="utf-8"))
    return parser


def test_nothing_is_asked_from_elsewhere(page, elements):
    text = page.read_text(encoding="utf-8")
    for tag, attributes in elements.tags:
        assert not attributes.get("src"), f"{tag} loads {attributes['src']}"
        assert (attributes.get("href") or "data:,") == "data:,"
    assert not re.search(r"@import|url\(|fetch\(|XMLHttpRequest|WebSocket|sendBeacon|EventSource|import\(", text)
    addresses = set(re.findall(r"https?://[^\s\"'<>]+", text))
    assert addresses <= {"http://www.w3.org/2000/svg"}  # a name, not an address


def test_names_cannot_break_out(page, elements, network):
    assert [tag for tag, _ in elements.tags if tag in ("script", "img")] == ["script", "script"]
    assert data_of(page)["names"] == list(network.names)
    assert set(AWKWARD) < set(network.names)
    assert "document.title=" not in page.read_text(encoding="utf-8").replace("\\u003cscript\\u003edocument.title=", "")


def test_the_policy_lets_only_this_script_run(elements):
    policy = next(a["content"] for tag, a in elements.tags if tag == "meta" and a.get("http-equiv"))
    digest = base64.b64encode(hashlib.sha256(elements.scripts[1].encode()).digest()).decode()
    assert f"script-src 'sha256-{digest}'" in policy
    assert "default-src 'none'" in policy


def test_the_same_network_gives_the_same_page(page, cleaned, tmp_path):
    again = nareg.explore(cleaned, path=tmp_path / "again.html")
    assert again.read_bytes() == page.read_bytes()


def test_the_page_holds_the_readings_the_estimate_and_the_suspects(page, cleaned, network):
    data = data_of(page)
    shape = network.readings.shape
    readings = unpack(data["readings"], shape)
    np.testing.assert_array_equal(np.isnan(readings), np.isnan(network.readings))
    np.testing.assert_allclose(readings, network.readings, atol=0.51 * data["readings"]["step"])
    np.testing.assert_allclose(
        unpack(data["cleaned"]["x"], shape), cleaned.x.to_numpy().T, atol=0.51 * data["cleaned"]["x"]["step"]
    )
    low, high = cleaned.band(0.9)
    np.testing.assert_allclose(unpack(data["cleaned"]["low"], shape), low, atol=0.51 * data["cleaned"]["low"]["step"])
    np.testing.assert_allclose(unpack(data["cleaned"]["high"], shape), high, atol=0.51 * data["cleaned"]["high"]["step"])
    shown = {(data["names"][s["station"]], s["kind"], s["evidence"]) for s in data["suspects"]}
    assert shown == {(s.name, s.kind, s.evidence) for s in cleaned.quality.suspects}
    assert set(network.faults) <= {name for name, _, _ in shown}
    times = cleaned.quality.times
    for row, suspect in zip(data["suspects"], cleaned.quality.suspects, strict=True):
        assert times[row["start"]] == suspect.start
        assert times[row["stop"]] == suspect.stop


def test_an_interrupted_write_leaves_the_old_page(page, monkeypatch, tmp_path):
    target = tmp_path / "explore.html"
    target.write_text("before")
    data = data_of(page)
    monkeypatch.setattr(_explore, "LARGEST", 1000)
    with pytest.raises(TooLargeError, match=r"the page would have 0\.\d MB"):
        _explore.write(data, target)
    assert target.read_text() == "before"
    assert [path.name for path in tmp_path.iterdir()] == ["explore.html"]


def test_json_has_no_values_that_javascript_lacks():
    with pytest.raises(ValueError, match="not JSON compliant"):
        _explore.as_json({"score": float("nan")})
    assert _explore.as_json({"a": "</x>&\u2028"}) == '{"a":"\\u003c/x\\u003e\\u0026\\u2028"}'
