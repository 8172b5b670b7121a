"""The page of all claims: each once, with the recorded verdict, in words about that verdict."""

from __future__ import annotations

import copy
import re
from pathlib import Path

import pytest

from experiments import _claims, _pages, _record
from experiments._main import FIGURES
from nareg.errors import InputError
from tests.test_docs import check_links

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "results" / "claims.md"
VERDICT = re.compile(
    r"\*\*(reproduced|met)\*\*( on (a made-up graph|made-up graphs))?"
    r"|\*\*(reproduced in part|met in part|not reproduced|not met)\*\*: \S.*"
    r"|\*\*not run\*\*: needs \S.*"
)
#: Words of a reason that fit a cell.
SHORT = 20


@pytest.fixture(scope="module")
def records():
    """What is recorded."""
    return _record.read()


@pytest.fixture(scope="module")
def parts(records):
    """Tables of the page, by name."""
    return _claims.parts(records)


def rows(parts):
    """Cells of every line of the page's tables, by place."""
    lines = "\n".join(parts.values()).splitlines()
    return [line.strip("| ").split(" | ") for line in lines if line.count(" | ") == 4]


def test_the_page_includes_every_table_once(parts):
    assert sorted(_pages.INCLUDE.findall(PAGE.read_text())) == sorted(parts)


def test_its_links_lead_somewhere(parts):
    check_links("\n".join(parts.values()), PAGE)


def test_every_claim_is_on_the_page_once(records, parts):
    claims = _claims.toml("published.toml")
    assert set(claims) <= {*FIGURES, _claims.ELSEWHERE}
    lines = _claims.lines(records)
    assert sorted(line.text for line in lines) == sorted(one["text"] for of in claims.values() for one in of.values())
    shown = [cells for cells in rows(parts) if cells[0] != "place"]
    assert sorted((cells[0], cells[1]) for cells in shown) == sorted((line.place, line.text) for line in lines)


def test_every_line_has_a_verdict_and_a_command_or_says_what_it_needs(records):
    for line in _claims.lines(records):
        assert VERDICT.fullmatch(line.verdict), (line.place, line.verdict)
        assert len(line.verdict.split()) <= SHORT, (line.place, line.verdict)
        assert line.data, line.place
        assert line.command or "not run" in line.verdict, line.place


def test_commands_name_experiments_and_tests_that_exist(records):
    for line in _claims.lines(records):
        for command in filter(None, line.command.split("; ")):
            match command.split():
                case ["nareg", "reproduce", *names]:
                    names = names[: next((k for k, name in enumerate(names) if name.startswith("--")), None)]
                    assert names, command
                    assert set(names) <= set(FIGURES), command
                case ["nareg", "datasets", "fetch", _]:
                    pass
                case ["pytest" | "python", path, *_]:
                    assert (ROOT / path).exists(), command
                case _:
                    pytest.fail(f"{line.place}: {command}")


def test_a_verdict_on_a_made_up_graph_says_so_and_is_whole_of_no_named_data(records):
    for line in _claims.lines(records):
        if "made-up graph of" in line.data:
            assert "made-up graph" in line.verdict, line.place
            assert not line.verdict.startswith("**reproduced** "), line.place


def test_counts_are_of_the_four_papers_and_add_up(records, parts):
    head, _, *lines = [line.strip("| ").split(" | ") for line in parts["claims-counts"].splitlines()]
    assert head[0] == "claims"
    *papers, four = [[int(cell) for cell in cells[1:]] for cells in lines]
    assert [sum(column) for column in zip(*papers, strict=True)] == four
    assert all(row[0] == sum(row[1:]) for row in [*papers, four])
    counted = [line for line in _claims.lines(records) if line.paper in _claims.FOUR]
    assert four[0] == len(counted)


def test_no_claim_of_a_paper_is_counted_twice(records):
    counted = [line for line in _claims.lines(records) if line.paper in _claims.FOUR]
    assert len({line.text for line in counted}) == len(counted)
    assert not any(word in line.text for line in counted for word in ("implied", "no such sentence", "GADC"))


def test_what_is_not_counted_stands_in_a_table_of_its_own(records, parts):
    page = PAGE.read_text()
    for line in _claims.lines(records):
        part = next(name for name, papers in _claims.PARTS.items() if line.paper in papers)
        assert f"| {line.place} | {line.text} |" in parts[f"claims-{part}"]
        assert (
            line.paper in _claims.FOUR
            or "Not counted:" in page.partition(f"generated/claims-{part}.inc")[0].rpartition("\n## ")[2]
        )


def test_words_about_another_verdict_are_refused(records):
    changed = copy.deepcopy(records)
    changed["fig1"]["verdicts"][0]["finding"] = "not reproduced"
    with pytest.raises(InputError, match=r"words about fig1\.range as 'reproduced', but it is 'not reproduced'"):
        _claims.parts(changed)


def test_a_claim_that_no_run_has_judged_is_named(records):
    changed = copy.deepcopy(records)
    del changed["fig1"]["verdicts"][0]
    with pytest.raises(InputError, match=r"recorded/fig1\.json has no verdict on fig1\.range: run it in full"):
        _claims.parts(changed)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda said: said["fig1"].pop("range"), r"says nothing of fig1\.range"),
        (lambda said: said["fig1"]["range"].update(because="why"), r"fig1\.range is 'reproduced', which takes no because"),
        (lambda said: said["fig2"]["naive"].pop("because"), r"fig2\.naive is 'reproduced in part', which needs a because"),
        (lambda said: said["fig1"].update(more={}), r"words about \('fig1', 'more'\)"),
    ],
)
def test_words_that_are_missing_or_too_many_are_named(change, message, records, monkeypatch):
    tables = {name: {one: {claim: dict(of) for claim, of in claims.items()} for one, claims in _claims.toml(name).items()}
              for name in ("published.toml", "summaries.toml")}  # fmt: skip
    change(tables["summaries.toml"])
    monkeypatch.setattr(_claims, "toml", tables.__getitem__)
    with pytest.raises(InputError, match=message):
        _claims.lines(records)
