"""``python -m experiments._docs GROUP OUT DOCS``: pictures and verdicts of full runs, for the documentation.

Writes ``DOCS/results/claims.md`` from them too (see :mod:`experiments._claims`).

GROUP is "node-adaptive", "gnn", "herta", "unlearning" or "time". Puts ``OUT/<figure>.png`` into ``DOCS/images``, and tables of
claims, verdicts and numbers between the marks ``<!-- begin NAME -->`` and ``<!-- end NAME -->`` of the pages; all else on
them is written by hand. What OUT has nothing of stays as it is: runs take hours. Pages but those of "node-adaptive" name the
commit that a table comes from.
"""

from __future__ import annotations

import csv
import json
import re
import sys
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

from PIL import Image

from experiments import _time_tables
from experiments._engine import fingerprint, load
from experiments._figure import Row, chosen, column, mean_and_error
from experiments._main import GROUPS
from experiments.beyond import NEEDS, TASKS

#: Group of experiments -> the pages that show them.
PAGES = {
    "node-adaptive": ("results/reproduction.md", "results/networks.md"),
    "gnn": ("results/gnn.md", "results/gnn-reproduction.md"),
    "herta": ("results/herta.md",),
    "unlearning": ("results/unlearning.md",),
    "time": ("results/who-wins-where.md",),
}

#: Where a text of measurements falls into items: semicolons, and ends of sentences.
ITEM = re.compile(r"; |\. (?=\S)")

#: Stands where an experiment has not been run in full.
NOT_RUN = "*Not run in full yet.*"


#: Columns of the unlearning benchmark that are divided by others.
RATIOS = (("seconds", "reference seconds"), ("logits", "logit scale"))

#: Words that a cell of a table holds at most; longer texts stand below it, item by item.
LONGEST_CELL = 45


def fragment(record: dict[str, Any], *, papers: bool = False, header: str = "the paper says") -> str:
    """Picture, and claims against what was measured; ``papers``: claims name theirs, on a page of more than one."""
    rows = [
        (f"{v['text']} ({place(v, papers)})", stated(v), " ".join(f"{v['measured']} {v['why']}".split()))
        for v in record["verdicts"]
    ]
    picture = f"![{record['title']}](../images/{record['figure']}.png)\n\n"
    return (picture + claims(rows, header)).rstrip().replace("<=", "≤") + "\n"


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


def overview(figures: dict[str, dict[str, Any]], names: Iterable[str], pages: str) -> str:
    """Every claim in one line; of a name that is not among the figures, the lines that are on the pages."""
    lines = ["| | claim | verdict |", "|---|---|---|"]
    for name in names:
        start = f"| [{heading(name)}](#{heading(name).lower().replace(' ', '-')}) | "
        if name in figures:
            lines += [f"{start}{v['text']} | {stated(v)} |" for v in figures[name]["verdicts"]]
        else:
            lines += [line for line in pages.splitlines() if line.startswith(start)]
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
        return float(text) if text else None
    except ValueError:
        return text


def put(page: str, parts: dict[str, str]) -> str:
    """The page with the parts between their marks; without a part, what is there stays, and where nothing is it says so."""

    def part(match: re.Match[str]) -> str:
        name, there = match[1], match[2].strip()
        return f"<!-- begin {name} -->\n\n{parts.get(name, there or NOT_RUN).strip()}\n\n<!-- end {name} -->"

    return re.sub(r"<!-- begin ([\w-]+) -->(.*?)<!-- end \1 -->", part, page, flags=re.DOTALL)


def rankings(out: Path) -> dict[str, str]:
    """The tables of "beyond"."""
    rows = numbers(out / "beyond.csv")
    return {f"{task}-{noise}": ranking(rows, task, noise) for task in TASKS for noise in ("equal", "unequal")}


def benchmark(rows: list[Row]) -> str:
    """Methods of the unlearning benchmark: means over all workloads of each data set."""
    from experiments.unlearning_benchmark import ATTACKS  # needs torch

    lines = [
        "| data | model | method | seconds / retraining | accuracy (retrained) | fidelity | logit distance | over their length "
        "| right on removed (retrained) | largest AUROC gap |",
        "|---|---|---|" + "---:|" * 7,
    ]
    for dataset, kind, method in dict.fromkeys((row["dataset"], row["kind"], row["method"]) for row in rows):
        mine = chosen(rows, dataset=dataset, kind=kind, method=method)

        def average(value: Any, mine: list[Row] = mine) -> float:
            return mean_and_error([value(row) for row in mine])[0]

        gap = max(abs(row[name] - row[f"reference {name}"]) for row in mine for name in ATTACKS)
        ratio, relative = (average(lambda row, one=one: row[one[0]] / row[one[1]]) for one in RATIOS)
        accuracy, fidelity, logits, right = (
            average(lambda row, key=key: row[key]) for key in ("accuracy", "fidelity", "logits", "right on removed")
        )
        theirs = [average(lambda row, key=key: row[f"reference {key}"]) for key in ("accuracy", "right on removed")]
        lines.append(
            f"| {dataset} | {kind} | {method} | {ratio:.2f} | {accuracy:.3f} ({theirs[0]:.3f}) | {fidelity:.3f} "
            f"| {logits:.2g} | {relative:.2g} | {right:.3f} ({theirs[1]:.3f}) | {gap:.3f} |"
        )
    return "\n".join(lines) + "\n"


def attacked(rows: list[Row]) -> str:
    """AUROC of every attack, distance of weights, and peak memory: means over all workloads, of the memory the largest."""
    from experiments.unlearning_benchmark import ATTACKS  # needs torch

    lines = [
        f"| data | model | method | {' | '.join(f'{name} (retrained)' for name in ATTACKS)} | weights: L2 | relative | cosine "
        "| peak memory, MiB |",
        "|---|---|---|" + "---:|" * (len(ATTACKS) + 4),
    ]
    for dataset, kind, method in dict.fromkeys((row["dataset"], row["kind"], row["method"]) for row in rows):
        mine = chosen(rows, dataset=dataset, kind=kind, method=method)
        mean = {key: mean_and_error([row[key] for row in mine])[0] for key in mine[0] if isinstance(mine[0][key], float)}
        attacks = " | ".join(f"{mean[name]:.3f} ({mean[f'reference {name}']:.3f})" for name in ATTACKS)
        lines.append(
            f"| {dataset} | {kind} | {method} | {attacks} | {mean['weights l2']:.2g} | {mean['weights relative']:.2g} "
            f"| {mean['weights cosine']:.4f} | {max(row['peak memory'] for row in mine) / 2**20:.0f} |"
        )
    return "\n".join(lines) + "\n"


def _labels(group: str, record: dict[str, Any]) -> dict[str, Any]:
    """Whether claims name their paper, and the heading above them: of one paper, or of several, our readings and aims."""
    aims = any(v["section"] == "aim" for v in record["verdicts"])
    ours = any(v["paper"].startswith("our reading") for v in record["verdicts"])
    header = "claim or aim" if aims or group == "time" else "claim or reading" if ours else "the paper says"
    return {"papers": aims or ours or group in ("gnn", "time"), "header": header}


def _on_its_device(settings: Any, record: dict[str, Any]) -> Any:
    """Full settings, on the device of a record."""
    return replace(settings, device=record["settings"]["device"]) if "device" in record["settings"] else settings


def write(group: str, out: Path, docs: Path) -> None:
    """Put the results of those experiments of a group that were run in full in the documentation."""
    run = [name for name in GROUPS[group] if (out / f"{name}.json").is_file()]
    figures = {name: json.loads((out / f"{name}.json").read_text()) for name in run}
    for name, record in figures.items():
        figure = load(name)
        # full runs of this group take days: others are shown with what they were run with
        settings = type(figure.full)(**record["settings"]) if group == "time" else _on_its_device(figure.full, record)
        if record["fingerprint"] != fingerprint(figure, settings, record["versions"]):
            raise SystemExit(f"{name} was run with other settings or another source than its figure has: run it again.")
        with Image.open(out / f"{name}.png") as picture:  # 256 colors are enough: a third of the size
            picture.convert("RGB").quantize(256).save(docs / "images" / f"{name}.png", optimize=True)
    pages = {docs / page: (docs / page).read_text() for page in PAGES[group]}
    parts = {name: fragment(record, **_labels(group, record)) for name, record in figures.items()}
    parts["overview"] = overview(figures, GROUPS[group], "".join(pages.values()))
    if group == "gnn":
        from experiments import _tables  # needs torch

        parts |= _tables.parts(figures, {name: numbers(out / f"{name}.csv") for name in figures})
    elif group == "herta":
        from experiments import _herta_tables  # needs torch

        parts |= _herta_tables.parts(figures, {name: numbers(out / f"{name}.csv") for name in figures})
    elif group == "unlearning":
        parts |= {
            f"{name}-runs": f"Seeds from {record['settings']['seed']}, commit `{record['commit']}`."
            for name, record in figures.items()
        }
        if "unlearning-benchmark" in figures:
            rows = numbers(out / "unlearning-benchmark.csv")
            parts |= {"unlearning-benchmark-table": benchmark(rows), "unlearning-benchmark-attacks": attacked(rows)}
    elif group == "time":
        parts |= _time_tables.parts(figures, {name: numbers(out / f"{name}.csv") for name in figures})
    elif "beyond" in figures:
        parts |= rankings(out)
    for path, text in pages.items():
        path.write_text(put(text, parts))


if __name__ == "__main__":
    from experiments import _claims  # which has its words from here

    write(sys.argv[1], Path(sys.argv[2]), Path(sys.argv[3]))
    _claims.write(Path(sys.argv[3]))
