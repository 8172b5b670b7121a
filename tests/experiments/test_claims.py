"""The page of all claims: each once, with the verdict that its experiment's page has, in words about that verdict."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest

from experiments import _claims
from experiments._main import FIGURES
from nareg.errors import InputError

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
VERDICT = re.compile(
    r"\*\*(reproduced|met)\*\*( on (a made-up graph|made-up graphs))?"
    r"|\*\*(reproduced in part|met in part|not reproduced|not met)\*\*: \S.*"
    r"|\*\*not run\*\*: needs \S.*"
)
#: Words of a reason that fit a cell.
SHORT = 20


@pytest.fixture
def copy(tmp_path):
    """The documentation's results, to change."""
    shutil.copytree(DOCS / "results", tmp_path / "results")
    return tmp_path


def rows():
    """Cells of every line of the page's tables, by place."""
    lines = (DOCS / _claims.PAGE).read_text().splitlines()
    return [line.strip("| ").split(" | ") for line in lines if line.startswith("|") and line.count(" | ") == 4][1:]


def test_the_page_is_what_the_recorded_verdicts_make_of_it():
    assert (DOCS / _claims.PAGE).read_text() == _claims.page(DOCS)


def test_every_claim_is_on_the_page_once():
    claims = _claims.toml("published.toml")
    assert set(claims) <= {*FIGURES, _claims.ELSEWHERE}
    lines = _claims.lines(DOCS)
    assert sorted(line.text for line in lines) == sorted(one["text"] for of in claims.values() for one in of.values())
    shown = [cells for cells in rows() if cells[0] != "place"]
    assert sorted((cells[0], cells[1]) for cells in shown) == sorted((line.place, line.text) for line in lines)


def test_every_line_has_a_verdict_and_a_command_or_says_what_it_needs():
    for line in _claims.lines(DOCS):
        assert VERDICT.fullmatch(line.verdict), (line.place, line.verdict)
        assert len(line.verdict.split()) <= SHORT, (line.place, line.verdict)
        assert line.data, line.place
        assert line.command or "not run" in line.verdict, line.place


def test_commands_name_experiments_and_tests_that_exist():
    for line in _claims.lines(DOCS):
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


def test_a_verdict_on_a_made_up_graph_says_so_and_is_whole_of_no_named_data():
    for line in _claims.lines(DOCS):
        if "made-up graph of" in line.data:
            assert "made-up graph" in line.verdict, line.place
            assert not line.verdict.startswith("**reproduced** "), line.place


def test_counts_are_of_the_four_papers_and_add_up():
    text = (DOCS / _claims.PAGE).read_text().partition("<!-- begin counts -->")[2].partition("<!-- end counts -->")[0]
    head, _, *lines = [line.strip("| ").split(" | ") for line in text.strip().splitlines()]
    assert head[0] == "claims"
    *papers, four = [[int(cell) for cell in cells[1:]] for cells in lines]
    assert [sum(column) for column in zip(*papers, strict=True)] == four
    assert all(row[0] == sum(row[1:]) for row in [*papers, four])
    counted = [line for line in _claims.lines(DOCS) if line.paper in _claims.FOUR]
    assert four[0] == len(counted)


def test_no_claim_of_a_paper_is_counted_twice():
    counted = [line for line in _claims.lines(DOCS) if line.paper in _claims.FOUR]
    assert len({line.text for line in counted}) == len(counted)
    assert not any(word in line.text for line in counted for word in ("implied", "no such sentence", "GADC"))


def test_what_is_not_counted_stands_in_a_table_of_its_own():
    page = (DOCS / _claims.PAGE).read_text()
    for line in _claims.lines(DOCS):
        part = next(name for name, papers in _claims.PARTS.items() if line.paper in papers)
        table = page.partition(f"<!-- begin claims-{part} -->")[2].partition(f"<!-- end claims-{part} -->")[0]
        assert f"| {line.place} | {line.text} |" in table
        assert (
            line.paper in _claims.FOUR
            or "Not counted:" in page.partition(f"<!-- begin claims-{part} -->")[0].rpartition("\n## ")[2]
        )


def test_words_about_another_verdict_are_refused(copy):
    page = copy / "results" / "reproduction.md"
    text = page.read_text()
    start = text.index("| [Figure 1](#figure-1)")
    page.write_text(text[:start] + text[start:].replace("**reproduced**", "**not reproduced**", 1))
    with pytest.raises(InputError, match=r"words about fig1\.range as 'reproduced', but it is 'not reproduced'"):
        _claims.page(copy)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda said: said["fig1"].pop("range"), r"says nothing of fig1\.range"),
        (lambda said: said["fig1"]["range"].update(because="why"), r"fig1\.range is 'reproduced', which takes no because"),
        (lambda said: said["fig2"]["naive"].pop("because"), r"fig2\.naive is 'reproduced in part', which needs a because"),
        (lambda said: said["fig1"].update(more={}), r"words about \('fig1', 'more'\)"),
    ],
)
def test_words_that_are_missing_or_too_many_are_named(change, message, monkeypatch):
    tables = {name: {one: {claim: dict(of) for claim, of in claims.items()} for one, claims in _claims.toml(name).items()}
              for name in ("published.toml", "summaries.toml")}  # fmt: skip
    change(tables["summaries.toml"])
    monkeypatch.setattr(_claims, "toml", tables.__getitem__)
    with pytest.raises(InputError, match=message):
        _claims.lines(DOCS)
