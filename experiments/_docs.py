"""``python -m experiments._docs OUT DOCS``: pictures and verdicts of full runs, for the documentation.

Puts ``OUT/<figure>.png`` into ``DOCS/images`` and writes a table of claims and verdicts, or the numbers of the figures that
judge no claim, to ``DOCS/reproduced/<figure>.md``; ``docs/reproduction.md`` and ``docs/when-to-use-what.md`` include them.
"""

from __future__ import annotations

import csv
import json
import sys
from pathlib import Path
from typing import Any

from PIL import Image

from experiments._engine import fingerprint, load
from experiments._figure import Row, chosen, column, mean_and_error
from experiments._main import FIGURES
from experiments.beyond import NEEDS, TASKS


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
    lines = ["| figure | claim | verdict |", "|---|---|---|"]
    lines += [
        f"| [{name}](#{name}) | {v['text']} | **{v['finding']}** |" for name, told in figures.items() for v in told["verdicts"]
    ]
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


def write(out: Path, docs: Path) -> None:
    """Put the results of full runs of all figures in the documentation."""
    target = docs / "reproduced"
    target.mkdir(exist_ok=True)
    figures = {name: json.loads((out / f"{name}.json").read_text()) for name in FIGURES}
    for name, told in figures.items():
        figure = load(name)
        if told["fingerprint"] != fingerprint(figure, figure.full):
            raise SystemExit(f"{name} was run with other settings or another source than its figure has: run it again.")
        with Image.open(out / f"{name}.png") as picture:  # 256 colours are enough: a third of the size
            picture.convert("RGB").quantize(256).save(docs / "images" / f"{name}.png", optimize=True)
        (target / f"{name}.md").write_text(fragment(told))
    (target / "overview.md").write_text(overview(figures))
    rows = numbers(out / "beyond.csv")
    for task in TASKS:
        for noise in ("equal", "unequal"):
            (target / f"{task}-{noise}.md").write_text(ranking(rows, task, noise))


if __name__ == "__main__":
    write(Path(sys.argv[1]), Path(sys.argv[2]))
