"""Efficacy of unlearning: adversarial edges (Figure 3), deleted data replayed (Table 12), membership inference (Table 13)."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from experiments import _unlearning as u
from experiments._figure import Figure, Finding, Point, Row, Verdict, chosen, column, grade, instead, mean_and_error
from nareg.errors import DatasetNotFoundError

CORA = "cora"
ADVERSARIAL, REPLAY, MEMBERSHIP = "adversarial edges", "deleted data replayed", "membership inference"
#: Probability of presence, before over after, and its spread (Table 13, Cora).
PUBLISHED = {u.RETRAINED: (1.698, 0.21), u.CGU: (1.526, 0.12), u.OURS: (1.524, 0.13)}
#: Of figures that the paper has for larger graphs too.
CORA_ALONE = "on cora alone"


@dataclass(frozen=True)
class Settings:
    """Edges between unlike nodes: on Cora 500, removed in fives; on larger graphs 10,000 at ``targets`` test nodes, which alone
    are tested, in hundreds. 100 nodes of a class of their own, and 100 training nodes (``members`` draws of them), on Cora.
    """

    methods: tuple[str, ...] = (u.OURS, u.RETRAINED, u.CGU)
    larger: tuple[str, ...] = ("made up, arxiv's size", "ogbn-arxiv")
    edges: int = 500
    batch: int = 5
    edges_of_larger: int = 10_000
    batch_of_larger: int = 100
    targets: int = 2000
    parts: int = 5
    scale: float = 1.0
    nodes: int = 100
    marks: int = 100
    trials: int = 3
    members: int = 10
    seed: int = 0
    device: str | None = None


def points(s: Settings) -> list[Point]:
    small: list[Point] = [
        {"what": what, "dataset": CORA, "method": method, "trial": trial}
        for what in (ADVERSARIAL, REPLAY, MEMBERSHIP)
        for trial in range(s.members if what == MEMBERSHIP else s.trials) for method in s.methods
    ]  # fmt: skip
    return small + [
        {"what": ADVERSARIAL, "dataset": dataset, "method": method, "trial": 0} for dataset in s.larger for method in s.methods
    ]


def compute(s: Settings, point: Point) -> list[Row]:
    seeds = [s.seed, point["trial"]]
    try:
        data = u.loaded(CORA) if point["dataset"] == CORA else u.large(point["dataset"], s.scale)
    except DatasetNotFoundError:
        return [{"removed": None, "value": None}]
    act = {ADVERSARIAL: adversarial, REPLAY: replay, MEMBERSHIP: membership}[point["what"]]
    return act(s, data, point["method"], np.random.default_rng(seeds), np.random.default_rng([*seeds, 1]))


def adversarial(s: Settings, data: u.Loaded, method: str, rng: np.random.Generator, own: np.random.Generator) -> list[Row]:
    """Accuracy as edges between nodes of different classes, added before training, go again; peers take a part at once."""
    targets = None
    if data.name == CORA:
        part, batch = s.edges // s.parts, s.batch
    else:
        part, batch = round(s.scale * s.edges_of_larger) // s.parts, max(1, round(s.scale * s.batch_of_larger))
        targets = rng.choice(data.test, round(s.scale * s.targets), replace=False)
        data = replace(data, test=targets)
    changed, added = data.with_adversarial_edges(s.parts * part, rng, targets=targets)
    model = changed.fitted(method, own, device=s.device)
    rows: list[Row] = [{"removed": 0, "value": changed.accuracy(model)}]
    for first in range(0, len(added), part):
        for batch_of_part in np.split(added[first : first + part], range(batch, part, batch) if method == u.OURS else []):
            model.remove_edges(batch_of_part)
        rows.append({"removed": first + part, "value": changed.accuracy(model)})
    return [*rows, {"removed": -1, "value": data.accuracy(data.fitted(method, own, device=s.device))}]  # never added


def replay(s: Settings, data: u.Loaded, method: str, rng: np.random.Generator, own: np.random.Generator) -> list[Row]:
    """Share of the deleted nodes, and of all, that are taken for the class that only deleted nodes had."""
    deleted = np.sort(rng.choice(data.train, s.nodes, replace=False))
    fresh = int(data.labels.max()) + 1
    marks = np.zeros((data.labels.size, s.marks))
    marks[deleted] = 1
    labels = data.labels.copy()
    labels[deleted] = fresh
    lam, alpha = u.PUBLISHED[data.name]
    marked = replace(data, features=np.hstack([u.raw(data.name).features, marks])).scaled()
    model = u.METHODS[method](lam=lam, alpha=alpha, device=s.device, rng=own)
    with u.quietly():
        model.fit(data.graph, marked.features, labels, data.train, classes=np.arange(fresh + 1))
    rows: list[Row] = []
    for removed in (0, s.nodes):
        if removed:
            # edges and nodes stay, as features and labels go: predictions for the nodes are wanted afterwards
            model.remove_features(deleted, labels=True)
        taken = model.predict() == fresh
        rows.append({"removed": removed, "value": 100 * float(taken[deleted].mean()), "all": 100 * float(taken.mean())})
    return rows


def membership(s: Settings, data: u.Loaded, method: str, rng: np.random.Generator, own: np.random.Generator) -> list[Row]:
    """Probability that a shadow model's attacker gives to the presence of removed training nodes, before over after."""
    removed = np.sort(rng.choice(data.train, s.nodes, replace=False))
    lam, alpha = u.PUBLISHED[data.name]
    known = np.setdiff1d(np.arange(data.labels.size), removed)
    half = np.sort(rng.choice(known, known.size // 2, replace=False))
    with u.quietly():
        shadow = u.METHODS[u.OURS](lam=lam, alpha=alpha, device=s.device, rng=own)
        shadow.fit(data.graph, data.features, data.labels, half)
    attacker = _Attacker(_outputs(shadow, known), np.isin(known, half))
    model = data.fitted(method, own, device=s.device)
    before = attacker.presence(_outputs(model, removed))
    model.remove_features(removed, labels=True)
    after = attacker.presence(_outputs(model, removed))
    means = {"before": float(before.mean()), "after": float(after.mean())}
    return [{"removed": s.nodes, "value": means["before"] / means["after"], **means}]


def _outputs(model: Any, nodes: np.ndarray) -> np.ndarray:
    """Posteriors, the largest first: what an attacker sees."""
    scores = 1 / (1 + np.exp(-model.decision(nodes)))
    return np.sort(scores / scores.sum(axis=1, keepdims=True), axis=1)[:, ::-1]


class _Attacker:
    """Logistic regression of presence on sorted posteriors."""

    def __init__(self, seen: np.ndarray, present: np.ndarray) -> None:
        from nareg.unlearning.objective import LOSSES, ClassifierObjective

        self.mean, self.scale = seen.mean(0), seen.std(0) + 1e-12
        X, y = self._inputs(seen), np.where(present[:, None], 1.0, -1.0)
        problem = ClassifierObjective(X, np.ones(len(X)), y, LOSSES["logistic"], 1e-4, np.zeros((X.shape[1], 1)))
        self.w = problem.minimize(np.zeros((X.shape[1], 1)), 1e-6).W

    def _inputs(self, seen: np.ndarray) -> np.ndarray:
        return np.hstack([(seen - self.mean) / self.scale, np.ones((len(seen), 1))])

    def presence(self, seen: np.ndarray) -> np.ndarray:
        """Probability that nodes were trained on."""
        result: np.ndarray = 1 / (1 + np.exp(-(self._inputs(seen) @ self.w)[:, 0]))
        return result


def run_on(s: Settings, rows: list[Row]) -> list[str]:
    """Data sets with adversarial edges that are here."""
    return [name for name in (CORA, *s.larger) if chosen(rows, what=ADVERSARIAL, dataset=name, removed=0)]


def draw(s: Settings, rows: list[Row]) -> Any:
    """Accuracy against adversarial edges removed; ratios of presence."""
    import matplotlib.pyplot as plt

    names = run_on(s, rows)
    figure, axes = plt.subplots(1, len(names) + 1, figsize=(4.6 * len(names) + 4.6, 3.8), layout="constrained")
    for axis, name in zip(axes, names, strict=False):
        here = {"what": ADVERSARIAL, "dataset": name}
        removed = sorted({row["removed"] for row in chosen(rows, **here)} - {-1})
        for k, method in enumerate(s.methods):
            values = [u.mean(rows, "value", method=method, removed=n, **here) for n in removed]
            axis.plot(removed, values, label=method, **u.line(k))
            never = u.mean(rows, "value", method=method, removed=-1, **here)
            axis.axhline(never, color=f"C{k}", linestyle=":", linewidth=1)
        axis.set(title=name, xlabel="adversarial edges removed", ylabel="test accuracy [%]; dotted: never added")
        axis.legend()
    right = axes[-1]
    for k, method in enumerate(s.methods):
        mean, width = spread(column(rows, "value", what=MEMBERSHIP, method=method))
        right.bar(k, mean, yerr=width, color=f"C{k}", capsize=3)
        right.errorbar(k, *PUBLISHED.get(method, (np.nan, np.nan)), fmt="kx", capsize=3)
    right.axhline(1, color="k", linewidth=0.8)
    right.set(
        title=f"membership inference, {CORA}",
        xlabel="thin lines: spread; crosses: published",
        ylabel="presence before over after",
    )
    right.set_xticks(range(len(s.methods)), s.methods)
    return figure


def judge(s: Settings, rows: list[Row]) -> list[Verdict]:
    rises, texts = [], []
    for name in run_on(s, rows):
        cells = []
        for method in s.methods:
            here = {"what": ADVERSARIAL, "dataset": name, "method": method}
            last = max(row["removed"] for row in chosen(rows, **here))
            first, end, never = (u.mean(rows, "value", removed=n, **here) for n in (0, last, -1))
            rises.append(end > first)
            cells.append(f"{method} {first:.1f} to {end:.1f} (never added: {never:.1f})")
        texts.append(f"{name}: " + ", ".join(cells))
    absent = [name for name in s.larger if name not in run_on(s, rows)]
    if absent:
        texts.append(f"not run, because the data are absent: {', '.join(absent)}")
    gone, shares = [], []
    for method in s.methods:
        before, after = (u.mean(rows, "value", what=REPLAY, method=method, removed=n) for n in (0, s.nodes))
        everywhere = u.mean(rows, "all", what=REPLAY, method=method, removed=s.nodes)
        gone.append(after < 1)
        shares.append(f"{method} {before:.0f} to {after:.1f} % of the deleted nodes, {everywhere:.1f} % of all")
    return [
        instead(
            Verdict("adversarial", grade(rises), "Accuracy in % with all and without: " + "; ".join(texts) + "."),
            u.stands_in(run_on(s, rows)) or f"on {' and '.join(run_on(s, rows))} alone",
        ),
        instead(Verdict("replay", grade(gone), "Taken for the deleted class: " + "; ".join(shares) + "."), CORA_ALONE),
        instead(membership_verdict(s, rows), CORA_ALONE),
    ]


def membership_verdict(s: Settings, rows: list[Row]) -> Verdict:
    """Membership inference: how much presence falls, beside the published fall, and what remains, beside retraining.

    Both are told from their spread over draws. Where the attack does not see retraining either, it can judge nothing.
    """
    here = {"what": MEMBERSHIP}
    ratios = {method: spread(column(rows, "value", method=method, **here)) for method in s.methods}
    before, *after = (
        np.array(column(rows, key, method=method, **here))
        for key, method in (("before", u.RETRAINED), ("after", u.RETRAINED), ("after", u.OURS))
    )
    anew, ours = after
    (fall, error), (_, own) = mean_and_error(before - anew), spread(before - anew)
    apart = float((ours - anew).mean())
    large = {m: ratio + width >= PUBLISHED[m][0] - PUBLISHED[m][1] for m, (ratio, width) in ratios.items() if m in PUBLISHED}
    seen = fall > 2 * error
    finding = grade([large[u.OURS], abs(apart) < own]) if seen else Finding.NOT
    cells = []
    for method, (ratio, width) in ratios.items():
        known = f" ({PUBLISHED[method][0]:.2f} ± {PUBLISHED[method][1]:.2f})" if method in PUBLISHED else ""
        cells.append(f"{method} {ratio:.3f} ± {width:.3f}{known}")
    text = (
        f"Presence before over after, ± its spread over {before.size} draws (published): {', '.join(cells)}. "
        f"Presence {before.mean():.3f} before, {ours.mean():.3f} after removal, {anew.mean():.3f} after retraining: "
        f"{apart:+.4f}, where retraining's fall is {fall:.3f} ± {own:.3f}."
    )
    weak = "The attack sees as little of retraining: it is weaker than theirs." if seen and not large[u.RETRAINED] else ""
    return Verdict("membership", finding, text, weak)


def spread(values: list[float] | np.ndarray) -> tuple[float, float]:
    """Mean and standard deviation over draws."""
    mean, error = mean_and_error(values)
    return mean, error * float(np.sqrt(len(values)))


FIGURE = Figure(
    "unlearning-efficacy", "Efficacy of unlearning", Settings(),
    Settings(methods=(u.OURS, u.RETRAINED), edges=40, parts=2, scale=0.01, nodes=30, marks=10, trials=1, members=2),
    points, compute, draw, judge, **u.PARTS,
)  # fmt: skip
