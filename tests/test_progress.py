from __future__ import annotations

import numpy as np
import pytest

from nareg.cli.design import TARGET, TimeLeft, duration


def test_time_left_of_a_gradient_that_halves_every_second():
    ticks = iter(range(100))
    left = TimeLeft(clock=lambda: float(next(ticks)))
    stated = [left.step(2.0**-k) for k in range(10)]
    assert stated[:3] == [None] * 3
    assert stated[9] == pytest.approx(np.log2(2.0**-9 / TARGET), rel=1e-6)


def test_no_promise_while_the_gradient_grows_and_none_needed_below_the_target():
    ticks = iter(range(100))
    left = TimeLeft(clock=lambda: float(next(ticks)))
    assert [left.step(float(k + 1)) for k in range(6)][-1] is None
    assert left.step(TARGET / 2) == 0.0


@pytest.mark.parametrize(
    ("seconds", "words"),
    [
        (None, "time left unknown"),
        (0.0, "about 1 s left"),
        (45.2, "about 45 s left"),
        (600, "about 10 min left"),
        (7200, "about 2 h left"),
    ],
)
def test_durations(seconds, words):
    assert duration(seconds) == words
