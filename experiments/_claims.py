"""The tables of ``docs/results/claims.md``: every claim with its verdict, data and command.

Claims are those of ``published.toml``. The verdict of one that an experiment tests is the recorded one; data and reason, in few
words, come from ``summaries.toml``, which names the verdict that its words are about: words about another one are refused.
Claims under "elsewhere" have no experiment: theorems and lemmas that tests check, tables that one reads off another's, and what
cannot be run here.
"""

from __future__ import annotations

import tomllib
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from experiments._figure import Finding
from experiments._main import FIGURES, GROUPS
from experiments._record import anchor, place, stated
from nareg.errors import InputError

#: Group of experiments -> the page that shows their claims.
PAGES = {
    "node-adaptive": "reproduction.md",
    "gnn": "gnn-reproduction.md",
    "herta": "herta.md",
    "unlearning": "unlearning.md",
    "time": "who-wins-where.md",
}
ELSEWHERE = "elsewhere"
#: Part of the page -> the papers whose claims it has.
PARTS = {
    "node-adaptive": ("Yang et al. 2021",),
    "gnn": ("NGC / RNGC",),
    "herta": ("HERTA",),
    "unlearning": ("ScaleGUN",),
    "others": (
        "our reading of Yang et al. 2021", "our reading of NGC / RNGC", "our reading of HERTA", "each model's own",
        "GADC, ICML 2024", "the benchmark", "Giraldo et al. 2022",
    ),
    "aims": ("nareg",),
}  # fmt: skip
#: What the counts call the four papers, whose claims alone are counted.
TITLES = {
    "node-adaptive": "[Node-adaptive filters](#node-adaptive-filters)",
    "gnn": "[Graph networks under noise](#graph-networks-under-noise)",
    "herta": "[Training unfolded networks](#training-unfolded-networks)",
    "unlearning": "[Certified unlearning](#certified-unlearning)",
}
#: Their names.
FOUR = tuple(paper for part in TITLES for paper in PARTS[part])
#: Columns of the counts.
COUNTED = {
    "reproduced": Finding.REPRODUCED, "in part": Finding.IN_PART, "not reproduced": Finding.NOT, "not run": Finding.NOT_RUN,
}  # fmt: skip


@dataclass(frozen=True)
class Line:
    """A claim on the page."""

    paper: str
    place: str
    text: str
    finding: Finding
    verdict: str
    data: str
    command: str


@cache
def toml(name: str) -> dict[str, dict[str, dict[str, str]]]:
    """A table of tables beside this file: experiment, claim, values."""
    with (Path(__file__).parent / name).open("rb") as handle:
        tables: dict[str, dict[str, dict[str, str]]] = tomllib.load(handle)
    return tables


def lines(records: dict[str, dict[str, Any]]) -> list[Line]:
    """Every claim, in the order of the experiments; those without one last."""
    claims, summaries = toml("published.toml"), toml("summaries.toml")
    spare = {(name, claim) for name in summaries for claim in summaries[name] if claim not in claims.get(name, {})}
    if spare:
        raise InputError(f"summaries.toml has words about {sorted(spare)[0]}, which published.toml does not have.")
    verdicts = {(name, v["text"]): v for name, record in records.items() for v in record.get("verdicts", ())}
    return [
        _line(name, claim, values, summaries.get(name, {}).get(claim), verdicts)
        for name in (*FIGURES, ELSEWHERE) for claim, values in claims.get(name, {}).items()
    ]  # fmt: skip


def _line(
    name: str, claim: str, values: dict[str, str], said: dict[str, str] | None, verdicts: dict[tuple[str, str], dict[str, Any]]
) -> Line:
    where = f"{name}.{claim}"
    if said is None:
        raise InputError(f"summaries.toml says nothing of {where}: give its finding, data and, unless reproduced, because.")
    if name == ELSEWHERE:
        verdict, link, command = {"finding": said["finding"], "on": ""}, said.get("link", ""), said.get("command", "")
    else:
        if (name, values["text"]) not in verdicts:
            raise InputError(
                f"recorded/{name}.json has no verdict on {where}: run it in full, then python -m experiments._docs."
            )
        verdict = verdicts[name, values["text"]]
        link = f"{next(page for group, page in PAGES.items() if name in GROUPS[group])}#{anchor(name)}"
        fetched = "".join(f"nareg datasets fetch {data}; " for data in said.get("fetch", "").split())
        command = f"{fetched}nareg reproduce {name} {said.get('with', '')}".rstrip()
    finding, because = verdict["finding"], said.get("because", "")
    if said["finding"] != finding:
        raise InputError(
            f"summaries.toml has words about {where} as {said['finding']!r}, but it is {finding!r}: write them anew."
        )
    whole = finding in (Finding.REPRODUCED, Finding.MET)
    if whole == bool(because):
        raise InputError(f"summaries.toml: {where} is {finding!r}, which {'takes no' if whole else 'needs a'} because.")
    spot = place({"figure": "", **values}, paper=values["paper"] not in FOUR)
    return Line(
        paper=values["paper"],
        place=f"[{spot}]({link})" if link else spot,
        text=values["text"],
        finding=Finding(finding),
        verdict=f"**{finding}**: {because}" if because else stated(verdict),
        data=said["data"],
        command=command,
    )


def table(mine: Iterable[Line]) -> str:
    """One line per claim."""
    text = ["| place | claim | verdict | data | command |", "|---|---|---|---|---|"]
    for line in mine:
        command = " ".join(f"`{part}`" for part in line.command.split("; ") if part)
        text.append(f"| {line.place} | {line.text} | {line.verdict} | {line.data} | {command} |")
    return "\n".join(text)


def counts(parts: dict[str, list[Line]]) -> str:
    """How many claims of each of the four papers came to what, and of all four."""
    text = [f"| | claims | {' | '.join(COUNTED)} |", "|---|" + "---:|" * (len(COUNTED) + 1)]
    four = [line for name in TITLES for line in parts[name]]
    for title, mine in [*((title, parts[name]) for name, title in TITLES.items()), ("**the four papers**", four)]:
        times = Counter(line.finding for line in mine)
        text.append(f"| {title} | {len(mine)} | {' | '.join(str(times[finding]) for finding in COUNTED.values())} |")
    return "\n".join(text)


def parts(records: dict[str, dict[str, Any]]) -> dict[str, str]:
    """The tables of the page, by name."""
    everything = lines(records)
    mine = {name: [line for line in everything if line.paper in papers] for name, papers in PARTS.items()}
    return {f"claims-{name}": table(some) for name, some in mine.items()} | {"claims-counts": counts(mine)}
