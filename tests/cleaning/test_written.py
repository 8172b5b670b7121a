"""Tables that were written before, whatever wrote them last: their forms of times, and lines that stay as they are."""

from __future__ import annotations

import csv

import numpy as np
import pandas as pd
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import nareg
from nareg.cleaning import apply
from nareg.cleaning._written import cell, label_of, written_lines
from nareg.errors import InputError


@pytest.fixture(scope="module")
def monthly():
    """Readings of eight years by the month, and what is cleaned of the first seven."""
    network = nareg.datasets.simulated(6, 96, faults=(), rng=np.random.default_rng(3))
    index = pd.date_range("2015-01-01", periods=96, freq="MS", name="time")
    frame = pd.DataFrame(network.readings.T, index, network.names)
    places = pd.DataFrame(network.coordinates, network.names, ["latitude", "longitude"])
    return frame, nareg.clean(frame[:84], places)


@pytest.mark.parametrize("form", ["%b %Y", "%B %Y", "%YM%m", "%Y%m", "%m.%Y", "%d-%b-%Y", "%d/%m/%Y"])
def test_readings_follow_in_the_form_of_the_table_whatever_it_is(monthly, tmp_path, form):
    frame, cleaned = monthly
    cleaned.save(tmp_path)
    labels = frame.index.strftime(form).tolist()
    for name in ("clean", "std", "flags"):
        table = pd.read_csv(tmp_path / f"{name}.csv", dtype=str)
        table.assign(time=labels[:84]).to_csv(tmp_path / f"{name}.csv", index=False)
    for later in (slice(84, 88), slice(86, 96)):
        frame.set_axis(pd.Index(labels, name="time"))[later].to_csv(tmp_path / "new.csv")
        apply(cleaned.model, tmp_path / "new.csv").append(tmp_path)
        for name in ("clean", "std", "flags"):
            assert pd.read_csv(tmp_path / f"{name}.csv", dtype=str)["time"].tolist() == labels[: later.stop]


def test_tables_that_a_spreadsheet_saved_are_read_as_they_were(monthly, tmp_path):
    """A mark at the start made another header of it, and empty rows were kept amid the readings."""
    frame, cleaned = monthly
    new, names = apply(cleaned.model, frame[84:]), ("clean", "std", "flags")
    written = []
    for change in (str, lambda text: "\ufeff" + text.replace("\n", "\r\n", 40) + "\r\n", lambda text: text + ",,,,,,\n\n"):
        cleaned.save(tmp_path)
        for path in (tmp_path / f"{name}.csv" for name in names):
            path.write_bytes(change(path.read_text()).encode())
        new.append(tmp_path)
        written.append([(tmp_path / f"{name}.csv").read_bytes() for name in names])
    assert written[0] == written[1] == written[2]
    (tmp_path / "clean.csv").write_bytes(b"time,\xfc\n")
    with pytest.raises(InputError, match="no text in UTF-8"):
        new.append(tmp_path)


CELLS = st.one_of(
    st.floats().map(repr),
    st.floats(-100, 100).map(lambda value: str(round(value, 4))),
    st.text("0123456789.-+e'=\"\t, \nnai_é", max_size=6),
    st.sampled_from(
        ["", "18.80", "1e-05", "1e-5", "1.5e-07", "0.00012", "007", "not checked", "nan x", "'=x", "12345678901234567.5"]
    ),
)


@settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    keys=st.sampled_from([1, 2]),
    rows=st.lists(st.tuples(CELLS, CELLS, CELLS), max_size=4),
    end=st.sampled_from(["\n", "\r\n"]),
    whole=st.booleans(),
)
def test_lines_of_a_table_are_what_its_cells_are_written_as(tmp_path, keys, rows, end, whole):
    path, header = tmp_path / "clean.csv", ["time", "A", "B"]
    with path.open("w", newline="", encoding="utf-8") as handle:
        csv.writer(handle, lineterminator=end).writerows([header, *rows])
    if not whole:  # a last line without an end
        path.write_bytes(path.read_bytes().removesuffix(end.encode()))
    lines = written_lines(path, header, keys)
    read = [[nareg.io.unshield(text) for text in row] for row in rows if any(row)]
    assert list(map(label_of, lines)) == [row[0] for row in read]
    nareg.io.write_rows(path, header, [[*row[:keys], *map(cell, row[keys:])] for row in read])
    assert "time,A,B\n" + "".join(lines) == path.read_bytes().decode()
