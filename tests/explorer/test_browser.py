"""The page in headless Chromium: loads, moves, keys, links, files."""

from __future__ import annotations

import csv
import io
import json
import time
from pathlib import Path

import numpy as np
import pytest

import nareg

from .conftest import recovered

KEYS = pytest.importorskip("selenium.webdriver.common.keys", reason="selenium is not installed (extra test)").Keys


def state(browser) -> dict:
    return browser.execute_script("return {...explorer.state, off: [...explorer.state.off]}")


def text(browser, identifier: str) -> str:
    return browser.execute_script("return document.getElementById(arguments[0]).textContent", identifier)


def drawing(browser) -> str:
    """Map, chart and numbers as text, to see that something changed."""
    return browser.execute_script(
        "return ['map', 'chart', 'scores', 'readout'].map((id) => document.getElementById(id).outerHTML).join('')"
    )


def choose(browser, identifier: str, value: object) -> None:
    """Move a control as its user does: with the event that the browser sends."""
    browser.execute_script(
        """const control = document.getElementById(arguments[0]);
        if (control.type === "checkbox") control.click();
        else {
          control.value = arguments[1];
          for (const kind of ["input", "change"]) control.dispatchEvent(new Event(kind, { bubbles: true }));
        }""",
        identifier,
        value,
    )
    recovered(browser)


def click(browser, identifier: str) -> None:
    browser.execute_script("document.getElementById(arguments[0]).click()", identifier)
    recovered(browser)


def test_it_loads_without_a_request(show, page, record_property):
    from selenium.webdriver.support.ui import WebDriverWait

    show(page).get_log("performance")  # of the browser's own start page, too
    browser = show(page)
    events = [json.loads(entry["message"])["message"] for entry in browser.get_log("performance")]
    asked = {e["params"]["request"]["url"].split("#")[0] for e in events if e["method"] == "Network.requestWillBeSent"}
    assert {address for address in asked if not address.startswith(("data:", "blob:", "about:"))} == {page.as_uri()}
    assert page.stat().st_size < 5_000_000
    # the browser notes its first paint when it gets to it, which may be after the page is ready
    first = "return performance.getEntriesByName('first-contentful-paint').map(entry => entry.startTime)"
    (paint,) = WebDriverWait(browser, 60).until(lambda b: b.execute_script(first))
    record_property("first contentful paint, ms", paint)  # of this machine, now: told, not judged
    assert browser.title == "Your network: nareg explore"


def test_names_are_only_text(show, page, network):
    browser = show(page)
    options = browser.execute_script("return Array.from(document.getElementById('station').options, (o) => o.textContent)")
    assert options == list(network.names)
    assert browser.execute_script("return document.images.length") == 0


CONTROLS = [
    ("show", "reading"), ("show", "error"), ("show", "std"), ("show", "score"), ("box-edges", None), ("box-fixed", None),
    ("box-others", None), ("time", 50), ("method", "one"), ("method", "node"), ("method", "edge"), ("method", "wiener"),
    ("snr", 5), ("missing", 40), ("station", 2), ("window", 50), ("box-keepBad", None),
]  # fmt: skip


@pytest.mark.parametrize(("identifier", "value"), CONTROLS)
def test_every_control_changes_the_drawing(show, page, identifier, value):
    browser = show(page, "t=20&s=5&m=cleaned")
    before, link = drawing(browser), browser.current_url
    choose(browser, identifier, value)
    assert drawing(browser) != before
    assert browser.current_url != link


def test_buttons_move_time_and_stations(show, page, cleaned):
    browser = show(page, "t=20&s=5")
    click(browser, "forward")
    assert state(browser)["time"] == 21
    click(browser, "back")
    click(browser, "back")
    assert state(browser)["time"] == 19
    browser.execute_script("document.querySelector('[data-station=\"3\"]').dispatchEvent(new MouseEvent('click'))")
    recovered(browser)
    assert state(browser)["station"] == 3
    click(browser, "play")
    deadline = time.monotonic() + 10
    while state(browser)["time"] == 19 and time.monotonic() < deadline:
        time.sleep(0.05)
    click(browser, "play")
    assert state(browser)["time"] > 19
    assert text(browser, "play") == "Play"


def test_suspects_lead_to_their_readings(show, page, cleaned):
    browser = show(page, "t=0&s=0")
    suspects = cleaned.quality.suspects
    rows = browser.execute_script("return Array.from(document.querySelectorAll('.suspect'), (row) => row.textContent)")
    assert len(rows) == len(suspects)
    for k, suspect in enumerate(suspects):
        assert suspect.evidence in rows[k]
        assert suspect.kind in rows[k]
        browser.execute_script("document.querySelectorAll('.suspect')[arguments[0]].click()", k)
        recovered(browser)
        assert state(browser)["station"] == suspect.station
        assert suspect.kind in text(browser, "chart")


def test_changes_leave_the_space_time_model_and_reset_returns(show, page):
    browser = show(page)
    assert state(browser)["method"] == "cleaned"
    choose(browser, "missing", 30)
    assert state(browser)["method"] == "edge"
    click(browser, "silence")
    assert state(browser)["off"] == [state(browser)["station"]]
    assert "Silent: " in text(browser, "silent")
    click(browser, "reset")
    now = state(browser)
    assert (now["method"], now["missing"], now["off"], now["snr"]) == ("cleaned", 0, [], 0)


def test_everything_works_with_the_keyboard_alone(show, page):
    from selenium.webdriver import ActionChains

    browser = show(page, "t=20&s=5")

    def press(*keys: str) -> None:
        ActionChains(browser).send_keys(*keys).perform()
        recovered(browser)

    press(KEYS.ARROW_RIGHT, KEYS.ARROW_RIGHT, KEYS.ARROW_LEFT)
    assert state(browser)["time"] == 21
    press("n")
    assert state(browser)["station"] == 6
    press("p")
    press("x")
    assert state(browser)["off"] == [5]
    press("x")
    press("m")
    assert state(browser)["method"] == "wiener"
    press("e")
    assert state(browser)["edges"] is False
    press("f")
    assert state(browser)["station"] == browser.execute_script("return explorer.data.suspects[0].station")
    press("?")
    assert browser.execute_script("return document.getElementById('keys').open") is True
    # Tab reaches every control in turn, and each shows where the focus is
    wanted = browser.execute_script(
        "return Array.from(document.querySelectorAll('button, select, input, summary'))"
        ".filter((e) => e.offsetParent !== null).map((e) => e.id || e.textContent)"
    )
    browser.execute_script("document.activeElement.blur(); window.getSelection().removeAllRanges()")
    reached = []
    for _ in wanted:
        press(KEYS.TAB)
        reached.append(browser.execute_script("const e = document.activeElement; return e.id || e.textContent"))
        assert browser.execute_script("return getComputedStyle(document.activeElement).outlineStyle") == "solid"
    assert set(wanted) == set(reached)
    # a slider and a list move by their own keys
    browser.execute_script("document.getElementById('snr').focus()")
    press(KEYS.ARROW_RIGHT)
    assert state(browser)["snr"] == 1
    browser.execute_script("document.getElementById('station').focus()")
    before = state(browser)["station"]
    press(KEYS.ARROW_UP if before else KEYS.ARROW_DOWN)
    assert state(browser)["station"] != before
    # the page's letters work there too
    for identifier in ("station", "snr", "method"):
        browser.execute_script(
            "explorer.set({ station: 0, time: 0 }); document.getElementById(arguments[0]).focus()", identifier
        )
        recovered(browser)
        press("f")
        first = browser.execute_script("return explorer.data.suspects[0]")
        assert (state(browser)["station"], state(browser)["time"]) == (first["station"], first["start"])
    # a question is answered by Enter, and keeps the focus
    browser.execute_script("document.querySelector('[data-answer]').focus()")
    press(KEYS.ENTER)
    assert state(browser)["answers"] == [0]
    assert browser.execute_script("return document.activeElement.dataset.answer") == "0.0"


def test_the_legend_names_what_is_drawn(show, page, network, cleaned, tmp_path):
    def legend(browser) -> list[str]:
        lines = "return Array.from(document.querySelectorAll('.key li'))"
        return browser.execute_script(f"{lines}.filter((line) => line.offsetParent).map((line) => line.textContent)")

    browser = show(page, "others=0")  # readings alone: nobody knows the truth
    assert not any("truth" in line or "before noise" in line or "other stations" in line for line in legend(browser))
    assert "truth" not in text(browser, "show")
    choose(browser, "snr", 5)
    assert "what was read before noise was added" in legend(browser)
    choose(browser, "box-others", None)
    assert "estimate from the other stations alone (edge weights)" in legend(browser)
    simulated = nareg.explore(network, path=tmp_path / "simulated.html")
    assert "truth" in legend(show(simulated))


def test_three_questions_end_in_code(show, page):
    browser = show(page)
    questions = browser.execute_script("return explorer.data.questions")
    advice = browser.execute_script("return explorer.data.advice")
    shown = set()

    def walk(name: str, answers: list[int]) -> None:
        if name in advice:
            browser.execute_script("explorer.set({ answers: arguments[0] })", answers)
            recovered(browser)
            assert text(browser, "advice-code") == advice[name]["code"]
            assert browser.execute_script("return document.getElementById('advice').hidden") is False
            assert len(answers) <= 3
            shown.add(name)
            return
        for k, (_, following) in enumerate(questions[name]["answers"]):
            walk(following, [*answers, k])

    walk("time", [])
    assert shown == set(advice)


def test_a_link_restores_the_view(show, page, open_browser, tmp_path):
    browser = show(page, "t=30&s=4&m=node&snr=3&miss=25&show=error&w=50&edges=0&fixed=0&others=0&bad=1&off=1.7&q=1.2.0")
    first, link, drawn = state(browser), browser.current_url, drawing(browser)
    assert first == first | {
        "time": 30, "station": 4, "method": "node", "snr": 3, "missing": 25, "show": "error", "window": 50, "edges": False,
        "fixed": False, "others": False, "keepBad": True, "off": [1, 7], "answers": [1, 2, 0],
    }  # fmt: skip
    other = open_browser(tmp_path)  # noise and gaps are the same in another browser
    try:
        other.get(link)
        recovered(other)
        assert state(other) == first
        assert drawing(other) == drawn
    finally:
        other.quit()


@pytest.mark.parametrize(
    "link", ["t=-1&s=99999&m=magic&snr=1.5&miss=1000&show=x&w=3&off=a.b.500&q=77.88.99", "t=NaN&s=&off=..", "%E0%A4%A"]
)
def test_a_broken_link_shows_the_start(show, page, link):
    start = state(show(page))
    assert state(show(page, link)) == start


def wait_for(path: Path) -> bytes:
    deadline = time.monotonic() + 20
    while not path.exists() and time.monotonic() < deadline:
        time.sleep(0.05)
    return path.read_bytes()


@pytest.mark.parametrize(("button", "name", "svg"), [("map-png", "map.png", "map"), ("chart-png", "station.png", "chart")])
def test_pictures_are_saved(show, page, downloads, button, name, svg):
    from PIL import Image

    browser = show(page, "t=30&s=4&m=edge&snr=4&miss=20")
    click(browser, button)
    picture = np.asarray(Image.open(io.BytesIO(wait_for(downloads / name))).convert("RGB"))
    width, height = browser.execute_script(
        "const b = document.getElementById(arguments[0]).viewBox.baseVal; return [b.width, b.height]", svg
    )
    assert picture.shape == (2 * height, 2 * width, 3)
    assert len(np.unique(picture.reshape(-1, 3), axis=0)) > 50


def test_tables_are_saved(show, page, downloads, network, cleaned):
    browser = show(page, "t=30&s=2&m=cleaned")
    click(browser, "map-csv")
    click(browser, "chart-csv")
    at_time = list(csv.DictReader(io.StringIO(wait_for(downloads / "map.csv").decode())))
    series = list(csv.DictReader(io.StringIO(wait_for(downloads / "station.csv").decode())))
    assert [row["station"].removeprefix("'") for row in at_time] == list(network.names)
    assert at_time[2]["station"] == '\'=1+"2",3'  # no spreadsheet takes it for a formula
    assert [row["time"] for row in series] == [str(time) for time in network.times]
    np.testing.assert_allclose([float(row["estimate"]) for row in series], cleaned.x.to_numpy()[:, 2], atol=1e-3)
    low, high = cleaned.band(0.9)
    np.testing.assert_allclose([float(row["low"]) for row in series], low[2], atol=1e-3)
    np.testing.assert_allclose([float(row["high"]) for row in series], high[2], atol=1e-3)


def test_a_phone_needs_no_sideways_scrolling(show, page):
    browser = show(page)
    size = {"width": 360, "height": 740, "deviceScaleFactor": 2, "mobile": True}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
    try:
        show(page)
        assert browser.execute_script("return document.documentElement.scrollWidth") <= 360
    finally:
        browser.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})
