"""``python -m experiments._claims DOCS``: ``DOCS/results/claims.md``, every claim with its verdict, data and command.

Claims are those of ``published.toml``. The verdict of one that an experiment tests is what the experiment's page says in its
overview; data and reason, in few words, come from ``summaries.toml``, which names the verdict that its words are about: words
about another one are refused. Claims under "elsewhere" have no experiment: theorems and lemmas that tests check, tables that
one reads off another's, and what cannot be run here.
"""

from __future__ import annotations

import re
import sys
import tomllib
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from experiments._docs import PAGES, heading, place, put
from experiments._figure import Finding
from experiments._main import FIGURES
from nareg.errors import InputError

PAGE = "results/claims.md"
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
#: A line of an overview: heading, text, finding, what it was found on.
LINE = re.compile(r"^\| \[(.+?)\]\(#.+?\) \| (.+) \| \*\*(.+?)\*\*(.*) \|$", re.MULTILINE)
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


def recorded(docs: Path) -> dict[tuple[str, str], tuple[str, str, str]]:
    """(heading of an experiment, text of a claim) -> the page, finding, and what it was found on."""
    verdicts = {}
    for page in (page for pages in PAGES.values() for page in pages):
        overview = (docs / page).read_text().partition("<!-- begin overview -->")[2].partition("<!-- end overview -->")[0]
        for name, text, finding, on in LINE.findall(overview):
            verdicts[name, text] = page, finding, on.strip()
    return verdicts


def lines(docs: Path) -> list[Line]:
    """Every claim, in the order of the experiments; those without one last."""
    claims, summaries, verdicts = toml("published.toml"), toml("summaries.toml"), recorded(docs)
    spare = {(name, claim) for name in summaries for claim in summaries[name] if claim not in claims.get(name, {})}
    if spare:
        raise InputError(f"summaries.toml has words about {sorted(spare)[0]}, which published.toml does not have.")
    return [
        _line(name, claim, values, summaries.get(name, {}).get(claim), verdicts)
        for name in (*FIGURES, ELSEWHERE) for claim, values in claims.get(name, {}).items()
    ]  # fmt: skip


def _line(
    name: str, claim: str, values: dict[str, str], said: dict[str, str] | None, verdicts: dict[Any, tuple[str, str, str]]
) -> Line:
    where = f"{name}.{claim}"
    if said is None:
        raise InputError(f"summaries.toml says nothing of {where}: give its finding, data and, unless reproduced, because.")
    if name == ELSEWHERE:
        finding, on, link, command = said["finding"], "", said.get("link", ""), said.get("command", "")
    else:
        page, finding, on = verdicts[heading(name), values["text"]]
        link = f"{Path(page).name}#{heading(name).lower().replace(' ', '-')}"
        fetched = "".join(f"nareg datasets fetch {data}; " for data in said.get("fetch", "").split())
        command = f"{fetched}nareg reproduce {name} {said.get('with', '')}".rstrip()
    if said["finding"] != finding:
        raise InputError(
            f"summaries.toml has words about {where} as {said['finding']!r}, but it is {finding!r}: write them anew."
        )
    because, whole = said.get("because", ""), finding in (Finding.REPRODUCED, Finding.MET)
    if whole == bool(because):
        raise InputError(f"summaries.toml: {where} is {finding!r}, which {'takes no' if whole else 'needs a'} because.")
    verdict = f"**{finding}**: {because}" if because else f"**{finding}** {on}".rstrip()
    spot = place({"figure": "", **values}, paper=values["paper"] not in FOUR)
    return Line(
        values["paper"], f"[{spot}]({link})" if link else spot, values["text"], Finding(finding), verdict, said["data"], command
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


def page(docs: Path) -> str:
    """The page with its tables put in; all else on it is written by hand."""
    everything = lines(docs)
    parts = {name: [line for line in everything if line.paper in papers] for name, papers in PARTS.items()}
    texts = {f"claims-{name}": table(mine) for name, mine in parts.items()}
    return put((docs / PAGE).read_text(), texts | {"counts": counts(parts)})


def write(docs: Path) -> None:
    """Write it."""
    (docs / PAGE).write_text(page(docs))


if __name__ == "__main__":
    write(Path(sys.argv[1]))
