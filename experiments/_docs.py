"""``python -m experiments._docs OUT DOCS``: pictures and verdicts of full runs, for the documentation.

Copies ``OUT/<figure>.png`` to ``DOCS/images`` and writes a table of claims and verdicts, or the numbers of the figures that
judge no claim, to ``DOCS/reproduced/<figure>.md``; ``docs/reproduction.md`` and ``docs/when-to-use-what.md`` include them.
"""

from __future__ import annotations

import csv
import json
import shutil
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Any

from experiments._engine import load
from experiments._figure import Row, column, mean_and_error
from experiments._main import FIGURES


def fragment(told: dict[str, Any]) -> str:
    """Picture, and claims against what was measured."""
    lines = [f"![{told['title']}](images/{told['figure']}.png)", ""]
    if told["verdicts"]:
        lines += ["| the paper says | verdict | measured |", "|---|---|---|"]
    for v in told["verdicts"]:
        measured = " ".join(part for part in (v["measured"], v["why"]) if part)
        place = f"Section {v['section']}" + (f", Figure {v['figure']}" if "figure" in v else "")
        lines.append(f"| {v['text']} ({place}) | **{v['finding']}** | {measured} |")
    return "\n".join(lines).rstrip().replace("<=", "≤") + "\n"


def overview(figures: dict[str, dict[str, Any]]) -> str:
    """Every claim in one line."""
    lines = ["| figure | claim | verdict |", "|---|---|---|"]
    lines += [
        f"| [{name}](#{name}) | {v['text']} | **{v['finding']}** |" for name, told in figures.items() for v in told["verdicts"]
    ]
    return "\n".join(lines) + "\n"


def ranking(rows: list[Row], task: str) -> str:
    """Methods against networks and noise: NMSE over that of the best single weight, the mean over SNRs and draws."""
    networks = list(dict.fromkeys(row["network"] for row in rows))
    methods = [m for m in dict.fromkeys(row["method"] for row in rows) if column(rows, "nmse", task=task, method=m)]
    lines = []
    for noise in ("equal", "unequal"):
        lines += [f"**{task.capitalize()}, {noise} noise**", ""]
        lines += ["| method | " + " | ".join(networks) + " |", "|---|" + "---:|" * len(networks)]
        for method in methods:
            cells = []
            for network in networks:
                ratio = column(rows, "over_single", task=task, noise=noise, network=network, method=method)
                cells.append(f"{mean_and_error(ratio)[0]:.2f}")
            lines.append(f"| {method} | " + " | ".join(cells) + " |")
        lines.append("")
    return "\n".join(lines)


def numbers(path: Path) -> list[Row]:
    """Rows of a CSV, numbers as such."""
    with path.open(newline="") as handle:
        return [{key: _number(value) for key, value in row.items()} for row in csv.DictReader(handle)]


def _number(text: str) -> Any:
    try:
        return float(text)
    except ValueError:
        return text


def write(out: Path, docs: Path) -> None:
    """Put the results of full runs of all figures in the documentation."""
    target = docs / "reproduced"
    target.mkdir(exist_ok=True)
    figures = {name: json.loads((out / f"{name}.json").read_text()) for name in FIGURES}
    for name, told in figures.items():
        if told["settings"] != json.loads(json.dumps(asdict(load(name).full))):
            raise SystemExit(f"{name} was run with other settings than those of its figure.")
        shutil.copyfile(out / f"{name}.png", docs / "images" / f"{name}.png")
        (target / f"{name}.md").write_text(fragment(told))
    (target / "overview.md").write_text(overview(figures))
    rows = numbers(out / "beyond.csv")
    for task in ("denoising", "interpolation"):
        (target / f"ranking-{task}.md").write_text(ranking(rows, task))


if __name__ == "__main__":
    write(Path(sys.argv[1]), Path(sys.argv[2]))
