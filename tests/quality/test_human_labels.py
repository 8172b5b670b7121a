"""Events of labeled readings as pyhydroqc counts them, and the table of a benchmark."""

import numpy as np
import pytest

from benchmarks.human_labels import count_events, score, tables


def runs(text: str) -> np.ndarray:
    return np.array([letter == "x" for letter in text])


@pytest.mark.parametrize(
    ("labels", "flags", "expected"),
    [
        ("....xx......x....", "....x........x...", (2, 0, 0)),  # found, and found beside it
        ("....xx......x.....", "...............x..", (0, 1, 2)),  # its label ends where the flag begins: two events
        ("....xx...xx......", ".................", (0, 0, 2)),
        ("....xx.xx........", "........x........", (1, 0, 0)),  # widened they are one
        ("....x...........x", ".........x.......", (0, 1, 2)),
    ],
)
def test_events_are_widened_runs(labels, flags, expected):
    assert count_events(runs(labels), runs(flags)) == expected


def test_a_table_pools_series():
    counts = ["ph,A,nareg,event,1,0,1", "ph,B,nareg,event,2,1,0", "ph,A,nareg,reading,5,0,5", "ph,B,nareg,reading,0,0,0"]
    made = tables(counts)
    assert made["human-labels-events"][-1] == "| pH (4) | 0.75 (0.75, 0.75) |"
    assert made["human-labels-readings"][-1] == "| pH (10) | 0.67 (1.00, 0.50) |"
    assert made["human-labels-sites"][-2:] == ["| pH, A | 0.67 (1.00, 0.50) |", "| pH, B | 0.80 (0.67, 1.00) |"]


def test_nothing_labeled_has_no_score():
    import pandas as pd

    assert score(pd.Series({"found": 0, "extra": 4, "missed": 0})) == "— (4 extra)"
