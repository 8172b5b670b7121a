"""``python -m experiments._pages DOCS`` (``make results``): what the pages of results include, from ``recorded/``.

A page in ``DOCS/results`` includes ``generated/NAME.inc``: picture and verdicts of an experiment, one of its tables, the
overview of a group, or a table of ``claims.md``. All else on a page is written by hand.
"""

from __future__ import annotations

import re
import shutil
import sys
from pathlib import Path
from typing import Any

from experiments import _claims
from experiments._main import GROUPS
from experiments._record import RECORDED, anchor, heading, place, read, stated

#: How a page names what it includes.
INCLUDE = re.compile(r"^```\{include\} generated/([\w-]+)\.inc\n```$", re.MULTILINE)

#: Stands where an experiment has not been run in full.
NOT_RUN = "*Not run in full yet.*"

#: Where a text of measurements falls into items: semicolons, and ends of sentences.
ITEM = re.compile(r"; |\. (?=\S)")

#: Words that a cell of a table holds at most; longer texts stand below it, item by item.
LONGEST_CELL = 45


def fragment(group: str, record: dict[str, Any]) -> str:
    """Picture, and claims against what was measured, of an experiment."""
    papers, header = _labels(group, record["verdicts"])
    rows = [(f"{v['text']} ({place(v, papers)})", stated(v), v["measured"]) for v in record["verdicts"]]
    picture = f"![{record['title']}](../images/{record['figure']}.png)\n\n"
    return (picture + claims(rows, header)).replace("<=", "≤")


def _labels(group: str, verdicts: list[dict[str, Any]]) -> tuple[bool, str]:
    """Whether claims name their paper, and the heading above them: of one paper, or of several, our readings and aims."""
    aims = any(v["section"] == "aim" for v in verdicts)
    ours = any(v["paper"].startswith("our reading") for v in verdicts)
    header = "claim or aim" if aims or group == "time" else "claim or reading" if ours else "the paper says"
    return aims or ours or group in ("gnn", "time"), header


def claims(rows: list[tuple[str, str, str]], header: str) -> str:
    """Table of claims, verdicts and what was measured. What is too long for a cell can be unfolded below."""
    if not rows:
        return ""
    lines = [f"| {header} | verdict | measured |", "|---|---|---|"]
    below: list[str] = []
    for claim, verdict, measured in rows:
        long = len(measured.split()) > LONGEST_CELL
        lines.append(f"| {claim} | {verdict} | {'*below*' if long else measured} |")
        if long:
            items = "\n".join(f"- {item}" for item in ITEM.split(measured.rstrip(".")))
            below.append(f"<details><summary>Measured: {claim}</summary>\n\n{items}\n\n</details>\n")
    return "\n".join([*lines, "", *below])


def overview(records: list[dict[str, Any]]) -> str:
    """Every claim in one line."""
    lines = ["| | claim | verdict |", "|---|---|---|"]
    for record in records:
        name = record["figure"]
        start = f"| [{heading(name)}](#{anchor(name)}) | "
        lines += [f"{start}{v['text']} | {stated(v)} |" for v in record["verdicts"]]
    return "\n".join(lines)


def parts(folder: Path = RECORDED) -> dict[str, str]:
    """All that pages can include, by name."""
    records = read(folder)
    texts = {name: "\n".join(lines) for record in records.values() for name, lines in record["tables"].items()}
    for group in _claims.PAGES:
        mine = [records[name] for name in GROUPS[group] if name in records]
        texts[f"overview-{group}"] = overview(mine)
        texts |= {record["figure"]: fragment(group, record) for record in mine}
    return {name: text.strip() for name, text in (texts | _claims.parts(records)).items()}


def write(docs: Path, folder: Path = RECORDED) -> None:
    """Write whatever the pages include."""
    texts, generated = parts(folder), docs / "results" / "generated"
    shutil.rmtree(generated, ignore_errors=True)
    generated.mkdir()
    for page in sorted((docs / "results").glob("*.md")):
        for name in INCLUDE.findall(page.read_text()):
            (generated / f"{name}.inc").write_text(texts.get(name, NOT_RUN) + "\n")


if __name__ == "__main__":
    write(Path(sys.argv[1]))
