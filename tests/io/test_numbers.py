"""What counts as a number, and how long it takes to say."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nareg.io._numbers import NUMBER, _many, _plain
from tests.helpers import examples


@pytest.mark.parametrize("cell", ["1", "-1.", "+.5", "1.25e-3", "1e5", "007"])
def test_numbers(cell):
    assert NUMBER.fullmatch(cell)
    assert np.isfinite(float(cell))


@pytest.mark.parametrize("cell", ["", ".", "1..2", "e5", "1e", "1.2.3", "0x10", "١"])
def test_no_numbers(cell):
    assert not NUMBER.fullmatch(cell)


@given(
    st.lists(
        st.text("0123456789+-.eE_ xXinfatyNI,١\t", max_size=9) | st.sampled_from(["inf", "-Infinity", "nan", "1e400", " 5"])
    )
)
@examples(50, 500)
def test_few_cells_are_the_numbers_of_many(cells):
    np.testing.assert_array_equal([_plain(cell) for cell in cells], _many(np.array(cells, dtype=object)))


def test_a_million_digits_that_are_no_number_are_read_once():
    """A pattern that tries every place for the point takes hours."""
    assert not NUMBER.fullmatch("9" * 1_000_000 + "x")
