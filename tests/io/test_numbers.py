"""What counts as a number, and how long it takes to say."""

from __future__ import annotations

import numpy as np
import pytest

from nareg.io._numbers import NUMBER


@pytest.mark.parametrize("cell", ["1", "-1.", "+.5", "1.25e-3", "1e5", "007"])
def test_numbers(cell):
    assert NUMBER.fullmatch(cell)
    assert np.isfinite(float(cell))


@pytest.mark.parametrize("cell", ["", ".", "1..2", "e5", "1e", "1.2.3", "0x10", "١"])
def test_no_numbers(cell):
    assert not NUMBER.fullmatch(cell)


def test_a_million_digits_that_are_no_number_are_read_once():
    """A pattern that tries every place for the point takes hours."""
    assert not NUMBER.fullmatch("9" * 1_000_000 + "x")
