"""Tables of the graph network experiments, in Markdown, for the documentation."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from experiments import _nodes as n
from experiments import gnn_adaptive, gnn_dependent, gnn_depth, gnn_filters, gnn_interpolation, gnn_tuned
from experiments._figure import Row, chosen, column, mean_and_error
from experiments.gnn_noise import level_of
from nareg.gnn.comparison import paired

#: Values of some columns of the rows that a line or a column of a table is made of.
Keys = Mapping[str, Any]


def table(rows: list[Row], lines: Mapping[str, Keys], columns: Mapping[str, Keys], *, corner: str = "model") -> str:
    """Mean ± standard deviation of the runs; bold: the best of a column and what a paired test (95 %) cannot tell from it."""
    cells = {(a, b): chosen(rows, **lines[a], **columns[b]) for a in lines for b in columns}
    bold = {(a, b) for b in columns for a in leaders({a: cells[a, b] for a in lines})}
    text = markdown_head([corner, *columns])
    for a in lines:
        texts = [f"**{shown(cells[a, b])}**" if (a, b) in bold else shown(cells[a, b]) for b in columns]
        text.append(f"| {a} | " + " | ".join(texts) + " |")
    return "\n".join(text) + "\n"


def markdown_head(names: Sequence[str]) -> list[str]:
    """The first two lines of a table, numbers to the right."""
    return ["| " + " | ".join(names) + " |", "|---|" + "---:|" * (len(names) - 1)]


def shown(rows: list[Row]) -> str:
    """What a cell says."""
    summary = n.cell(rows)
    if summary is None:
        return "diverges" if any(row["refused"] for row in rows) else "not run"
    refused = len(rows) - summary.runs
    spread = "" if summary.runs == 1 else f" ± {summary.deviation:.1f}"
    return f"{summary.mean:.1f}{spread}" + (f" ({refused} of {len(rows)} diverge)" if refused else "")


def leaders(cells: Mapping[str, list[Row]]) -> set[str]:
    """The line with the best mean, and those whose difference from it on the same runs is within its 95 % interval.

    A line of which a run diverged is not among them; with fewer than three runs in common there is no test, and the best alone.
    """
    values = {name: {row["run"]: row["test"] for row in rows} for name, rows in cells.items() if rows}
    values = {name: by_run for name, by_run in values.items() if None not in by_run.values()}
    if len(values) < 2:
        return set()
    best = max(values, key=lambda name: np.mean(list(values[name].values())))
    names = {best}
    for name in values:
        common = sorted(set(values[name]) & set(values[best]))
        if name != best and len(common) > 2:
            test = paired([values[best][run] for run in common], [values[name][run] for run in common])
            if test.difference <= test.half_width:
                names.add(name)
    return names


def models(names: Iterable[str]) -> dict[str, Keys]:
    """A line a model."""
    return {name: {"model": name} for name in names}


def provenance(record: dict[str, Any]) -> str:
    """Where the numbers of a table come from."""
    s, commit = record["settings"], f"seeds from {record['settings']['seed']}, commit `{record['commit']}`"
    if s.get("device"):
        commit += ", on a GPU"
    if "repeats" in s:
        return f"Mean of {s['repeats']} repeats; {commit}.\n"
    if record["figure"] == "gnn-products":
        return f"One run; {commit}.\n"
    return f"Test accuracy in %, mean ± standard deviation of {s['runs']} runs; {commit}.\n"


def noise(record: dict[str, Any], rows: list[Row], dataset: str) -> str:
    """Models against levels of noise, and the control of noise alone."""
    s = record["settings"]
    levels = [level_of(dataset, level) for level in s["levels"]]
    columns = {f"ξ = {level:g}": {"level": level, "kind": "noise"} for level in levels}
    columns["noise alone"] = {"level": levels[-1], "kind": "pure noise"}
    return table(chosen(rows, dataset=dataset), models(s["models"]), columns)


def dependent(record: dict[str, Any], rows: list[Row]) -> str:
    """Models against data sets and kinds of noise, with features and without."""
    s = record["settings"]
    columns = {
        f"{d}, {kind}{', alone' * (what == gnn_dependent.ALONE)}": {"dataset": d, "kind": kind, "what": what}
        for d in s["datasets"] for kind in s["kinds"] for what in (gnn_dependent.FEATURES, gnn_dependent.ALONE)
    }  # fmt: skip
    return table(rows, models(s["models"]), columns)


def clean(record: dict[str, Any], rows: list[Row]) -> str:
    """Models against data sets, ours (published)."""
    s, known = record["settings"], n.published("gnn-clean")
    text = markdown_head(["model", *s["datasets"]])
    for model in s["models"]:
        cells = []
        for dataset in s["datasets"]:
            number = known.get(model, {}).get(dataset, {}).get("0")
            said = "" if number is None else f" ({number:.1f})"
            cells.append(shown(chosen(rows, dataset=dataset, model=model)) + said)
        text.append(f"| {model} | " + " | ".join(cells) + " |")
    return "\n".join(text) + "\n"


def tuned(record: dict[str, Any], rows: list[Row]) -> str:
    """Models against data sets, every model tuned alike, and the configuration that was chosen."""
    s = record["settings"]
    columns = {}
    for dataset in s["datasets"]:
        level = level_of(dataset, s["levels"][0])
        columns[f"{dataset}, ξ = {level:g}"] = {"dataset": dataset, "level": level, "kind": "noise", "what": "test"}
        columns[f"{dataset}, noise alone"] = {"dataset": dataset, "level": level, "kind": "pure noise", "what": "test"}
    lines = table(rows, models(s["models"]), columns).splitlines()
    for k, model in enumerate(s["models"]):
        of = {d: column(rows, "configuration", dataset=d, kind="noise", what="test", model=model)[0] for d in s["datasets"]}
        same = len(set(of.values())) == 1
        lines[k + 2] += f" {next(iter(of.values()))} |" if same else " " + "; ".join(f"{d}: {c}" for d, c in of.items()) + " |"
    lines[0] += " chosen under noise |"
    lines[1] += "---|"
    return "\n".join(lines) + "\n"


def grids(record: dict[str, Any]) -> str:
    """What every model could choose from, on the first data set."""
    dataset = record["settings"]["datasets"][0]
    known = gnn_tuned.candidates(dataset, np.ones(1))
    lines = [f"| configurations on {dataset}, the published one first |", "|---|"]
    return (
        "\n".join([*lines, *(f"| **{model}**: {'; '.join(known[model])} |" for model in record["settings"]["models"])]) + "\n"
    )


def row_normalization(record: dict[str, Any], rows: list[Row]) -> str:
    """NGC by the way to normalize rows and A~."""
    s = record["settings"]
    lines = {f"rows {k}, A~ {w}": {"kind": k, "normalization": w} for k in s["rows"] for w in s["normalizations"]}
    lines |= {f"rows {k}, noise alone": {"kind": k, "normalization": "pure noise"} for k in s["rows"]}
    columns = {f"{d} {level:g}": {"dataset": d, "level": level} for d in s["datasets"] for level in s["levels"]}
    return table(chosen(rows, model=n.NGC), lines, columns, corner="NGC")


def by_level(s: Mapping[str, Any], alone: str) -> dict[str, Keys]:
    """A column a data set and level, and the control of a data set at its last level."""
    columns: dict[str, Keys] = {}
    for dataset in s["datasets"]:
        columns |= {f"{dataset} {x:g}": {"dataset": dataset, "level": x, "what": "features"} for x in s["levels"]}
        columns[f"{dataset}, {alone}"] = {"dataset": dataset, "level": s["levels"][-1], "what": "pure noise"}
    return columns


def flips(record: dict[str, Any], rows: list[Row], kind: str) -> str:
    """Models against probabilities of a flip, as far as they were run with this reading."""
    mine = chosen(rows, kind=kind)
    columns = {name: keys for name, keys in by_level(record["settings"], "flips alone").items() if chosen(mine, **keys)}
    return table(mine, models(m for m in record["settings"]["models"] if chosen(mine, model=m)), columns)


def depth(record: dict[str, Any], rows: list[Row], kind: str) -> str:
    """NGC by its depth S."""
    s = record["settings"]
    lines = {f"S = {S}": {"depth": S} for S in s["depths"]}
    columns = {
        f"{d} {gnn_depth.size_of(d, level):g}": {"dataset": d, "level": level} for d in s["datasets"] for level in s["levels"]
    }
    return table(chosen(rows, model=n.NGC, kind=kind), lines, columns, corner="NGC")


def attack(record: dict[str, Any], rows: list[Row], dataset: str) -> str:
    """Models against attacks."""
    s = record["settings"]
    return table(chosen(rows, dataset=dataset), models(s["models"]), {a: {"attack": a} for a in s["attacks"]})


def heterophily(record: dict[str, Any], rows: list[Row], split: str, kind: str) -> str:
    """Models against data sets and noise."""
    s = record["settings"]
    return table(chosen(rows, split=split, kind=kind), models(s["models"]), by_level(s, "noise alone"))


def coauthor(record: dict[str, Any], rows: list[Row]) -> str:
    """Models against data sets, noise and the way to normalize rows; the control of a data set last."""
    s = record["settings"]
    columns: dict[str, Keys] = {
        f"{d.removeprefix('coauthor-')} {level:g}, {kind}": {"dataset": d, "level": level, "kind": kind, "what": "features"}
        for d in s["datasets"] for level in s["levels"] for kind in s["rows"]
    }  # fmt: skip
    for d in s["datasets"]:
        alone = {"dataset": d, "level": s["levels"][-1], "kind": s["rows"][0], "what": "pure noise"}
        columns[f"{d.removeprefix('coauthor-')}, noise alone"] = alone
    return table(rows, models(s["models"]), columns)


def adaptive(record: dict[str, Any], rows: list[Row]) -> str:
    """Ways to choose node weights against data sets and noise."""
    s = record["settings"]
    lines = {
        f"{way}; {pipeline}": {"model": way, "pipeline": pipeline}
        for pipeline in (gnn_adaptive.FIRST, gnn_adaptive.LAST) for way in gnn_adaptive.WAYS
        if chosen(rows, model=way, pipeline=pipeline)
    }  # fmt: skip
    columns: dict[str, Keys] = {}
    for d in s["datasets"]:
        levels = [level_of(d, x) for x in s["levels"]]
        columns |= {f"{d}, ξ = {x:g}": {"dataset": d, "level": x, "kind": "noise"} for x in levels}
        columns[f"{d}, noise alone"] = {"dataset": d, "level": levels[-1], "kind": "pure noise"}
    return table(rows, lines, columns, corner="node weights; when rows are normalized")


def cost(rows: list[Row]) -> str:
    """Seconds of a propagation by the size of the made-up graph."""
    mine = chosen(rows, what="cost")
    sizes = list(dict.fromkeys(row["nodes"] for row in mine))
    ways = list(dict.fromkeys(row["model"] for row in mine))
    text = markdown_head(["seconds, one thread", *(f"{size:,.0f} nodes" for size in sizes)])
    for way in ways:
        text.append(f"| {way} | " + " | ".join(f"{column(mine, 'seconds', nodes=k, model=way)[0]:.2f}" for k in sizes) + " |")
    return "\n".join(text) + "\n"


def filters(record: dict[str, Any], rows: list[Row]) -> str:
    """Designed filters and trained networks: NMSE with half of the signals and with the fewest, numbers, seconds."""
    s = record["settings"]
    tasks = [(network, snr) for network in s["networks"] for snr in s["snr_db"]]
    few = min(count for count in s["training"] if count)
    text = markdown_head(["method", *(f"{network} {snr:g} dB" for network, snr in tasks), "numbers", "seconds"])
    for method in (*gnn_filters.DESIGNED, *gnn_filters.TRAINED):
        cells = []
        for network, snr in tasks:
            mine = chosen(rows, network=network, snr_db=snr, method=method)
            cells.append(" / ".join(nmse(chosen(mine, training=count)) for count in (0, few)))
        last = chosen(rows, method=method, training=0)
        used = [row["parameters"] for row in last if row["nmse"] is not None]
        seconds = [row["seconds"] for row in last if row["nmse"] is not None]
        size = "-" if not used else f"{min(used):g}" if min(used) == max(used) else f"{min(used):g} to {max(used):g}"
        cells += [size, "-" if not seconds else f"{mean_and_error(seconds)[0]:.1f}"]
        text.append(f"| {method} | " + " | ".join(cells) + " |")
    return "\n".join(text) + "\n"


def interpolation(record: dict[str, Any], rows: list[Row], task: str) -> str:
    """NMSE of a task with all training signals and with the fewest, and the seconds with all."""
    s = record["settings"]
    cases = [(network, snr) for network in s["networks"] for snr in s["snr_db"]]
    text = markdown_head(["method", "learns from", *(f"{network} {snr:g} dB" for network, snr in cases), "seconds"])
    for method, needs in gnn_interpolation.NEEDS.items():
        mine = chosen(rows, task=task, method=method)
        counts = sorted(set(column(mine, "training")), key=lambda count: count or 0)
        cells = [
            " / ".join(nmse(chosen(mine, network=network, snr_db=snr, training=count)) for count in counts)
            for network, snr in cases
        ]
        seconds = mean_and_error(column(mine, "seconds", training=counts[0]))[0]
        text.append(f"| {method} | {needs} | " + " | ".join(cells) + f" | {seconds:.1f} |")
    return "\n".join(text) + "\n"


def nmse(rows: list[Row]) -> str:
    """Mean over repeats, and how many of them were refused."""
    summary, refused = gnn_filters.shown(rows), sum(row["nmse"] is None for row in rows)
    if summary is None:
        return "refused" if refused else "not run"
    return f"{summary[0]:.3f}" + (f" ({refused} of {len(rows)} refused)" if refused else "")


def parts(figures: Mapping[str, dict[str, Any]], rows: Mapping[str, list[Row]]) -> dict[str, str]:
    """Every table of the experiments that were run, by the name of its mark on the pages."""
    tables = {f"{name}-runs": provenance(record) for name, record in figures.items()}
    for name, record in figures.items():
        s, mine = record["settings"], rows[name]
        match name:
            case "gnn-clean":
                tables["clean-table"] = clean(record, mine)
            case "gnn-noise":
                tables |= {f"noise-{d}": noise(record, mine, d) for d in s["datasets"]}
            case "gnn-noise-signed":
                tables |= {f"signed-{d}": noise(record, mine, d) for d in s["datasets"]}
            case "gnn-dependent":
                tables["dependent-table"] = dependent(record, mine)
            case "gnn-tuned":
                tables |= {"tuned-table": tuned(record, mine), "tuned-grids": grids(record)}
            case "gnn-rows":
                tables["rows-table"] = row_normalization(record, mine)
            case "gnn-flips":
                tables |= {f"flips-{kind}": flips(record, mine, kind) for kind in s["readings"]}
            case "gnn-depth":
                tables |= {f"depth-{kind}": depth(record, mine, kind) for kind in s["rows"]}
            case "gnn-attack":
                tables |= {f"attack-{d}": attack(record, mine, d) for d in s["datasets"]}
            case "gnn-heterophily":
                tables |= {
                    f"heterophily-{split}-{kind}": heterophily(record, mine, split, kind)
                    for split in s["splits"]
                    for kind in s["rows"]
                }
            case "gnn-heterophily-long":
                tables |= {f"heterophily-long-{kind}": heterophily(record, mine, "random", kind) for kind in s["rows"]}
            case "gnn-coauthor":
                tables["coauthor-table"] = coauthor(record, mine)
            case "gnn-products":
                tables["cost-table"] = cost(mine)
            case "gnn-filters":
                tables["filters-table"] = filters(record, mine)
            case "gnn-interpolation":
                tables |= {f"interpolation-{task}": interpolation(record, mine, task) for task in s["tasks"]}
            case "gnn-adaptive":
                tables["adaptive-table"] = adaptive(record, mine)
    return tables
