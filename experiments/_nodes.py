"""Node classification experiments: the models, their hyper-parameters, and the verdict on a cell of a table."""

from __future__ import annotations

import tomllib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from experiments._figure import Finding, Point, Row, Verdict, chosen, column, grade
from nareg.errors import DivergentMethodError, InputError, NaregError

try:
    import torch

    from experiments import _gnn_peers as peers
    from experiments import _noise as noise
    from nareg.gnn import Neumann, NodeAdaptiveConv, Perturbation, networks
    from nareg.gnn.adjacency import Adjacency, Normalization
    from nareg.gnn.comparison import Candidate, Paired, model_generator, paired, results, summarize
    from nareg.gnn.training import Protocol
except ModuleNotFoundError as missing:
    raise NaregError(f"the gnn experiments need torch ({missing}): pip install 'nareg[torch]'.") from missing

from nareg import datasets

__all__ = [
    "Adjacency",
    "Candidate",
    "Finding",
    "Neumann",
    "Perturbation",
    "grade",
    "networks",
    "noise",
    "peers",
    "torch",
]  # what the experiments take from here, beside what is defined here

#: What the figures of this kind rest on (see Figure).
HELPERS = ("_nodes", "_noise", "_gnn_peers", "_convolutions", "_defenses", "_residual", "_unfolded")
PARTS: dict[str, Any] = {
    "helpers": HELPERS, "apart_from": ("design", "filters", "baselines"), "versions": ("torch",),
}  # fmt: skip
MLP, GCN, GAT, SGC, S2GC, APPNP = "MLP", "GCN", "GAT", "SGC", "S2GC", "APPNP"
GLP, IRLS, NGC, RNGC = "GLP", "IRLS", "NGC", "RNGC"
EXACT, ADAPTIVE = "NGC exact", "node-adaptive"
#: With the lam of its authors' example, 0.5, and with the default of their program, which smooths more.
AIRGNN, AIRGNN_SMOOTH = "AirGNN", "AirGNN of lam 0.1"
#: The truncated series divided by its gain at the eigenvalue 1.
UNIT, ROBUST_UNIT = "NGC of unit gain", "RNGC of unit gain"
#: The eight models of the published comparison, and ours.
EIGHT = (MLP, GCN, GAT, GLP, S2GC, IRLS, NGC, RNGC)
ALL = (MLP, GCN, GAT, SGC, S2GC, APPNP, GLP, IRLS, NGC, RNGC, EXACT, ADAPTIVE)
COLORS = dict(zip(ALL, ("C7", "C0", "C9", "C5", "C4", "C6", "C8", "C1", "C2", "C3", "k", "navy"), strict=True))
COLORS |= {AIRGNN: "teal", AIRGNN_SMOOTH: "darkcyan"}
#: Points within which a published cell counts as reproduced.
TOLERANCE = 3.0


@dataclass(frozen=True)
class Filter:
    """Settings of NGC and RNGC, published ones where nothing else is said."""

    order: int = 16
    lam: float = 32.0
    eps: float = 1.0
    lr: float = 0.2
    weight_decay: float = 1e-5
    hidden: tuple[int, ...] = ()
    dropout: float = 0.0
    normalization: Normalization = "sym"


class Adaptive(networks.Network):
    """A linear classifier behind learned node-adaptive weights, one a label of ``groups``."""

    def __init__(self, in_channels: int, out_channels: int, groups: np.ndarray, lam: float) -> None:
        super().__init__()
        self.layer = NodeAdaptiveConv(in_channels, out_channels, groups=groups, lam=lam, tol=1e-3)

    def forward(self, inputs: Any, rows: networks.Rows) -> torch.Tensor:
        """Outputs of these nodes."""
        out: torch.Tensor = self.layer(*inputs)
        return out[rows]

    def decayed(self) -> list[torch.nn.Parameter]:
        """The classifier, not the node weights."""
        return [self.layer.weight]


def degree_groups(degrees: np.ndarray) -> np.ndarray:
    """Nodes by the power of two below their degree, the largest together: 32 and more."""
    groups: np.ndarray = np.minimum(np.log2(degrees), 5).astype(int)
    return groups


def recipes(dataset: str, degrees: np.ndarray, defaults: Filter = Filter()) -> dict[str, Candidate]:
    """Every peer with the hyper-parameters that its authors give for the clean graph; none is tuned to the noise.

    IRLS and S2GC have theirs by data set; where the authors give none, those of Pubmed and Cora. AirGNN's authors tune its lam
    by data set; it has two values. NGC and RNGC take ``defaults``: their paper has one setting for the citation graphs, and in
    other tables settings by the level of noise. Learned node weights are tied by degree (one per node fits the training nodes
    better and the others worse) and trained like NGC.
    """
    irls: tuple[dict[str, Any], float, float] = {
        "cora": ({"steps": 8, "dropout": 0.8}, 0.3, 5e-5),
        "citeseer": ({"steps": 16, "dropout": 0.5}, 0.1, 1e-3),
    }.get(dataset.removeprefix("metattack-"), ({"steps": 40, "dropout": 0.8}, 0.5, 5e-4))
    pubmed = dataset.removeprefix("metattack-") == "pubmed"
    decay = {"citeseer": 1e-4, "pubmed": 2e-5}.get(dataset.removeprefix("metattack-"), 1e-5)
    head: dict[str, Any] = {"hidden": defaults.hidden, "dropout": defaults.dropout}
    series: dict[str, Any] = {"lam": defaults.lam, "solver": Neumann(defaults.order), "normalization": defaults.normalization}

    def filtered(**arguments: Any) -> Candidate:
        return Candidate(lambda f, c: networks.FilteredNetwork(f, c, **head, **arguments), defaults.lr, defaults.weight_decay)

    return {
        MLP: Candidate(peers.mlp),
        GCN: Candidate(peers.gcn),
        GAT: Candidate(
            lambda f, c: peers.gat(f, c, out_heads=8 if pubmed else 1),
            0.01 if pubmed else 0.005, 1e-3 if pubmed else 5e-4,
        ),
        SGC: Candidate(peers.sgc, 0.2, 1e-5),
        S2GC: Candidate(peers.ssgc, 0.2, decay),
        APPNP: Candidate(peers.appnp, 0.01, 5e-3),
        AIRGNN: Candidate(peers.airgnn),
        AIRGNN_SMOOTH: Candidate(lambda f, c: peers.airgnn(f, c, lam=0.1)),
        GLP: Candidate(peers.glp),
        IRLS: Candidate(lambda f, c: peers.twirls(f, c, **irls[0]), irls[1], irls[2]),
        NGC: filtered(**series),
        RNGC: filtered(**series, perturbation=Perturbation(defaults.eps)),
        EXACT: filtered(lam=defaults.lam, solver="chebyshev"),
        ADAPTIVE: Candidate(
            lambda f, c: Adaptive(f, c, degree_groups(degrees), defaults.lam), defaults.lr, defaults.weight_decay
        ),
    }  # fmt: skip


@cache
def loaded(dataset: str) -> tuple[datasets.NodeClassification, np.ndarray, Adjacency]:
    """A data set, its dense features and its prepared graph, once a process."""
    data = datasets.load(dataset)
    return data, data.dense_features(), Adjacency(data.graph)


def trained(
    dataset: str,
    x: np.ndarray,
    models: Sequence[str],
    seed: list[int],
    *,
    defaults: Filter = Filter(),
    epochs: int = 200,
    device: str | None = None,
    split: Any = None,
    adjacency: Adjacency | None = None,
    chosen_recipes: dict[str, Candidate] | None = None,
) -> list[Row]:
    """A row a model, all trained on these features, on the CPU by default.

    One thread, so that rounding does not depend on who else works.
    """
    torch.set_num_threads(1)
    data, _, graph = loaded(dataset)
    known = chosen_recipes or recipes(dataset, graph.degrees, defaults)
    number = int(np.random.SeedSequence(seed).generate_state(1, np.uint64)[0] >> 2)
    rows = []
    for model in models:
        row: Row = {"model": model, "seed": number}
        try:
            run = known[model].train(
                graph if adjacency is None else adjacency, x, data.labels, data.splits[0] if split is None else split,
                protocol=Protocol(epochs=epochs, device=device or "cpu"), rng=model_generator(number, model),
            )  # fmt: skip
        except DivergentMethodError as refused:
            rows.append({**row, "test": None, "refused": str(refused)})
        else:
            rows.append({**row, **results(run), "refused": ""})
    return rows


def cell(rows: list[Row], **keys: Any) -> Any:
    """Summary of the test accuracies in the rows with these values; None where nothing was run."""
    values = [value for value in column(rows, "test", **keys) if value is not None]
    return summarize(values) if values else None


def check_models(models: Sequence[str], known: Sequence[str] = ALL) -> None:
    """Refuse unknown names."""
    check_names("models", models, known)


def check_names(setting: str, names: Sequence[str], known: Iterable[str]) -> None:
    """Refuse names that a setting does not have."""
    unknown = [name for name in names if name not in known]
    if unknown:
        raise InputError(f"{setting} holds {unknown[0]!r}: choose from {', '.join(known)}.")


def published(table: str) -> dict[str, Any]:
    """Published numbers of a table: model -> data set -> level -> accuracy in per cent."""
    with (Path(__file__).parent / "published_cells.toml").open("rb") as handle:
        cells: dict[str, Any] = tomllib.load(handle).get(table, {})
    return cells


def judged(
    claim: str,
    rows: list[Row],
    table: str,
    *,
    why: str = "",
    tolerance: float = TOLERANCE,
    only: str | None = None,
    **keys: Any,
) -> Verdict:
    """Every published cell of a table that was run, against the mean of our runs: within so many points or not.

    A cell in which a series diverged is not within them, whatever its other runs gave.
    """
    said, near = [], []
    for model, by_data in published(table).items():
        if only not in (None, model):
            continue
        for dataset, by_level in by_data.items():
            for name, number in by_level.items():
                mine = chosen(rows, model=model, dataset=dataset, level=float(name), **keys)
                refused = sum(row["test"] is None for row in mine)
                ours = cell(mine)
                if not mine:
                    continue
                near.append(ours is not None and not refused and abs(ours.mean - number) <= tolerance)
                result = "" if ours is None else f" {ours.mean:.1f} ± {ours.deviation:.1f}"
                result += f" {refused} of {len(mine)} diverged" if refused else ""
                said.append(f"{model} {dataset} {name}:{result} (published {number:.1f})")
    if not said:
        return Verdict(claim, Finding.NOT_RUN, "none of the published cells was run.", why)
    count = f"{sum(near)} of {len(near)} cells within {tolerance:g} points. "
    return Verdict(claim, grade(near), count + "; ".join(said) + ".", why)


def paired_rows(rows: list[Row], first: str, second: str) -> Paired:
    """Difference of two models over the runs of one cell."""
    a, b = (
        {row["run"]: row["test"] for row in rows if row["model"] == model and row["test"] is not None}
        for model in (first, second)
    )
    common = sorted(set(a) & set(b))
    return paired([a[run] for run in common], [b[run] for run in common])


def runs_of(datasets_: Sequence[str], levels: Mapping[str, Sequence[float]], runs: int, **more: Sequence[Any]) -> list[Point]:
    """Points of a table: data set, level, run, and any further dimension."""
    points: list[Point] = [
        {"dataset": d, "level": float(level), "run": run} for d in datasets_ for level in levels[d] for run in range(runs)
    ]
    for key, values in more.items():
        points = [{**point, key: value} for value in values for point in points]
    return points


def lines(axis: Any, rows: list[Row], levels: Sequence[float], models: Sequence[str], **keys: Any) -> None:
    """Accuracy against the level, with 95 % intervals, a line a model."""
    for model in models:
        cells = [cell(rows, model=model, level=level, **keys) for level in levels]
        if all(c is None for c in cells):
            continue
        shown = [(level, c) for level, c in zip(levels, cells, strict=True) if c is not None]
        axis.errorbar(
            [level for level, _ in shown], [c.mean for _, c in shown], [c.half_width for _, c in shown],
            color=COLORS[model], marker="o", markersize=3, capsize=2, ls="--" if model == ADAPTIVE else "-", label=model,
        )  # fmt: skip


def noisy(features: np.ndarray, level: float, rows: Any, seed: list[int], *, control: bool = False) -> np.ndarray:
    """Features with Gaussian noise, rows normalized; ``control``: the noise alone."""
    rng = np.random.default_rng(seed)
    return noise.normalize_rows(noise.add_gaussian(np.zeros_like(features) if control else features, level, rng), rows)
