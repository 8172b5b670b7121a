"""The documentation shows every figure, and every claim with its verdict."""

from __future__ import annotations

import json
from dataclasses import asdict, replace
from pathlib import Path

import pytest
from PIL import Image

from experiments import _docs, _pages, _record
from experiments._claims import PAGES
from experiments._engine import fingerprint, load, versions
from experiments._figure import Finding, claims
from experiments._main import GROUPS
from tests.test_docs import check_links

DOCS = Path(__file__).resolve().parents[2] / "docs"


@pytest.fixture(scope="module")
def parts():
    """What pages include of the record, whatever became of claims that no run has judged yet."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(_pages._claims, "parts", lambda records: {})
        return _pages.parts()


@pytest.mark.parametrize(("group", "name"), [(group, name) for group in PAGES for name in GROUPS[group]])
def test_figure_and_its_claims_are_in_the_documentation(group, name, parts):
    text = parts[name]
    assert any(name in _pages.INCLUDE.findall(page.read_text()) for page in (DOCS / "results").glob("*.md"))
    assert text.startswith("![")
    assert f"(../images/{name}.png)" in text
    assert (DOCS / "images" / f"{name}.png").stat().st_size > 10_000
    table = [line for line in text.splitlines()[2:] if line.startswith("|")]
    assert all(line.startswith(("| ", "|---")) and line.endswith("|") for line in table)
    assert all(len(cell.split()) <= _pages.LONGEST_CELL for line in table for cell in line.split("|")[3:])
    overview = parts[f"overview-{group}"]
    for claim in claims(name).values():
        line = next(line for line in text.splitlines() if claim["text"] in line)
        finding = next(word for word in Finding if f"**{word}**" in line)
        mine = [row for row in overview.splitlines() if row.startswith(f"| [{_record.heading(name)}](")]
        assert any(claim["text"] in row and f"**{finding}**" in row for row in mine)


def test_everything_recorded_is_included_once_and_nothing_else(parts):
    names = [name for page in (DOCS / "results").glob("*.md") for name in _pages.INCLUDE.findall(page.read_text())]
    assert sorted(name for name in names if not name.startswith("claims-")) == sorted(parts)


def test_links_of_what_is_included_lead_somewhere(parts):
    for page in (DOCS / "results").glob("*.md"):
        for name in _pages.INCLUDE.findall(page.read_text()):
            check_links(parts.get(name, ""), page)


def test_a_long_measurement_stands_below_its_table_item_by_item():
    long = "; ".join(f"network {k}: nareg has 0.{k}, the peer 0.9{k} of it" for k in range(8)) + ". One draw."
    text = _pages.claims([("short claim", "**met**", "1.0"), ("long claim", "**not met**", long)], "claim or aim")
    assert "| short claim | **met** | 1.0 |" in text
    assert "| long claim | **not met** | *below* |" in text
    items = [line for line in text.splitlines() if line.startswith("- ")]
    assert items[0] == "- network 0: nareg has 0.0, the peer 0.90 of it"
    assert items[-1] == "- One draw"
    assert len(items) == 9
    assert _pages.claims([], "claim") == ""


def stated(name, finding="partly", on=""):
    """The record of an experiment with one claim."""
    verdict = {"text": f"claim of {name}", "paper": "ScaleGUN", "section": "5", "finding": finding, "on": on,
               "measured": "m", "why": ""}  # fmt: skip
    return {"figure": name, "title": "t", "verdicts": [verdict]}


@pytest.fixture
def docs(tmp_path, monkeypatch):
    """A documentation without pages."""
    (tmp_path / "docs" / "images").mkdir(parents=True)
    (tmp_path / "docs" / "results").mkdir()
    monkeypatch.setattr(_pages._claims, "parts", lambda records: {})
    return tmp_path / "docs"


def test_what_was_never_run_says_so(docs, tmp_path):
    _record.write(stated("fig1"), {"a": "| x |\n"}, tmp_path / "recorded")
    include = "```{include} generated/%s.inc\n```\n"
    page = "by hand\n" + include % "fig1" + "more\n" + include % "a" + include % "fig2"
    (docs / "results" / "page.md").write_text(page)
    for _ in range(2):
        _pages.write(docs, tmp_path / "recorded")
        written = {path.stem: path.read_text() for path in (docs / "results" / "generated").iterdir()}
        assert sorted(written) == ["a", "fig1", "fig2"]
        assert written["a"] == "| x |\n"
        assert "| claim of fig1 (Section 5) | **partly** | m |" in written["fig1"]
        assert written["fig2"] == _pages.NOT_RUN + "\n"
    assert (docs / "results" / "page.md").read_text() == page


def test_overview_keeps_the_lines_of_what_was_not_run_anew(docs, tmp_path):
    folder = tmp_path / "recorded"
    for name in ("fig1", "fig2", "fig3"):
        _record.write(stated(name), {}, folder)
    whole = _pages.parts(folder)["overview-node-adaptive"]
    _record.write(stated("fig2", "reproduced", "on a made-up graph"), {}, folder)
    second = "| [Figure 2](#figure-2) | claim of fig2 | **partly** |"
    assert second in whole
    assert _pages.parts(folder)["overview-node-adaptive"] == whole.replace(
        second, second.replace("**partly**", "**reproduced** on a made-up graph")
    )


def test_runs_are_recorded_for_the_pages(docs, tmp_path):
    out, recorded = tmp_path / "out", tmp_path / "recorded"
    out.mkdir()
    names = GROUPS["unlearning"][:2]
    for k, name in enumerate(names):
        figure = load(name)
        run = stated(name, "reproduced") | {
            "commit": f"c{k}", "settings": {"seed": k}, "fingerprint": fingerprint(figure, figure.full),
            "versions": versions(figure),
        }  # fmt: skip
        (out / f"{name}.json").write_text(json.dumps(run))
        (out / f"{name}.csv").write_text("a\n1\n")
        Image.new("RGB", (4, 4)).save(out / f"{name}.png")
        _docs.write("unlearning", out, docs, recorded)
        (out / f"{name}.json").unlink()  # lost before the next is run
    texts = _pages.parts(recorded)
    for k, name in enumerate(names):
        assert f"claim of {name} (Section 5) | **reproduced** | m |" in texts[name]
        assert texts[f"{name}-runs"] == f"Seeds from {k}, commit `c{k}`."
        assert (docs / "images" / f"{name}.png").is_file()
    run["fingerprint"] = "another"
    (out / f"{names[1]}.json").write_text(json.dumps(run))
    with pytest.raises(SystemExit, match="another source"):
        _docs.write("unlearning", out, docs, recorded)


def test_a_run_on_another_machine_is_shown_with_its_device(docs, tmp_path):
    out, recorded = tmp_path / "out", tmp_path / "recorded"
    out.mkdir()
    figure = load("gnn-dependent")
    there = {**versions(figure), "torch": "2.11.0"}
    settings = replace(figure.full, device="cuda", datasets=())
    record = {
        "figure": "gnn-dependent", "title": "t", "commit": "c", "settings": asdict(replace(figure.full, device="cuda")),
        "fingerprint": fingerprint(figure, settings, there), "versions": there, "verdicts": [],
    }  # fmt: skip
    (out / "gnn-dependent.csv").write_text("dataset,kind,what,model,test\n")
    Image.new("RGB", (4, 4)).save(out / "gnn-dependent.png")
    (out / "gnn-dependent.json").write_text(json.dumps(record))
    with pytest.raises(SystemExit, match="other settings"):
        _docs.write("gnn", out, docs, recorded)
    record["fingerprint"] = fingerprint(figure, replace(figure.full, device="cuda"), there)
    (out / "gnn-dependent.json").write_text(json.dumps(record))
    _docs.write("gnn", out, docs, recorded)
    assert "commit `c`, on a GPU." in _pages.parts(recorded)["gnn-dependent-runs"]


def test_ranking_has_the_mean_over_snrs_and_the_worst():
    methods = ("one weight, best", "exact")
    rows = [
        {"task": "denoising", "noise": "equal", "network": "a", "snr_db": x, "method": m, "over_single": v}
        for m, values in zip(methods, (((1.0, 1.0), (1.0, 1.0)), ((0.5, 0.7), (0.9, 0.9))), strict=True)
        for x, pair in zip((0.0, 5.0), values, strict=True)
        for v in pair
    ]
    text = _docs.ranking(rows, "denoising", "equal")
    assert "| exact | clean history, noise | 0.75 (0.90) |" in text
    assert "edge" not in text
