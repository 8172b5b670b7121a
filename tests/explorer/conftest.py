"""A page of a small network with awkward names, and a real browser to open it."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import nareg

#: Names that would break a careless page, CSV or script.
AWKWARD = (
    "</script><script>document.title='broken'</script>",
    "<img src=x onerror=alert(1)>",
    '=1+"2",3',
    "Brécé & fils\u2028",
)
FLAGS = (
    "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
    "--disable-component-update", "--disable-sync", "--window-size=1300,1400",
)  # fmt: skip


def data_of(page: Path) -> dict[str, Any]:
    """The JSON inside a page."""
    found = re.search(r'<script type="application/json" id="data">(.*?)</script>', page.read_text(encoding="utf-8"), re.DOTALL)
    assert found is not None
    return json.loads(found[1])


@pytest.fixture(scope="session")
def network() -> nareg.datasets.SimulatedNetwork:
    made = nareg.datasets.simulated(10, 72, faults=("dead", "stuck"), rng=np.random.default_rng(5))
    names = AWKWARD + made.names[len(AWKWARD) :]
    faults = {names[made.names.index(name)]: kind for name, kind in made.faults.items()}
    return replace(made, names=names, faults=faults)


@pytest.fixture(scope="session")
def cleaned(network):
    graph = network.graph()
    readings = nareg.io.Readings(network.names, tuple(map(str, network.times)), network.readings, network.times)
    return nareg.clean(readings, graph, unit="°C")


@pytest.fixture(scope="session")
def page(cleaned, tmp_path_factory) -> Path:
    return nareg.explore(cleaned, path=tmp_path_factory.mktemp("explore") / "explore.html")


@pytest.fixture(scope="session")
def open_browser() -> Callable[[Path], Any]:
    """Start Chromium with an empty profile; the folder takes its downloads."""
    webdriver = pytest.importorskip("selenium.webdriver", reason="selenium is not installed (extra test)")
    chromium = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome", "chrome"))), None)
    driver = shutil.which("chromedriver")
    if chromium is None or driver is None:
        pytest.skip("Chromium and chromedriver are not on the PATH")

    def start(folder: Path) -> Any:
        options = webdriver.ChromeOptions()
        options.binary_location = chromium
        for flag in (*FLAGS, f"--user-data-dir={folder / 'profile'}"):
            options.add_argument(flag)
        options.add_experimental_option(
            "prefs",
            {
                "download.default_directory": str(folder),
                "profile.default_content_setting_values.automatic_downloads": 1,  # without asking
            },
        )
        options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
        return webdriver.Chrome(options=options, service=webdriver.ChromeService(driver))

    return start


@pytest.fixture(scope="module")
def downloads(tmp_path_factory) -> Path:
    return tmp_path_factory.mktemp("downloads")


@pytest.fixture(scope="module")
def browser(open_browser, downloads) -> Iterator[Any]:
    started = open_browser(downloads)
    yield started
    started.quit()


@pytest.fixture
def show(browser) -> Callable[..., Any]:
    """Open a page at a link, and wait until it has computed everything; errors on the console fail the test."""

    def opened(page: Path, link: str = "") -> Any:
        browser.get("about:blank")
        browser.get(page.as_uri() + (f"#{link}" if link else ""))
        recovered(browser)
        return browser

    yield opened
    assert [entry for entry in browser.get_log("browser") if entry["level"] in ("SEVERE", "WARNING")] == []


def recovered(browser: Any) -> None:
    """Wait until the page has drawn and computed everything."""
    from selenium.webdriver.support.ui import WebDriverWait

    WebDriverWait(browser, 60).until(lambda b: b.execute_script("return !!globalThis.explorer && explorer.isReady()"))
