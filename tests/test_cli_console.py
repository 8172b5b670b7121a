"""What the commands print where no terminal reads it."""

from __future__ import annotations

import gc
import io
import subprocess
import sys

import numpy as np
import pytest
from rich.table import Table

from nareg.cli import inputs, run
from nareg.cli.inputs import MAX_SUSPECTS, UnfoldedConsole, print_suspects
from nareg.quality import Flag, Quality, Suspect

HEADINGS = [f"noise-weighted mean {i}" for i in range(12)]


def printed(**options) -> list[str]:
    console = UnfoldedConsole(file=io.StringIO(), _environ={}, **options)
    console.print(Table(*HEADINGS))
    return console.file.getvalue().splitlines()


def test_a_table_in_a_pipe_or_a_file_is_not_folded():
    lines = printed()
    assert all(heading in lines[1] for heading in HEADINGS)


def test_a_terminal_and_a_stated_width_fold_it():
    for options in ({"force_terminal": True}, {"width": 80}):
        assert HEADINGS[0] not in "\n".join(printed(**options))


def test_both_consoles_of_the_commands_are_such():
    assert isinstance(inputs.console, UnfoldedConsole)
    assert isinstance(inputs.errors, UnfoldedConsole)


def suspects(stations: int, runs: int) -> Quality:
    grid = np.zeros((stations, 50))
    found = tuple(
        Suspect(i, f"K{i:02d}", "stuck", 9.0, float(6 * k), float(6 * k + k + 1), f"It reads 100 at {k + 2} times in a row.")
        for i in range(stations)
        for k in range(runs)
    )
    return Quality(np.full(grid.shape, Flag.GOOD, np.int8), grid, grid, found, np.arange(50.0))


def test_stations_that_froze_together_are_a_line_each(capsys):
    print_suspects(suspects(7, 7), "the report")
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "suspect K00, stuck: It reads 100 at 8 times in a row. 6 more like it."
    assert [line.split()[1] for line in lines] == [f"K{i:02d}," for i in range(7)]


def test_at_most_a_dozen_lines_of_suspects(capsys):
    print_suspects(suspects(30, 2), "the report")
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == MAX_SUSPECTS + 1
    assert lines[-1] == "18 more suspects: see the report"


def test_what_imports_leave_is_seldom_looked_through(monkeypatch):
    usual = gc.get_threshold()
    monkeypatch.setattr("sys.argv", ["nareg", "--help"])
    gc.set_threshold(700, 10, 10)  # Python's own: another test may have run a command
    try:
        with pytest.raises(SystemExit):
            run()
        assert gc.get_threshold()[0] > 7000
    finally:
        gc.set_threshold(*usual)


def test_the_end_of_a_command_looks_through_no_objects():
    program = (
        "import atexit, gc; atexit.register(lambda: print('frozen', gc.get_freeze_count())); from nareg.cli import run; run()"
    )
    done = subprocess.run([sys.executable, "-c", program, "--help"], capture_output=True, text=True, check=True)
    assert int(done.stdout.split("frozen ")[-1]) > 10_000
