"""``python -m experiments._docs OUT DOCS``: pictures and verdicts of full runs, for the documentation.

Puts ``OUT/<figure>.png`` into ``DOCS/images``, and tables of claims, verdicts and numbers between the marks
``<!-- begin NAME -->`` and ``<!-- end NAME -->`` of the pages; all else on them is written by hand.
"""

from __future__ import annotations

import csv
import json
import re
import sys
from pathlib import Path
from typing import Any

from PIL import Image

from experiments._engine import fingerprint, load
from experiments._figure import Row, chosen, column, mean_and_error
from experiments._main import NODE_ADAPTIVE
from experiments.beyond import NEEDS, TASKS

#: Of the node-adaptive paper; those of the graph networks are put in when all of them have been run in full.
PAGES = ("reproduction.md", "when-to-use-what.md")


def fragment(told: dict[str, Any]) -> str:
    """Picture, and claims against what was measured."""
    lines = [f"![{told['title']}](images/{told['figure']}.png)", ""]
    if told["verdicts"]:
        lines += ["| the paper says | verdict | measured |", "|---|---|---|"]
    for v in told["verdicts"]:
        measured = " ".join(f"{v['measured']} {v['why']}".split())  # one line: it is a table's cell
        place = f"Section {v['section']}" + (f", Figure {v['figure']}" if "figure" in v else "")
        lines.append(f"| {v['text']} ({place}) | **{v['finding']}** | {measured} |")
    return "\n".join(lines).rstrip().replace("<=", "≤") + "\n"


def overview(figures: dict[str, dict[str, Any]]) -> str:
    """Every claim in one line."""
    lines = ["| | claim | verdict |", "|---|---|---|"]
    for name, told in figures.items():
        heading = name.replace("fig", "Figure ") if name.startswith("fig") else name.capitalize()
        link = f"[{heading}](#{heading.lower().replace(' ', '-')})"
        lines += [f"| {link} | {v['text']} | **{v['finding']}** |" for v in told["verdicts"]]
    return "\n".join(lines) + "\n"


def ranking(rows: list[Row], task: str, noise: str) -> str:
    """Methods against networks: NMSE over that of the best single weight, mean over SNRs and the worst of them."""
    mine = chosen(rows, task=task, noise=noise)
    networks = list(dict.fromkeys(row["network"] for row in mine))
    lines = ["| method | must know | " + " | ".join(networks) + " |", "|---|---|" + "---:|" * len(networks)]
    for method, needs in NEEDS.items():
        if not chosen(mine, method=method):
            continue
        cells = []
        for network in networks:
            here = chosen(mine, network=network, method=method)
            means = [mean_and_error(column(here, "over_single", snr_db=x))[0] for x in {row["snr_db"] for row in here}]
            cells.append(f"{sum(means) / len(means):.2f} ({max(means):.2f})")
        lines.append(f"| {method} | {needs} | " + " | ".join(cells) + " |")
    return "\n".join(lines) + "\n"


def numbers(path: Path) -> list[Row]:
    """Rows of a CSV, numbers as such."""
    with path.open(newline="") as handle:
        return [{key: _number(value) for key, value in row.items()} for row in csv.DictReader(handle)]


def _number(text: str) -> Any:
    try:
        return float(text)
    except ValueError:
        return text


def put(page: str, parts: dict[str, str]) -> str:
    """The page with the parts between their marks; every mark of the page must have a part."""

    def part(match: re.Match[str]) -> str:
        name = match[1]
        return f"<!-- begin {name} -->\n\n{parts[name].strip()}\n\n<!-- end {name} -->"

    return re.sub(r"<!-- begin ([\w-]+) -->.*?<!-- end \1 -->", part, page, flags=re.DOTALL)


def write(out: Path, docs: Path) -> None:
    """Put the results of full runs of the node-adaptive paper's figures in the documentation."""
    figures = {name: json.loads((out / f"{name}.json").read_text()) for name in NODE_ADAPTIVE}
    for name, told in figures.items():
        figure = load(name)
        if told["fingerprint"] != fingerprint(figure, figure.full):
            raise SystemExit(f"{name} was run with other settings or another source than its figure has: run it again.")
        with Image.open(out / f"{name}.png") as picture:  # 256 colours are enough: a third of the size
            picture.convert("RGB").quantize(256).save(docs / "images" / f"{name}.png", optimize=True)
    rows = numbers(out / "beyond.csv")
    parts = {name: fragment(told) for name, told in figures.items()} | {"overview": overview(figures)}
    parts |= {f"{task}-{noise}": ranking(rows, task, noise) for task in TASKS for noise in ("equal", "unequal")}
    for page in PAGES:
        path = docs / page
        path.write_text(put(path.read_text(), parts))


if __name__ == "__main__":
    write(Path(sys.argv[1]), Path(sys.argv[2]))
