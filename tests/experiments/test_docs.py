"""The documentation shows every figure, and every claim with its verdict."""

from __future__ import annotations

import json
from dataclasses import asdict, replace
from pathlib import Path

import pytest
from PIL import Image

from experiments import _docs
from experiments._engine import fingerprint, load, versions
from experiments._figure import Finding, claims
from experiments._main import GROUPS

DOCS = Path(__file__).resolve().parents[2] / "docs"


@pytest.mark.parametrize(("group", "name"), [(group, name) for group in _docs.PAGES for name in GROUPS[group]])
def test_figure_and_its_claims_are_in_the_documentation(group, name):
    pages = "".join((DOCS / page).read_text() for page in _docs.PAGES[group])
    text = pages.partition(f"<!-- begin {name} -->")[2].partition(f"<!-- end {name} -->")[0].strip()
    assert text.startswith("![")
    assert f"(../images/{name}.png)" in text
    assert (DOCS / "images" / f"{name}.png").stat().st_size > 10_000
    table = [line for line in text.splitlines()[2:] if line.startswith("|")]
    assert all(line.startswith(("| ", "|---")) and line.endswith("|") for line in table)
    assert all(len(cell.split()) <= _docs.LONGEST_CELL for line in table for cell in line.split("|")[3:])
    overview = pages.partition("<!-- begin overview -->")[2].partition("<!-- end overview -->")[0]
    for claim in claims(name).values():
        line = next(line for line in text.splitlines() if claim["text"] in line)
        finding = next(word for word in Finding if f"**{word}**" in line)
        mine = [row for row in overview.splitlines() if row.startswith(f"| [{_docs.heading(name)}](")]
        assert any(claim["text"] in row and f"**{finding}**" in row for row in mine)


def test_a_long_measurement_stands_below_its_table_item_by_item():
    long = "; ".join(f"network {k}: nareg has 0.{k}, the peer 0.9{k} of it" for k in range(8)) + ". One draw."
    text = _docs.claims([("short claim", "**met**", "1.0"), ("long claim", "**not met**", long)], "claim or aim")
    assert "| short claim | **met** | 1.0 |" in text
    assert "| long claim | **not met** | *below* |" in text
    items = [line for line in text.splitlines() if line.startswith("- ")]
    assert items[0] == "- network 0: nareg has 0.0, the peer 0.90 of it"
    assert items[-1] == "- One draw"
    assert len(items) == 9
    assert _docs.claims([], "claim") == ""


def test_parts_are_put_between_their_marks_and_nothing_else_changes():
    page = "by hand\n<!-- begin a -->\nold\n<!-- end a -->\nmore\n<!-- begin b -->\n<!-- end b -->\n"
    first = _docs.put(page, {"a": "new", "b": "table\n"})
    assert first == ("by hand\n<!-- begin a -->\n\nnew\n\n<!-- end a -->\nmore\n<!-- begin b -->\n\ntable\n\n<!-- end b -->\n")
    assert _docs.put(first, {"a": "new", "b": "table"}) == first


def test_what_was_not_run_anew_stays_and_what_never_was_says_so():
    page = "<!-- begin a -->\n\nold\n\n<!-- end a -->\n<!-- begin b -->\n<!-- end b -->\n"
    assert (
        _docs.put(page, {})
        == f"<!-- begin a -->\n\nold\n\n<!-- end a -->\n<!-- begin b -->\n\n{_docs.NOT_RUN}\n\n<!-- end b -->\n"
    )


def test_overview_keeps_the_lines_of_what_was_not_run_anew():
    stated = {
        name: {"verdicts": [{"text": f"claim of {name}", "finding": "partly", "on": ""}]} for name in ("fig1", "fig2", "fig3")
    }
    whole = _docs.overview(stated, stated, "")
    changed = {"fig2": {"verdicts": [{"text": "claim of fig2", "finding": "reproduced", "on": "on a made-up graph"}]}}
    second = "| [Figure 2](#figure-2) | claim of fig2 | **partly** |"
    assert second in whole
    assert _docs.overview(changed, stated, whole) == whole.replace(
        second, second.replace("**partly**", "**reproduced** on a made-up graph")
    )


def test_pages_are_written_from_what_was_run(tmp_path):
    out, docs = tmp_path / "out", tmp_path / "docs"
    out.mkdir()
    (docs / "images").mkdir(parents=True)
    (docs / "results").mkdir()
    names = GROUPS["unlearning"][:2]
    page = "<!-- begin overview -->\n<!-- end overview -->\n" + "".join(
        f"<!-- begin {name}{part} -->\n<!-- end {name}{part} -->\n" for name in names for part in ("", "-runs")
    )
    (docs / "results" / "unlearning.md").write_text(page)
    for k, name in enumerate(names):
        figure = load(name)
        stated = {
            "figure": name, "title": "t", "commit": f"c{k}", "settings": {"seed": k},
            "fingerprint": fingerprint(figure, figure.full), "versions": versions(figure),
            "verdicts": [{"text": f"claim {k}", "finding": "reproduced", "on": "", "paper": "ScaleGUN", "section": "5",
                          "measured": "m", "why": ""}],
        }  # fmt: skip
        (out / f"{name}.json").write_text(json.dumps(stated))
        (out / f"{name}.csv").write_text("a\n1\n")
        Image.new("RGB", (4, 4)).save(out / f"{name}.png")
        _docs.write("unlearning", out, docs)
        (out / f"{name}.json").unlink()  # lost before the next is run
    text = (docs / "results" / "unlearning.md").read_text()
    assert all(f"claim {k} | **reproduced** |" in text and f"commit `c{k}`" in text for k in range(2))
    assert _docs.NOT_RUN not in text
    stated["fingerprint"] = "another"
    (out / f"{names[1]}.json").write_text(json.dumps(stated))
    with pytest.raises(SystemExit, match="another source"):
        _docs.write("unlearning", out, docs)


def test_a_run_on_another_machine_is_shown_with_its_device(tmp_path):
    docs, out = tmp_path / "docs", tmp_path / "out"
    out.mkdir()
    (docs / "images").mkdir(parents=True)
    (docs / "results").mkdir()
    (docs / "results" / "gnn.md").write_text("<!-- begin gnn-dependent-runs -->\n<!-- end gnn-dependent-runs -->\n")
    (docs / "results" / "gnn-reproduction.md").write_text("<!-- begin overview -->\n<!-- end overview -->\n")
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
        _docs.write("gnn", out, docs)
    record["fingerprint"] = fingerprint(figure, replace(figure.full, device="cuda"), there)
    (out / "gnn-dependent.json").write_text(json.dumps(record))
    _docs.write("gnn", out, docs)
    assert "commit `c`, on a GPU." in (docs / "results" / "gnn.md").read_text()


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
