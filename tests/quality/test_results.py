"""How findings are told: a line per station and kind of fault."""

from __future__ import annotations

import numpy as np
import pytest

from nareg.quality import Flag, Quality, Suspect
from nareg.quality._results import events

DAY = np.timedelta64(1, "D")
START = np.datetime64("2024-01-10")


def stuck(station: int, first: int, days: int, kind: str = "stuck", score: float = 9.0) -> Suspect:
    start = START + first * DAY
    return Suspect(station, f"K{station}", kind, score, start, start + days * DAY, f"It reads 100 for {days} days.")


def quality(suspects: tuple[Suspect, ...]) -> Quality:
    grid = np.zeros((7, 40))
    return Quality(np.full(grid.shape, Flag.GOOD, np.int8), grid, grid, suspects, START + np.arange(40) * DAY)


def test_the_runs_of_a_station_are_one_line_with_the_longest_ones_evidence():
    one, *others = events(
        (stuck(1, 0, 2), stuck(1, 5, 9, score=20.0), stuck(1, 20, 3), stuck(2, 0, 30), stuck(1, 3, 1, "drift"))
    )
    assert (one.name, one.evidence) == ("K2", "It reads 100 for 30 days.")
    runs, drift = others
    assert runs.evidence == "It reads 100 for 9 days. 2 more like it."
    assert (runs.start, runs.stop, runs.score) == (START, START + 23 * DAY, 20.0)
    assert (drift.name, drift.kind) == ("K1", "drift")


def test_times_may_be_numbers():
    short, long = (Suspect(i, str(i), "stuck", 5.0, 0.0, 2.0 + i, "It reads 1.") for i in range(2))
    assert events((short, long)) == (long, short)


@pytest.mark.parametrize("runs", [1, 7])
def test_the_summary_has_a_line_per_station(runs):
    text = quality(tuple(stuck(i, 5 * k, 1 + k) for i in range(7) for k in range(runs))).summary()
    assert len(text.splitlines()) == 8
    assert text.count("more like it") == (7 if runs > 1 else 0)
