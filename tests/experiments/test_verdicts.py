"""Verdicts say what was run: made-up graphs by that name, absent data sets by theirs."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import nareg
from experiments import (
    _figure,
    _unlearning,
    fig6,
    gnn_flips,
    gnn_noise,
    gnn_noise_signed,
    gnn_products,
    herta_accuracy,
    herta_large,
    unlearning_deep,
    unlearning_edges,
    unlearning_efficacy,
    unlearning_large,
    unlearning_residues,
)
from experiments._figure import Finding, Verdict

ARXIV, PRODUCTS = _unlearning.MADE_UP


def verdict(verdicts, claim):
    return next(one for one in verdicts if one.claim == claim)


def test_other_data_make_a_claim_reproduced_in_part_at_most():
    for finding in Finding:
        found = _figure.instead(Verdict("c", finding, "m"), "on a made-up graph")
        assert found.on == ("" if finding is Finding.NOT_RUN else "on a made-up graph")
        assert found.finding is (Finding.IN_PART if finding is Finding.REPRODUCED else finding)
    assert _figure.instead(Verdict("c", Finding.REPRODUCED, "m"), "").stated == "reproduced"
    assert found.stated == f"{found.finding} on a made-up graph"


def test_what_stood_in_is_named():
    assert _unlearning.stands_in([ARXIV]) == "on a made-up graph"
    assert _unlearning.stands_in([ARXIV, PRODUCTS]) == "on made-up graphs"
    assert _unlearning.stands_in(["cora", ARXIV]) == "on cora and a made-up graph"
    assert _unlearning.stands_in([ARXIV, "ogbn-arxiv"]) == ""
    assert _unlearning.stands_in([ARXIV, "ogbn-arxiv", PRODUCTS]) == "on ogbn-arxiv and a made-up graph"


def products(accuracies):
    cost = [
        {"what": "cost", "nodes": 2_449_029, "model": way, "edges": 61, "seconds": 100.0 + k, "test": None}
        for k, way in enumerate(gnn_products.WAYS)
    ]
    s = replace(gnn_products.FIGURE.full, levels=(0.1,), runs=1)
    rows = [
        {"what": "accuracy", "level": 0.1, "run": 0, "model": model, "test": test, "refused": ""}
        for model, test in accuracies.items()
    ]
    return gnn_products.judge(s, cost + rows)


@pytest.mark.slow
def test_every_model_is_trained_where_ogbn_products_is(monkeypatch):
    """On a made-up graph in its place."""
    data = nareg.datasets.node_classification.synthetic(200, 3, rng=np.random.default_rng(0))
    here = data, data.features.astype(np.float32), nareg.gnn.Adjacency(data.graph)
    monkeypatch.setattr(gnn_products.n, "loaded", lambda name: here)
    rows = gnn_products.accuracy(replace(gnn_products.FIGURE.full, epochs=20), 0.1, 0)
    assert [row["model"] for row in rows] == list(gnn_products.MODELS)
    assert all(row["test"] > 40 for row in rows)


def test_ogbn_products_is_not_run_without_its_data_and_judged_with_them():
    absent = products(dict.fromkeys(gnn_products.MODELS))
    assert verdict(absent, "accuracy").finding is Finding.NOT_RUN
    assert verdict(absent, "masked").stated == "reproduced on a made-up graph"
    ahead = products({"MLP": 50.0, "GCN": 62.0, "S2GC": 60.0, "NGC": 65.0, "RNGC": 66.0})
    behind = products({"MLP": 50.0, "GCN": 70.0, "S2GC": 60.0, "NGC": 65.0, "RNGC": 66.0})
    assert verdict(ahead, "accuracy").finding is Finding.REPRODUCED
    assert verdict(behind, "accuracy").finding is Finding.IN_PART


@pytest.mark.parametrize(("models", "run"), [(("NGC", "RNGC"), False), (("MLP", "NGC"), False), (("MLP", "RNGC"), True)])
def test_rngcs_lead_is_not_judged_without_a_rival(models, run):
    s = replace(gnn_noise.FIGURE.full, datasets=("cora",), levels=(0.1,), models=models)
    rows = [
        {"dataset": "cora", "level": 0.1, "kind": "noise", "model": model, "run": k, "test": lead + k / 10}
        for model, lead in zip(models, (70.0, 75.0), strict=True) for k in range(3)
    ]  # fmt: skip
    found = gnn_noise.judge_best(s, rows)
    assert found.finding is (Finding.REPRODUCED if run else Finding.NOT_RUN)
    assert found.measured.endswith(".")
    assert ". ." not in found.measured


@pytest.mark.parametrize(("leads", "finding"), [((9, 9), Finding.REPRODUCED), ((9, 1), Finding.IN_PART), ((1, 1), Finding.NOT)])
def test_rngcs_lead_is_judged_rival_by_rival(leads, finding):
    """A rival counts where RNGC is ahead beyond the intervals in every cell."""
    s = replace(gnn_noise_signed.FIGURE.full, datasets=("cora",), levels=(0.1, 0.2), models=("MLP", "GLP", "RNGC"))
    rows = [
        {"dataset": "cora", "level": level, "kind": "noise", "model": model, "run": k, "test": 70.0 - lead + k}
        for model, lead in zip(s.models, (*leads, 0), strict=True) for level in s.levels for k in range(3)
    ]  # fmt: skip
    found = gnn_noise_signed.judge_best(s, rows)
    assert found.finding is finding
    assert f"MLP in 2 ({2 * (leads[0] > 3)}), GLP in 2 ({2 * (leads[1] > 3)})" in found.measured


def test_tables_of_some_of_the_published_graphs_are_a_part_at_most():
    known = unlearning_edges.PUBLISHED
    seconds = {"nareg": (0.1, 0.01), "ScaleGUN": (0.2, 0.01), "retrained": (1.0, 0.2), "CGU": (0.4, 0.2), "CEU": (0.4, 0.2)}
    for datasets, part in ((tuple(known), "reproduced"), (("cora",), "reproduced in part on cora")):
        s = replace(unlearning_edges.FIGURE.full, datasets=datasets)
        rows = [
            {"dataset": dataset, "method": method, "removed": 500 * k, "accuracy": accuracy, "total": 9.0, "propagation": 9.0,
             "spent": 0.1, "true": 0.05, "timed": 1, "retrained": 0}
            for dataset in datasets for method in s.methods
            for k, accuracy in enumerate(known[dataset].get(method, known[dataset]["ScaleGUN"])[0])
        ] + [
            {"dataset": dataset, "method": method, "removed": None, "total": total, "propagation": share, "timed": 1,
             "retrained": 0}
            for dataset in datasets for method, (total, share) in seconds.items()
        ]  # fmt: skip
        assert {one.stated for one in unlearning_edges.judge(s, rows)} == {part}
        worse = [row | {"true": 0.2} if row["removed"] else row for row in rows]
        assert verdict(unlearning_edges.judge(s, worse), "certified").finding is Finding.IN_PART


def test_flips_come_out_with_other_settings_than_printed():
    """In part at most where the first reading is not the paper's table, whatever its cells say."""
    known = gnn_flips.n.published("gnn-flips")["RNGC"]
    for first, finding in (("deep", Finding.IN_PART), ("printed", Finding.REPRODUCED)):
        s = replace(gnn_flips.FIGURE.full, readings=(first,), models=("MLP", "GCN", "RNGC"))
        rows = [
            {"dataset": d, "level": float(p), "kind": first, "what": "features", "model": model, "run": k,
             "test": value - 40 * (model != "RNGC") + k / 10}
            for d, cells in known.items() for p, value in cells.items() for model in s.models for k in range(3)
        ]  # fmt: skip
        assert verdict(gnn_flips.judge(s, rows), "table").finding is finding
        assert verdict(gnn_flips.judge(s, rows), "better").finding is Finding.REPRODUCED


@pytest.mark.parametrize(
    ("gains", "ratios", "findings"),
    [
        ((5.0, 4.0), (0.49, 0.45), (Finding.REPRODUCED, Finding.REPRODUCED)),
        ((2.0, 1.0), (0.45, 0.49), (Finding.IN_PART, Finding.IN_PART)),  # less than 3 dB; smaller, but not the more so
        ((0.3, 0.2), (1.1, 1.2), (Finding.NOT, Finding.NOT)),
    ],
)
def test_the_large_network_is_judged_by_decibels_and_by_ratios(gains, ratios, findings):
    s = replace(fig6.FIGURE.full, snr_db=(-5.0, 0.0, 5.0), observed=(10, 50))
    methods = (fig6.NI, fig6.MM_PRONY, fig6.MM_THREE, fig6.MM_BEST, fig6.NI_THREE, fig6.BEST, fig6.KRR, fig6.KRR_BEST)
    gain, ratio = dict(zip(s.snr_db, gains, strict=False)), dict(zip(s.observed, ratios, strict=True))
    rows = [
        {"part": "denoising", "method": m, "snr_db": x, "nmse": 10 ** (-(x + gain.get(x, 0) * (m == fig6.MM_PRONY)) / 10),
         "spread": 1.2}
        for m in methods for x in s.snr_db
    ]  # fmt: skip
    rows += [
        {"part": "interpolation", "method": m, "observed": k, "nmse": ratio[k] if m == fig6.MM_PRONY else 1.0}
        for m in methods for k in s.observed for _ in range(s.subsets)
    ]  # fmt: skip
    found = fig6.judge(s, rows)
    assert tuple(one.stated for one in found) == findings
    assert f"{gains[0]:+.1f} at -5 dB, {gains[1]:+.1f} at 0 dB" in verdict(found, "three-db").measured
    quick = verdict(fig6.judge(replace(s, subsets=2), rows), "interpolation")  # which cannot judge the trend
    assert quick.stated is not Finding.REPRODUCED
    assert "2 subsets of stations cannot judge" in quick.measured


def test_data_sets_of_the_figures_that_are_absent_are_named():
    s = replace(herta_accuracy.FIGURE.quick, datasets=("cora",))
    rows = [
        {
            "dataset": "cora",
            "loss": "ce",
            "method": method,
            "mask": 0,
            "oscillates": 0,
            "validation": 0.8,
            "epoch": 0,
            "test": 0.8,
        }
        for method in herta_accuracy.METHODS
    ]
    (one,) = herta_accuracy.judge(s, rows)
    assert one.stated == "reproduced in part without ogbn-arxiv and pubmed and flickr and citeseer"
    assert "ogbn-arxiv" in one.why
    assert "flickr" in one.why
    every = [{**row, "dataset": name} for name in herta_accuracy.PUBLISHED for row in rows]
    (whole,) = herta_accuracy.judge(replace(s, datasets=herta_accuracy.PUBLISHED), every)
    assert whole.stated == "reproduced"


def test_one_of_two_data_sets_is_a_part_and_none_is_no_run():
    s = replace(herta_large.FIGURE.quick, losses=("mse",))
    counts = {"sketched PCG": 5.0, "auto": 1.0, "CG": 40.0, "L-BFGS": 50.0}
    run = [
        {"kind": "run", "dataset": "flickr", "loss": "mse", "lam": 1.0, "method": method, "iterations 0.001": count}
        for method, count in counts.items()
    ]
    absent = [{"kind": "absent", "dataset": name, "loss": "mse", "lam": 1.0} for name in herta_large.OWN]
    (alone,) = herta_large.judge(s, run + absent[:1])
    assert alone.stated == "reproduced in part on flickr alone"
    assert alone.why == "Not run: ogbn-arxiv, not here."
    (none,) = herta_large.judge(s, absent)
    assert none.finding is Finding.NOT_RUN


def batches(dataset, what, batch, *, ours, anew, methods=("nareg", "retrained")):
    return [
        {"what": what, "dataset": dataset, "method": method, "batch": batch, "removed": removed, "accuracy": 50.0,
         "total": seconds if removed else None, "propagation": seconds / 2 if removed else None, "retrained": 0, "timed": 1}
        for method, seconds in zip(methods, (ours, anew), strict=True) for removed in (0, batch)
    ]  # fmt: skip


def test_large_graphs_that_are_made_up_say_so():
    s = replace(unlearning_large.FIGURE.full, methods=("nareg", "retrained"))
    rows = batches(ARXIV, unlearning_large.EDGES, 25, ours=1.0, anew=2.0)
    rows += batches(PRODUCTS, unlearning_large.EDGES, 1000, ours=1.0, anew=2.0)
    rows += batches(PRODUCTS, unlearning_large.LARGER, 10_000, ours=1.0, anew=2.0)
    found = unlearning_large.judge(s, rows)
    assert verdict(found, "faster").stated == "reproduced in part on made-up graphs"
    assert verdict(found, "larger").stated == "reproduced in part on a made-up graph"
    assert verdict(found, "accuracy").finding is Finding.NOT_RUN
    assert verdict(found, "papers").finding is Finding.NOT_RUN
    real = [{**row, "dataset": row["dataset"].replace(ARXIV, "ogbn-arxiv").replace(PRODUCTS, "ogbn-products")} for row in rows]
    assert verdict(unlearning_large.judge(s, real), "faster").stated == "reproduced"


def test_seconds_that_no_clock_tells_apart_are_the_same():
    s = replace(unlearning_large.FIGURE.full, methods=("nareg", "retrained"))
    for ours, finding in ((9.9, Finding.NOT), (9.0, Finding.REPRODUCED)):
        rows = batches("ogbn-products", unlearning_large.LARGER, 1000, ours=ours, anew=10.0)
        rows += batches("ogbn-products", unlearning_large.EDGES, 1000, ours=1.0, anew=2.0)
        assert verdict(unlearning_large.judge(s, rows), "larger").finding is finding


def test_ogbn_papers100m_is_run_alone_and_judged():
    s = replace(unlearning_large.FIGURE.full, datasets=(unlearning_large.PAPERS,), methods=("nareg", "retrained"))
    kinds = {point["what"] for point in unlearning_large.points(s)}
    assert kinds == {unlearning_large.EDGES, unlearning_large.SMALL_DELTA, unlearning_large.NODES, unlearning_large.FEATURES}
    rows = [row for what in kinds for row in batches(unlearning_large.PAPERS, what, 2000, ours=50.0, anew=5000.0)]
    assert verdict(unlearning_large.judge(s, rows), "papers").stated == "reproduced"
    assert unlearning_large.draw(s, rows).axes


def test_residues_and_deep_heads_on_made_up_graphs_say_so():
    s = unlearning_residues.FIGURE.full
    common = {"absent": False, "propagation": 0.1, "waiting": 1, "nareg refused": "too large"}
    rows = [{"dataset": ARXIV, "r_max": r_max, **common} for r_max in s.r_max]
    fewer, independent = unlearning_residues.judge(s, rows)
    assert fewer.finding is Finding.NOT_RUN
    assert independent.stated == "reproduced in part on a made-up graph"
    ours = {"ScaleGUN refused": None, "ScaleGUN accuracy": 80.0, "ScaleGUN count": 40, "ScaleGUN total": 1.0}
    rows += [
        {"dataset": "cora", "r_max": r_max, **common, **ours, "ScaleGUN retrained": 3 * (r_max > 1e-8)} for r_max in s.r_max
    ]
    assert unlearning_residues.judge(s, rows)[0].stated == "reproduced in part on cora"
    deep = [
        {"what": unlearning_deep.PERCEPTRON, "dataset": PRODUCTS, "method": method, "absent": False, "removed": removed,
         "accuracy": 50.0, "total": seconds, "propagation": 0.1, "classes": 47}
        for method, seconds in (("nareg", 1.0), ("retrained", 10.0)) for removed in (0, 1000)
    ]  # fmt: skip
    found = unlearning_deep.judge(unlearning_deep.FIGURE.full, deep)
    assert verdict(found, "perceptron").stated == "reproduced in part on a made-up graph by epochs of Adam, not a Newton step"
    assert verdict(found, "chebnet").finding is Finding.NOT_RUN


def presence(before, after_ours, after_anew):
    rows = []
    for method, after in (("nareg", after_ours), ("retrained", after_anew)):
        rows += [
            {"what": unlearning_efficacy.MEMBERSHIP, "method": method, "value": b / a, "before": b, "after": a}
            for b, a in zip(before, after, strict=True)
        ]
    s = replace(unlearning_efficacy.FIGURE.full, methods=("nareg", "retrained"))
    return unlearning_efficacy.membership_verdict(s, rows)


@pytest.mark.parametrize(
    ("ours", "anew", "finding"),
    [
        (0.33, 0.30, Finding.REPRODUCED),  # as large as published, as retraining
        (0.475, 0.474, Finding.IN_PART),  # as retraining, an eighth of the effect
        (0.33, 0.20, Finding.IN_PART),  # large, but far from what retraining leaves
        (0.495, 0.40, Finding.NOT),  # neither
        (0.50, 0.50, Finding.NOT),  # the attack does not see retraining either
    ],
)
def test_membership_is_judged_by_what_remains_beside_retraining(ours, anew, finding):
    rng = np.random.default_rng(0)
    draws = 0.04 * rng.standard_normal((3, 10))
    draws -= draws.mean(axis=1, keepdims=True)
    one = presence(0.5 + 0.1 * draws[0], ours + 0.1 * draws[1], anew + draws[2])
    assert one.finding is finding, one
    if finding is Finding.IN_PART and anew > 0.4:
        assert "weaker" in one.why
