"""What the page computes is what nareg computes."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
import scipy.sparse as sp

import nareg
from nareg.errors import AmplificationWarning
from nareg.explorer import _explore
from nareg.explorer._payload import encode
from tests.explorer.page_data import decode

from .conftest import data_of, recovered

METHODS = ("one", "node", "edge", "wiener")
#: Standard deviations of a band of 90 %.
REACH = 1.6448536269514722


class Page:
    """The data of a page as nareg's objects."""

    def __init__(self, path) -> None:
        self.data = data_of(path)
        self.n = len(self.data["names"])
        i, j = (decode(self.data["edges"][key], "uint16").astype(int) for key in ("from", "to"))
        A = np.zeros((self.n, self.n))
        A[i, j] = A[j, i] = decode(self.data["edges"]["weight"], "float64")
        self.i, self.j, self.graph = i, j, nareg.Graph(A)
        self.levels = decode(self.data["levels"], "float64")
        lower = decode(self.data["moment"], self.data["momentType"])
        R = np.zeros((self.n, self.n))
        R[np.tril_indices(self.n)] = lower
        self.moment = R + np.tril(R, -1).T

    def weights(self, method: str, k: int):
        stored = self.data["designs"][method][k]
        if method == "one":
            return stored
        values = decode(stored, "float64")
        if method == "node":
            return values
        S = np.diag(values[: self.n])
        S[self.i, self.j] = S[self.j, self.i] = values[self.n :]
        return S

    def answer(self, method: str, k: int, y: np.ndarray, seen: np.ndarray) -> np.ndarray:
        z = np.where(seen, y - self.levels, 0.0)
        if method == "wiener":
            x = nareg.baselines.lmmse(
                self.graph, z, second_moment=self.moment, noise=self.data["variances"][k], observed=seen
            )  # fmt: skip
        else:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", AmplificationWarning)
                weights = self.weights(method, k)
                weights = sp.csr_array(weights) if method == "edge" else weights
                x = nareg.filters.interpolate(self.graph, weights, z, seen, tol=1e-12).x
        return x + self.levels

    def matrix(self, method: str, k: int, seen: np.ndarray) -> np.ndarray:
        """The filter as a matrix, column by column."""
        columns = [self.answer(method, k, self.levels + column, seen) - self.levels for column in np.eye(self.n)]
        return np.column_stack(columns) * seen


def at(browser, t: int) -> dict[str, np.ndarray]:
    now = browser.execute_script(
        "const now = explorer.at(arguments[0]); return { y: Array.from(now.y, (v) => Number.isFinite(v) ? v : null),"
        " seen: Array.from(now.seen), x: Array.from(now.x) }",
        t,
    )
    y = np.array([np.nan if value is None else value for value in now["y"]])
    return {"y": y, "seen": np.array(now["seen"], dtype=bool), "x": np.array(now["x"])}


def choose(browser, **changes) -> None:
    browser.execute_script(
        "const c = arguments[0]; if (c.off) c.off = new Set(c.off); explorer.set(c)", changes
    )  # fmt: skip
    recovered(browser)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize(("snr", "missing"), [(0, 0), (3, 0), (7, 0), (5, 40), (2, 85)])
def test_silencing_stations_gives_the_python_answer(show, page, method, snr, missing):
    python, browser = Page(page), show(page)
    choose(browser, method=method, snr=snr, missing=missing, off=[1, 4])
    for t in (0, 11, 50, 71):
        now = at(browser, t)
        assert not now["seen"][[1, 4]].any()
        assert np.isfinite(now["y"][now["seen"]]).all()
        if now["seen"].any():
            np.testing.assert_allclose(now["x"], python.answer(method, snr, now["y"], now["seen"]), rtol=0, atol=1e-6)
        else:
            np.testing.assert_array_equal(now["x"], python.levels)


def test_the_button_silences_and_the_others_answer(show, page):
    """What the others say about a station is the estimate once it is silent."""
    python, browser = Page(page), show(page, "t=30&s=6&m=edge")
    said = browser.execute_script("return explorer.others(30, 6)")
    before = at(browser, 30)
    browser.execute_script("document.getElementById('silence').click()")
    recovered(browser)
    now = at(browser, 30)
    assert before["seen"][6]
    assert not now["seen"][6]
    assert now["x"][6] == pytest.approx(said, abs=1e-9)
    np.testing.assert_allclose(now["x"], python.answer("edge", 0, now["y"], now["seen"]), rtol=0, atol=1e-6)
    assert abs(now["x"][6] - before["x"][6]) > 1e-3


@pytest.mark.parametrize("method", METHODS)
def test_bands_are_the_expected_error(show, page, method):
    python, browser = Page(page), show(page)
    choose(browser, method=method, snr=4, missing=25, off=[2])
    R, noise = python.moment, python.data["variances"][4]
    for t in (3, 40):
        now = at(browser, t)
        H = python.matrix(method, 4, now["seen"])
        left = H - np.eye(python.n)
        expected = REACH * np.sqrt(np.diagonal(left @ R @ left.T) + noise * (H**2).sum(axis=1))
        bands = browser.execute_script(
            "return Array.from({ length: explorer.data.n }, (_, i) => explorer.band(arguments[0], i))", t
        )  # fmt: skip
        low, high = np.array(bands).T
        np.testing.assert_allclose((high - low) / 2, expected, rtol=1e-6)
        np.testing.assert_allclose((high + low) / 2, now["x"], atol=1e-9)


@pytest.mark.parametrize("seed", range(4))
def test_weights_over_decades_and_signs_are_repaired_as_in_python(show, page, seed, tmp_path):
    """Random node weights that inflate silent stations, and random indefinite edge weights."""
    rng = np.random.default_rng(seed)
    python = Page(page)
    data = python.data
    n, m = python.n, python.i.size
    data["designs"]["node"] = [
        encode(rng.choice([-1.0, 1.0], n) * 10 ** rng.uniform(-3, 1, n), "float64") for _ in data["snrs"]
    ]  # fmt: skip
    data["designs"]["edge"] = []
    for _ in data["snrs"]:
        off = rng.normal(size=m)
        sums = np.bincount(np.r_[python.i, python.j], np.abs(np.r_[off, off]), minlength=n)
        data["designs"]["edge"].append(encode(np.r_[sums * rng.uniform(1.0, 1.5, n), off], "float64"))
    path = _explore.write(data, tmp_path / "random.html")
    python, browser = Page(path), show(path)
    repaired = 0
    for method in ("node", "edge"):
        for snr in (1, 6):
            choose(browser, method=method, snr=snr, missing=45, off=[0, 3])
            for t in range(0, 72, 9):
                now = at(browser, t)
                if not now["seen"].any():
                    continue
                repaired += bool(browser.execute_script("return explorer.at(arguments[0]).replaced", t))
                np.testing.assert_allclose(now["x"], python.answer(method, snr, now["y"], now["seen"]), rtol=0, atol=1e-6)
    assert repaired > 0


def test_parts_without_a_reading_show_their_mean(show, page):
    python, browser = Page(page), show(page)
    choose(browser, method="edge", off=list(range(python.n)))
    np.testing.assert_array_equal(at(browser, 10)["x"], python.levels)


def test_noise_and_gaps_have_the_asked_size(show, page):
    python, browser = Page(page), show(page)
    choose(browser, method="one", snr=5, missing=30, keepBad=True)
    clean = np.array([at(browser, t)["y"] for t in range(72)])
    seen = np.array([at(browser, t)["seen"] for t in range(72)])
    choose(browser, method="one", snr=0, missing=0, keepBad=True)
    as_read = np.array([at(browser, t)["y"] for t in range(72)])
    noise = (clean - as_read)[np.isfinite(as_read)]
    wanted = python.data["power"] / 10 ** (python.data["snrs"][5] / 10)
    assert noise.size > 500
    assert abs(noise.mean()) < 4 * np.sqrt(wanted / noise.size)
    assert np.mean(noise**2) == pytest.approx(wanted, rel=4 * np.sqrt(2 / noise.size))
    hidden = 1 - seen[np.isfinite(as_read)].mean()
    assert hidden == pytest.approx(0.3, abs=4 * np.sqrt(0.21 / noise.size))


def test_errors_on_the_page_are_root_mean_squares_against_the_record(show, page):
    python, browser = Page(page), show(page)
    choose(browser, method="edge", snr=5)
    reference = np.array(
        browser.execute_script("return Array.from(explorer.data.readings, (v) => Number.isFinite(v) ? v : null)"), float
    )
    reference = reference.reshape(python.n, 72)
    bad = np.array(browser.execute_script("return Array.from(explorer.data.bad)"), bool).reshape(python.n, 72)
    reference[bad] = np.nan
    x = np.array([at(browser, t)["x"] for t in range(72)]).T
    judged = ~np.array(python.data["learned"], dtype=bool)
    rmse = np.sqrt(np.nanmean((x - reference)[:, judged] ** 2))
    shown = browser.execute_script("return Array.from(document.querySelectorAll('#scores b'), (b) => b.textContent)")
    assert float(shown[1].split()[0]) == pytest.approx(rmse, rel=5e-3)
