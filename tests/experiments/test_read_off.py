"""Verdicts that are read off another experiment's table, and one recorded before its rule: computed from the record."""

from __future__ import annotations

import re
from dataclasses import replace
from math import sqrt

import numpy as np
import pytest
from scipy import stats

from experiments import _claims, _record, gnn_noise_signed, unlearning_bounds
from experiments._figure import grade
from nareg.gnn.comparison import Summary
from tests.helpers import at_night

CITATION = ("cora", "citeseer", "pubmed")
#: Of the tables of gnn-noise-signed.
RUNS, LEVELS = 10, 5
CELL = re.compile(r"\**([\d.]+) ± ([\d.]+)\**(?: \((\d+) of 10 diverge\))?")


def table(experiment: str, name: str) -> dict[str, list[str]]:
    """Line -> its cells, of a recorded table."""
    lines = [[cell.strip() for cell in line.strip("| ").split("|")] for line in _record.read()[experiment]["tables"][name][2:]]
    return {name: cells for name, *cells in lines}


def measured(experiment: str) -> str:
    """What an experiment measured."""
    return "\n".join(v["measured"] for v in _record.read()[experiment]["verdicts"])


def said(experiment: str, claim: str) -> dict[str, str]:
    return _claims.toml("summaries.toml")[experiment][claim]


@pytest.fixture(scope="module")
def noisy():
    """Data set -> a summary of each model at each level, with rows as published."""

    def summary(text):
        mean, deviation, diverged = CELL.fullmatch(text).groups()
        runs = RUNS - int(diverged or 0)
        width = stats.t.ppf(0.975, runs - 1) * float(deviation) / sqrt(runs)
        return Summary(float(mean), float(deviation), float(width), runs)

    tables = {name: table("gnn-noise-signed", f"signed-{name}") for name in CITATION}
    return {name: [{m: summary(cells[k]) for m, cells in of.items()} for k in range(LEVELS)] for name, of in tables.items()}


def test_rngcs_lead_is_the_tables(noisy):
    finding, text = gnn_noise_signed.judge_lead([cell for cells in noisy.values() for cell in cells])
    one = said("gnn-noise-signed", "best")
    assert one["finding"] == finding
    assert text.strip(" .") in measured("gnn-noise-signed")
    above = {rival: int(count) for rival, count in re.findall(r"(\w+) in (\d+)", text)}
    assert above == {"MLP": 15, "GCN": 14, "GAT": 14, "GLP": 5, "S2GC": 7, "IRLS": 15}
    assert one["because"] == "above MLP and IRLS in 15 of 15 cells, GCN and GAT 14, S2GC 7, GLP 5"


def test_shallow_models_are_behind_but_not_the_most_on_pubmed(noisy):
    behind = {
        model: {name: np.mean([cell["RNGC"].mean - cell[model].mean for cell in cells]) for name, cells in noisy.items()}
        for model in ("GCN", "GAT")
    }
    gaps, most = [gap for of in behind.values() for gap in of.values()], {max(of, key=of.get) for of in behind.values()}
    one = said("elsewhere", "shallow")
    assert one["finding"] == grade([min(gaps) > 0, most == {"pubmed"}])
    assert one["because"] == f"behind RNGC by {min(gaps):.0f} to {max(gaps):.0f} points in the mean, but the most on Cora"
    assert most == {"cora"}


def test_irls_beside_shallow_models(noisy):
    cells = [cell for cells in noisy.values() for cell in cells]
    ahead = [cell["IRLS"].mean - max(cell[m].mean for m in ("GCN", "GAT")) for cell in cells]
    one = said("elsewhere", "deep-irls")
    assert one["finding"] == grade(gap > 0 for gap in ahead)
    count = sum(gap > 0 for gap in ahead)
    assert one["because"] == f"above both GCN and GAT in {count} of {len(cells)} cells, by up to {max(ahead):.1f} points"


def test_shallow_ngc_and_rngc_fall_behind_the_most_on_cora():
    text = measured("gnn-depth")
    gains = {name: [float(g) for g in re.findall(rf"{name} R?NGC \+([\d.]+)", text)] for name in CITATION}
    assert all(len(values) == 2 for values in gains.values())
    assert said("elsewhere", "shallow-pubmed")["finding"] == grade(
        p >= max(c, d) for c, d, p in zip(*gains.values(), strict=True)
    )
    words = " ".join(f"{min(gains[name]):.0f} to {max(gains[name]):.0f}" for name in ("pubmed", "cora"))
    assert re.findall(r"\d+ to \d+", said("elsewhere", "shallow-pubmed")["because"]) == re.findall(r"\d+ to \d+", words)


def test_accuracy_rises_sooner_on_pubmed_alone():
    epochs = {
        method: [int(re.search(r"\((\d+)\)", cell)[1]) for cell in cells]
        for method, cells in table("herta-accuracy", "accuracy-table").items()
    }
    sooner = [a < b for a, b in zip(epochs["HERTA (Adam)"], epochs["Adam"], strict=True)]
    assert sooner == [False] * 4 + [True] * 2
    one = said("elsewhere", "sooner")
    assert one["finding"] == grade(sooner)
    expected = sorted(epochs["HERTA (Adam)"][4:]) + sorted(epochs["Adam"][4:])
    assert [int(number) for number in re.findall(r"\d+", one["because"])] == expected


def test_cgu_and_ceu_propagate_as_retraining_does_and_step_as_scalegun():
    text = measured("unlearning-edges")
    times = {
        dataset: {method: (float(total), float(share)) for method, total, share in cells}
        for dataset in ("cora", "citeseer", "amazon-photo")
        for cells in [re.findall(r"(\w+) (\d+) ms \(([\d.]+)", text.partition(f"{dataset}: nareg")[2].partition(". ")[0])]
    }
    over, anew, beside = [], [], []
    for of in times.values():
        total, share = of["ScaleGUN"]
        for peer in ("CGU", "CEU"):
            over.append(of[peer][1] / share)
            anew.append(of[peer][1] / of["retrained"][1])
            beside.append((of[peer][0] - of[peer][1]) / (total - share))
    longer = said("unlearning-edges", "longer")["because"]
    assert f"{min(over):.0f} to {max(over):.0f} times as long as ScaleGUN" in longer
    assert min(over) == min(of["CGU"][1] / of["ScaleGUN"][1] for of in [times["amazon-photo"]])
    assert max(abs(np.array(anew) - 1)) < 0.05
    assert said("unlearning-edges", "beside")["finding"] == "reproduced"
    assert 0.5 < min(beside) < max(beside) < 2


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["edges", *at_night(["features", "nodes"])])
@pytest.mark.parametrize("r_max", [0.0, *at_night([1e-2])])
def test_worst_case_bounds_are_looser_than_data_dependent_ones(kind, r_max, data_root):
    few = replace(unlearning_bounds.FIGURE.full, removals=3)
    for row in unlearning_bounds.compute(few, {"kind": kind, "r_max": r_max}):
        assert row[unlearning_bounds.WORST] > row[unlearning_bounds.PRINTED] > row[unlearning_bounds.TRUE]
