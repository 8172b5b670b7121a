"""``python -m experiments._docs GROUP OUT DOCS``: pictures, verdicts and tables of full runs, for the documentation.

GROUP is "node-adaptive", "gnn", "herta", "unlearning" or "time". Puts ``OUT/<figure>.png`` into ``DOCS/images``, and records
verdicts and tables beside this file (see :mod:`experiments._record`). What OUT has nothing of stays as it is: runs take hours.
``make results`` puts what is recorded on the pages. Tables but those of "node-adaptive" name the commit that they come from.
"""

from __future__ import annotations

import csv
import importlib
import json
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

from PIL import Image

from experiments import _pages, _record
from experiments._engine import fingerprint, load
from experiments._figure import Row, chosen, column, mean_and_error
from experiments._main import GROUPS
from experiments.beyond import NEEDS, TASKS

#: Groups whose tables are made by a module of their own; some need torch.
TABLES = {"gnn": "_tables", "herta": "_herta_tables", "time": "_time_tables"}

#: Columns of the unlearning benchmark that are divided by others.
RATIOS = (("seconds", "reference seconds"), ("logits", "logit scale"))


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


def rankings(rows: list[Row]) -> dict[str, str]:
    """The tables of "beyond"."""
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


def _on_its_device(settings: Any, record: dict[str, Any]) -> Any:
    """Full settings, on the device of a record."""
    return replace(settings, device=record["settings"]["device"]) if "device" in record["settings"] else settings


def tables(group: str, record: dict[str, Any], path: Path) -> dict[str, str]:
    """Tables of an experiment whose rows are in a CSV, by name, and a line that says how it was run."""
    name = record["figure"]
    if group == "node-adaptive":
        return rankings(numbers(path)) if name == "beyond" else {}
    if group == "unlearning":
        one = {f"{name}-runs": f"Seeds from {record['settings']['seed']}, commit `{record['commit']}`."}
        if name == "unlearning-benchmark":
            rows = numbers(path)
            one |= {f"{name}-table": benchmark(rows), f"{name}-attacks": attacked(rows)}
        return one
    module = importlib.import_module(f"experiments.{TABLES[group]}")
    of: dict[str, str] = module.parts({name: record}, {name: numbers(path)})
    return of


def write(group: str, out: Path, docs: Path, recorded: Path = _record.RECORDED) -> None:
    """Record the results of those experiments of a group that were run in full."""
    run = [name for name in GROUPS[group] if (out / f"{name}.json").is_file()]
    for name in run:
        record = json.loads((out / f"{name}.json").read_text())
        figure = load(name)
        # full runs of this group take days: others are shown with what they were run with
        settings = type(figure.full)(**record["settings"]) if group == "time" else _on_its_device(figure.full, record)
        if record["fingerprint"] != fingerprint(figure, settings, record["versions"]):
            raise SystemExit(f"{name} was run with other settings or another source than its figure has: run it again.")
        with Image.open(out / f"{name}.png") as picture:  # 256 colors are enough: a third of the size
            picture.convert("RGB").quantize(256).save(docs / "images" / f"{name}.png", optimize=True)
        _record.write(record, tables(group, record, out / f"{name}.csv"), recorded)


if __name__ == "__main__":
    write(sys.argv[1], Path(sys.argv[2]), Path(sys.argv[3]))
    _pages.write(Path(sys.argv[3]))
