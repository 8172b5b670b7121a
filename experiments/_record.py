"""What full runs of experiments found, as this repository keeps it: ``recorded/NAME.json``, verdicts and tables.

Experiments take hours, so their results are recorded once. ``make results`` writes the tables of the pages from here. Files by
the name of a page hold what scripts in ``benchmarks`` print, as tables alone.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

from experiments._main import FIGURES

RECORDED = Path(__file__).parent / "recorded"
#: Of a verdict, what its experiment's page says.
FIELDS = ("text", "paper", "section", "figure", "finding", "on")


def write(record: dict[str, Any], tables: dict[str, str], folder: Path = RECORDED) -> None:
    """Record the verdicts of a run, and its tables by the names that the pages include them by."""
    verdicts = [
        {field: v.get(field, "") for field in FIELDS} | {"measured": " ".join(f"{v['measured']} {v['why']}".split())}
        for v in record["verdicts"]
    ]
    content = {
        "figure": record["figure"],
        "title": record["title"],
        "verdicts": verdicts,
        "tables": {name: text.strip().splitlines() for name, text in tables.items()},
    }
    folder.mkdir(exist_ok=True)
    (folder / f"{record['figure']}.json").write_text(json.dumps(content, indent=1, ensure_ascii=False) + "\n")


def read(folder: Path = RECORDED) -> dict[str, dict[str, Any]]:
    """Every record, by the name of its experiment in their order, or of its page."""
    records = {path.stem: json.loads(path.read_text()) for path in sorted(folder.glob("*.json"))}
    return {name: records[name] for name in FIGURES if name in records} | records


def stated(verdict: dict[str, Any]) -> str:
    """The finding, and what it was found on where that is not the paper's."""
    return f"**{verdict['finding']}** {verdict['on']}".rstrip()


def place(verdict: dict[str, Any], paper: bool) -> str:
    """Where a claim is made: sections and figures have numbers or, in papers whose text is at hand in parts, names."""
    section, figure = verdict["section"], verdict.get("figure", "")
    parts = [verdict["paper"]] if paper else []
    parts.append(f"Section {section}" if section[0].isupper() or section[0].isdigit() else section)
    if figure:
        several = re.match(r"\d+(,| and| to) \d", figure) is not None
        parts.append(f"Figure{'s' * several} {figure}" if figure[0].isdigit() else figure)
    return ", ".join(parts)


def heading(name: str) -> str:
    """Of an experiment's section on its page."""
    return name if name.startswith(("gnn", "herta", "unlearning", "time")) else name.replace("fig", "Figure ").capitalize()


def anchor(name: str) -> str:
    """Of that heading."""
    return heading(name).lower().replace(" ", "-")
