"""What the figures compare: limits that nothing may pass, decibels gained, verdicts put together."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from experiments import _figure, _methods, _stations, fig4, fig6
from experiments._figure import Finding, Verdict
from nareg import graphs


@pytest.mark.slow
@pytest.mark.parametrize("scenario", ["learned", "bounds"])
def test_no_filter_passes_the_limit_and_no_single_weight_the_best(scenario, data_root):
    settings = replace(fig4.FIGURE.full, draws=0, every=20, oracle_every=1000)
    rows = fig4.compute(settings, {"stations": 32, "unit": settings.unit, "scenario": scenario, "snr_db": 0.0})
    nmse = {row["method"]: row["nmse"] for row in rows if row["method"] != _stations.ORACLE}
    assert min(nmse.values()) == nmse[_stations.LIMIT]
    if scenario == "bounds":  # designed on all hours; every twentieth is shown
        settings = replace(settings, every=1)
        rows = fig4.compute(settings, {"stations": 32, "unit": settings.unit, "scenario": scenario, "snr_db": 0.0})
        nmse = {row["method"]: row["nmse"] for row in rows}
        singles = (_stations.NI, _stations.NI_THREE, f"{_stations.MM_PRONY}, {_stations.PAIR}")
        assert all(nmse[_stations.BEST] <= nmse[name] * (1 + 1e-9) for name in singles)


def test_equal_power_makes_the_mean_squared_error_the_mean_nmse(rng):
    X = rng.standard_normal((6, 20)) * 10 ** rng.uniform(-2, 2, 20)
    U, H, snr = _methods.equal_power(X), rng.standard_normal((6, 6)), 3.0
    row = _methods.errors(H, X, np.mean(X**2, axis=0) / snr, 0, rng)
    direct = (np.sum((H @ U - U) ** 2) / 20 + np.sum(H**2) / snr) / 6
    assert row["nmse"] == pytest.approx(direct, rel=1e-12)


@pytest.mark.parametrize("observed", [None, np.arange(12) < 7])
def test_best_ridge_is_the_library_s_best_of_the_grid(observed, rng):
    graph = graphs.erdos_renyi(12, 0.5, rng=rng)
    x = _methods.bandlimited(graph, 4)[:, None]
    variance = np.mean(x**2, axis=0) / 10**0.3
    seen = 12 if observed is None else observed.sum()

    def nmse(H):
        return _methods.errors(H, x, variance, 0, rng)["nmse"]

    grid = [nmse(_methods.ridge(graph, a, b / seen, observed)) for a in _methods.WIDTHS for b in _methods.PENALTIES]
    assert nmse(_methods.best_ridge(graph, x, 3.0, observed)) == pytest.approx(min(grid), rel=1e-9)


@pytest.mark.parametrize("gain", [3.0, -1.5, 0.0])
def test_a_uniform_gain_is_found_wherever_the_reference_reaches(gain):
    snr = np.arange(-10.0, 11.0, 2.5)
    curve = lambda x: 10 ** (-0.07 * x) + 0.01  # noqa: E731
    result = fig6.saved(snr, curve(snr), curve(snr + gain))
    inside = (snr + gain >= snr[0]) & (snr + gain <= snr[-1])
    assert np.isnan(result[~inside]).all()
    np.testing.assert_allclose(result[inside], gain, atol=0.1)


def test_verdicts_name_their_setting_and_what_the_others_found():
    one = Verdict("claim", Finding.NOT, "half.", "because.")
    two = Verdict("claim", Finding.REPRODUCED, "all.")
    (stated,) = _figure.elsewhere({"32 stations": [one], "37 stations": [two]})
    assert (stated.finding, stated.measured, stated.why) == (
        Finding.NOT,
        "32 stations: half.",
        "because. 37 stations: reproduced.",
    )
    assert _figure.grade([True, True]) is Finding.REPRODUCED
    assert _figure.grade(np.array([True, False])) is Finding.IN_PART
    assert _figure.grade([False]) is Finding.NOT
    assert _figure.grade([]) is Finding.NOT_RUN
