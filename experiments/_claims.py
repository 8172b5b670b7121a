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
    "gnn": ("NGC / RNGC", "GADC, ICML 2024", "each model's own"),
    "herta": ("HERTA",),
    "unlearning": ("ScaleGUN",),
    "others": ("Giraldo et al. 2022", "the benchmark", "nareg"),
}
#: What the counts call them.
TITLES = {
    "node-adaptive": "[Node-adaptive filters](#node-adaptive-filters)",
    "gnn": "[Graph networks under noise](#graph-networks-under-noise)",
    "herta": "[Training unfolded networks](#training-unfolded-networks)",
    "unlearning": "[Certified unlearning](#certified-unlearning)",
    "others": "[Beyond the four papers](#beyond-the-four-papers)",
}
#: A line of an overview: heading, text, finding, what it was found on.
LINE = re.compile(r"^\| \[(.+?)\]\(#.+?\) \| (.+) \| \*\*(.+?)\*\*(.*) \|$", re.MULTILINE)
#: Columns of the counts, of findings about claims and about aims.
COUNTED = {
    "reproduced": (Finding.REPRODUCED, Finding.MET),
    "in part": (Finding.IN_PART, Finding.MET_IN_PART),
    "not reproduced": (Finding.NOT, Finding.NOT_MET),
    "not run": (Finding.NOT_RUN,),
}


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
    spot = place({"figure": "", **values}, paper=len(_papers(values["paper"])) > 1 and values["paper"] != "NGC / RNGC")
    return Line(
        values["paper"], f"[{spot}]({link})" if link else spot, values["text"], Finding(finding), verdict, said["data"], command
    )


def _papers(paper: str) -> tuple[str, ...]:
    """All papers of the part of the page that has this one's claims."""
    return next(papers for papers in PARTS.values() if paper in papers)


def table(mine: Iterable[Line]) -> str:
    """One line per claim."""
    text = ["| place | claim | verdict | data | command |", "|---|---|---|---|---|"]
    for line in mine:
        command = " ".join(f"`{part}`" for part in line.command.split("; ") if part)
        text.append(f"| {line.place} | {line.text} | {line.verdict} | {line.data} | {command} |")
    return "\n".join(text)


def counts(parts: dict[str, list[Line]]) -> str:
    """How many claims of each part came to what; the four papers together."""
    text = [f"| | claims | {' | '.join(COUNTED)} |", "|---|" + "---:|" * (len(COUNTED) + 1)]
    four = [line for name, mine in parts.items() if name != "others" for line in mine]
    for title, mine in [*((TITLES[name], mine) for name, mine in parts.items() if name != "others"),
                        ("**the four papers**", four), (TITLES["others"], parts["others"])]:  # fmt: skip
        times = Counter(line.finding for line in mine)
        cells = [sum(times[finding] for finding in findings) for findings in COUNTED.values()]
        text.append(f"| {title} | {len(mine)} | {' | '.join(map(str, cells))} |")
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
