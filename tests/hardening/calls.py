"""How to call every public function on a :class:`~tests.hardening.problems.Problem`, and what its results are.

A result says how it changes when nodes are relabeled (its axes of nodes) and when the unit of the readings changes (its
degree: 0 a weight, 1 an estimate, 2 an error).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import scipy.sparse as sp
import torch

import nareg
from nareg import baselines, design, filters, gnn, graphs, herta, quality, spacetime, spectral, unlearning
from nareg.estimators import EdgeDenoiser, GraphInterpolator, NodeAdaptiveDenoiser, SpaceTimeSmoother
from nareg.gnn import networks, training
from tests.hardening.problems import Problem
from tests.spacetime import reference


@dataclass(frozen=True)
class Value:
    """A result, its axes of nodes, and its degree in the unit of the readings."""

    array: np.ndarray
    axes: tuple[int, ...]
    degree: int


def nodes(array: Any, degree: int = 0) -> Value:
    """Rows are nodes."""
    return Value(np.asarray(array), (0,), degree)


def pairs(matrix: Any, degree: int = 0) -> Value:
    """Rows and columns are nodes."""
    return Value(matrix.toarray() if sp.issparse(matrix) else np.asarray(matrix), (0, 1), degree)


def number(value: Any, degree: int = 0) -> Value:
    """No axis is one of nodes."""
    return Value(np.asarray(value), (), degree)


@dataclass(frozen=True)
class Call:
    """One public function on a problem.

    ``rtol`` is how far results of equal problems may differ, relative to the largest: rounding, or an iteration's tolerance.
    ``keeps_dtype`` says that float32 comes back as float32; otherwise float64 comes back. ``unequal`` says why relabeled nodes
    give another result, and ``no_unit`` why another unit does.
    """

    run: Callable[[Problem], dict[str, Value]]
    rtol: float = 1e-8
    keeps_dtype: bool = False
    costly: bool = False
    unequal: str = ""
    no_unit: str = ""


def rng() -> np.random.Generator:
    return np.random.default_rng(0)


def tensor(array: np.ndarray) -> torch.Tensor:
    """What torch itself can take: it knows no other byte order and no negative strides."""
    return torch.as_tensor(np.array(array, dtype=np.float32))


def layer(make: Callable[[Problem], torch.nn.Module]) -> Callable[[Problem], dict[str, Value]]:
    """A layer of graph networks, with parameters from one seed."""

    def run(p: Problem) -> dict[str, Value]:
        torch.manual_seed(0)
        module = make(p).eval()
        with torch.no_grad():
            return {"out": nodes(module(tensor(p.features), p.graph).numpy())}

    return run


def estimator(make: Callable[[Problem], Any]) -> Callable[[Problem], dict[str, Value]]:
    """An estimator of scikit-learn: rows are times."""

    def run(p: Problem) -> dict[str, Value]:
        return {"x": nodes(make(p).fit(p.readings.T).transform(p.readings.T).T, 1)}

    return run


def weighted(d: nareg.results.WeightDesign) -> dict[str, Value]:
    """A design by its matrix, which does not depend on the sign of the weights, or on their order."""
    return {"weights": nodes(d.weights) if not d.has_edge_weights else pairs(d.weights)}


def searched(p: Problem, d: nareg.results.WeightDesign) -> dict[str, Value]:
    """A design that a search found: the error that it reaches, because several weights may reach it."""
    return {"mse": number(design.risk(p.graph, d, signals=p.signals, noise=p.noise).mse, 2)}


def bank(filter_bank: spectral.FilterBank, p: Problem) -> dict[str, Value]:
    return {"out": nodes(filter_bank.analyze(p.readings), 1)}


def basis(p: Problem) -> dict[str, Value]:
    """Vectors have no sign: their projections have."""
    found = spectral.fourier_basis(p.graph)
    return {"frequencies": number(found.frequencies), "low": pairs(found.vectors[:, :2] @ found.vectors[:, :2].T)}


def model_of(p: Problem) -> spacetime.SpaceTimeModel:
    """A model with known parameters: those of a fit depend on hidden readings, which are drawn by their place in the table."""
    unit = float(np.sqrt(np.mean(p.noise.astype(float))))
    readings = np.where(p.observed, p.readings, np.nan).astype(float)
    process = reference.parameters(p.n, noise=p.noise.astype(float) / unit**2)
    return reference.model_of(p.graph, readings, process=process, unit=unit)


def smoothed(p: Problem) -> dict[str, Value]:
    s = model_of(p).smooth()
    return {"x": nodes(s.x, 1), "std": nodes(s.std, 1)}


def followed(p: Problem) -> dict[str, Value]:
    stream = model_of(p).stream()
    done = stream.update(p.readings[:, 0])
    return {"x": nodes(done.x, 1), "std": nodes(done.std, 1), "scores": nodes(done.scores)}


def fitted(p: Problem) -> dict[str, Value]:
    y = np.where(p.observed, p.readings, np.nan)
    model = spacetime.fit(p.graph, np.tile(y, 4), noise=p.noise, dynamics="scalar", transform=None, cycles=None, robust=False)
    return {"x": nodes(model.smooth().x, 1)}


def sites(ranking: spacetime.SensorRanking) -> dict[str, Value]:
    return {
        "mse": number(ranking.mse, 2),
        "best": number(ranking.reduction.max(), 2),
        "station_mse": nodes(ranking.station_mse, 2),
    }


def checked(p: Problem) -> dict[str, Value]:
    found = quality.check(model_of(replace(p, observed=np.ones_like(p.observed))))
    return {"scores": nodes(found.scores), "badness": nodes(found.badness)}


def forgetting(p: Problem) -> unlearning.CertifiedGPR:
    """A model of the graph's edges, which have weight one in it."""
    graph = nareg.Graph((p.graph.adjacency != 0).astype(float))
    return unlearning.CertifiedGPR(lam=0.01, alpha=0.0, rng=rng()).fit(graph, p.features, p.labels, p.train)


def factors(p: Problem) -> dict[str, Value]:
    model = forgetting(p)
    i, j = np.argwhere(np.triu(p.graph.adjacency.toarray()) == p.graph.adjacency.max())[0]
    found = model.preview((i, j))
    change = np.zeros((p.n, p.features.shape[1]))
    change[found.nodes] = found.left @ found.right
    return {"change": nodes(change)}


def learned(p: Problem) -> dict[str, Value]:
    """Only the ratios of the weights are free of the unit."""
    adjacency = graphs.learn(p.signals, neighbors=3).graph.adjacency
    return {"shape": pairs(adjacency / adjacency.max())}


def classified(p: Problem) -> dict[str, Value]:
    """Ten epochs on features in NumPy's hands."""
    order = np.argsort(p.features[:, 0], kind="stable")
    split = (order[: p.n - 2], order[p.n - 2 : p.n - 1], order[p.n - 1 :])
    protocol = training.Protocol(epochs=10, patience=None)
    sgc = partial(networks.FilteredNetwork, 4, 3, weights=[0.0, 0.0, 1.0])
    run = training.fit(sgc, p.graph, p.features, p.labels, split, protocol=protocol, rng=rng())
    return {"loss": number(run.val_loss)}


def unfolded(p: Problem) -> dict[str, Value]:
    out = herta.Unfold(p.graph, lam=2.0, dtype=torch.float64)(torch.as_tensor(np.array(p.features, dtype=np.float64)))
    return {"z": nodes(out.numpy())}


def attended(p: Problem) -> dict[str, Value]:
    result = herta.fit_attention(p.graph, p.features, p.labels, lam=1.0, train=p.train, loss=herta.Regularized("mse", 0.1))
    return {"z": nodes(result.result.outputs)}


def trained(p: Problem) -> dict[str, Value]:
    result = herta.fit(p.graph, p.features, p.labels, train=p.train, loss=herta.Regularized("ce", 0.1))
    return {"z": nodes(result.outputs), "loss": number(result.loss)}


def tables(p: Problem) -> dict[str, Value]:
    frame = nareg.io.readings_to_frame(
        nareg.io.Readings(p.graph.names, tuple(map(str, range(p.readings.shape[1]))), p.readings)
    )
    return {"x": nodes(nareg.io.readings_from_frame(frame).values, 1)}


def graph_parts(p: Problem) -> dict[str, Value]:
    g = nareg.Graph(p.graph.adjacency, coordinates=p.graph.coordinates)
    same = g.components[:, None] == g.components
    return {"degrees": nodes(g.degrees), "together": pairs(same)} | {
        kind: pairs(g.laplacian(kind)) for kind in ("combinatorial", "normalized", "augmented", "random-walk")
    }


def corners(p: Problem) -> dict[str, Value]:
    low, high = p.signals.min(axis=1), p.signals.max(axis=1)
    d = design.minmax(p.graph, signal_low=low, signal_high=high, noise=p.noise, criterion="prony")
    return {"objective": number(d.objective, 2)}


def optimum(build: Callable[[Problem], design.programs.Program]) -> Callable[[Problem], dict[str, Value]]:
    """The optimum of a convex program: several Omegas may reach it."""

    def run(p: Problem) -> dict[str, Value]:
        return {"optimum": number(build(p).optimum().value, 2)}

    return run


def corner_program(p: Problem) -> design.programs.Program:
    low, high = p.signals.min(axis=1), p.signals.max(axis=1)
    return design.programs.minmax(p.graph, signal_low=low, signal_high=high, noise=p.noise)


def fit_program(p: Problem) -> design.programs.Program:
    """A target without a unit: the optimum is a number."""
    target = filters.prepare(p.graph, p.weights).denoise(np.eye(p.n)).x
    return design.programs.fit(p.graph, target=(target + target.T) / 2, signals=p.signals, noise=p.noise)


def robust_program(p: Problem) -> design.programs.Program:
    """A radius in the unit of the second moment."""
    radius = 0.1 * float(np.mean(np.square(p.signals, dtype=np.float64)))
    return design.programs.robust(p.graph, signals=p.signals, noise=p.noise, radius=radius)


def worst(p: Problem) -> dict[str, Value]:
    low, high = p.signals.min(axis=1), p.signals.max(axis=1)
    found = design.worst_case(
        p.graph,
        p.weights,
        uncertainty="box",
        criterion="mse",
        signal_low=low,
        signal_high=high,
        noise=p.noise,
        data_weight=p.data_weight,
    )
    return {"lower": number(found.lower, 2), "variance": number(found.variance, 2)}


def redesigned(p: Problem) -> dict[str, Value]:
    d = design.exact(p.graph, signals=p.signals, noise=p.noise)
    return searched(p, design.redesign(p.graph, d, old_index=np.arange(p.n), signals=p.signals, noise=p.noise))


def robust(p: Problem) -> dict[str, Value]:
    found = design.robust_fit(p.graph, p.weights, p.readings, noise=p.noise)
    return {"data_weight": nodes(found.data_weight), "noise": nodes(found.noise, 2), "estimate": nodes(found.estimate, 1)}


def measured(p: Problem) -> dict[str, Value]:
    """Chosen nodes by their number in the relabeled graph are other numbers: the errors that they reach are equal."""
    chosen = design.placement(p.graph, p.weights, count=3, data_weight=p.data_weight)
    return {"mse": number(chosen.mse[1:]), "std": nodes(chosen.std)}


def conditions(p: Problem) -> dict[str, Value]:
    found = design.conditions(p.graph, p.weights, strength=0.5, signal=p.signals[:, 0], noise=p.noise)
    return {"left": number(found.left), "right": number(found.right), "mse": number(found.mse, 2)}


def injected(p: Problem) -> dict[str, Value]:
    bad, mask = nareg.datasets.inject(p.readings, "unit", np.arange(p.n), rng=rng(), size=2.0)
    return {"bad": nodes(bad, 1), "mask": nodes(mask)}


def preconditioned(p: Problem) -> dict[str, Value]:
    found = herta.precondition(p.graph, p.features, lam=1.0, train=p.train, how="exact", weight_decay=0.1)
    return {"condition": number(found.condition)}


HIDDEN = "the readings that a fit hides to choose its form are drawn by their place in the table"

CALLS: dict[str, Call] = {
    "Graph": Call(graph_parts),
    # filters
    "filters.denoise": Call(
        lambda p: {"x": nodes(filters.denoise(p.graph, p.weights, p.readings, data_weight=p.data_weight).x, 1)},
        keeps_dtype=True,
    ),
    "filters.interpolate": Call(
        lambda p: {"x": nodes(filters.interpolate(p.graph, p.weights, p.readings, p.observed, data_weight=p.data_weight).x, 1)},
        keeps_dtype=True,
    ),
    "filters.prepare": Call(
        lambda p: {"x": nodes(filters.prepare(p.graph, p.weights, data_weight=p.data_weight).denoise(p.readings).x, 1)},
        keeps_dtype=True,
    ),
    "filters.uncertainty": Call(
        lambda p: {"std": nodes(filters.uncertainty(p.graph, p.weights, noise=p.noise, data_weight=p.data_weight), 1)}
    ),
    # baselines
    "baselines.bandlimited": Call(
        lambda p: {"x": nodes(baselines.bandlimited(p.graph, p.readings, n_frequencies=3), 1)}, keeps_dtype=True
    ),
    "baselines.graph_trss": Call(
        lambda p: {"x": nodes(baselines.graph_trss(p.graph, p.readings, p.observed, weight=0.5, epsilon=0.1), 1)}
    ),
    "baselines.interpolate_in_time": Call(
        lambda p: {"x": nodes(baselines.interpolate_in_time(p.readings, observed=p.observed), 1)}
    ),
    "baselines.kernel_ridge": Call(
        lambda p: {"x": nodes(baselines.kernel_ridge(p.graph, p.readings, observed=p.observed), 1)}, keeps_dtype=True, rtol=1e-7
    ),
    "baselines.kriging": Call(lambda p: {"x": nodes(baselines.kriging(p.graph, p.readings, p.observed).x, 1)}, rtol=1e-3),
    "baselines.lmmse": Call(
        lambda p: {"x": nodes(baselines.lmmse(p.graph, p.readings, signals=p.signals, noise=p.noise, observed=p.observed), 1)},
        keeps_dtype=True,
    ),
    "baselines.neighbor_median": Call(lambda p: {"x": nodes(baselines.neighbor_median(p.graph, p.readings), 1)}),
    "baselines.network_mean": Call(lambda p: {"x": nodes(baselines.network_mean(p.readings, observed=p.observed), 1)}),
    "baselines.pca": Call(lambda p: {"x": nodes(baselines.pca(p.readings, p.observed, rank=2, tol=1e-12).x, 1)}, rtol=1e-4),
    "baselines.rolling_mean": Call(lambda p: {"x": nodes(baselines.rolling_mean(p.readings, 3), 1)}),
    "baselines.tikhonov_classification": Call(
        lambda p: {"scores": nodes(baselines.tikhonov_classification(p.graph, p.labels, p.train, tau=0.5).scores)}
    ),
    "baselines.tikhonov_regression": Call(
        lambda p: {"x": nodes(baselines.tikhonov_regression(p.graph, p.readings, p.observed, tau=0.5), 1)}, keeps_dtype=True
    ),
    "baselines.total_variation": Call(
        lambda p: {"x": nodes(baselines.total_variation(p.graph, p.readings, weight=0.1 * p.noise.max() ** 0.5, tol=1e-9), 1)},
        rtol=1e-5,
        keeps_dtype=True,
    ),
    # designs
    "design.blind": Call(
        lambda p: searched(p, design.blind(p.graph, measurements=p.readings, noise=p.noise)), rtol=1e-4, costly=True
    ),
    "design.conditions": Call(conditions),
    "design.edge": Call(lambda p: searched(p, design.edge(p.graph, signals=p.signals, noise=p.noise)), rtol=1e-4, costly=True),
    "design.estimate_noise": Call(lambda p: {"noise": nodes(design.estimate_noise(p.graph, p.readings), 2)}, rtol=1e-5),
    "design.exact": Call(
        lambda p: searched(p, design.exact(p.graph, signals=p.signals, noise=p.noise)), rtol=1e-4, costly=True
    ),
    "design.minmax": Call(corners, rtol=1e-4, costly=True),
    "design.node_invariant": Call(
        lambda p: weighted(design.node_invariant(p.graph, rule="oracle", signals=p.signals, noise=p.noise)), rtol=1e-5
    ),
    "design.placement": Call(measured),
    "design.programs.filter_step": Call(
        optimum(lambda p: design.programs.filter_step(p.graph, signals=p.signals, noise=p.noise)), rtol=1e-5, costly=True
    ),
    "design.programs.fit": Call(lambda p: {"optimum": number(fit_program(p).optimum().value)}, rtol=1e-5, costly=True),
    "design.programs.minmax": Call(optimum(corner_program), rtol=1e-5, costly=True),
    "design.programs.prony": Call(
        optimum(lambda p: design.programs.prony(p.graph, signals=p.signals, noise=p.noise)), rtol=1e-5, costly=True
    ),
    "design.programs.robust": Call(optimum(robust_program), rtol=1e-5, costly=True),
    "design.prony": Call(
        lambda p: searched(p, design.prony(p.graph, signals=p.signals, noise=p.noise)), rtol=1e-4, costly=True
    ),
    "design.redesign": Call(redesigned, rtol=1e-3, costly=True),
    "design.relaxation": Call(
        lambda p: searched(p, design.relaxation(p.graph, signals=p.signals, noise=p.noise)), rtol=1e-3, costly=True
    ),
    "design.risk": Call(
        lambda p: {
            "mse": number(design.risk(p.graph, p.weights, data_weight=p.data_weight, signals=p.signals, noise=p.noise).mse, 2)
        }
    ),
    "design.robust_fit": Call(robust, rtol=1e-6),
    "design.worst_case": Call(worst, rtol=1e-2),
    # graphs and spectra
    "graphs.learn": Call(learned, rtol=1e-3),
    "spectral.FilterBank": Call(lambda p: bank(spectral.FilterBank(p.graph, lambda x: 1 / (1 + x)), p), keeps_dtype=True),
    "spectral.fourier_basis": Call(basis, rtol=1e-6),
    "spectral.gabor": Call(
        lambda p: {
            "out": number(spectral.gabor(p.graph, lambda x: np.exp(-x), centers=[0.5, 1.0]).analyze(p.readings).sum(), 1)
        },
        keeps_dtype=True,
    ),
    "spectral.gft": Call(lambda p: {"energy": number(spectral.gft(p.graph, p.readings) ** 2, 2)}, rtol=1e-6, keeps_dtype=True),
    "spectral.heat": Call(lambda p: bank(spectral.heat(p.graph, [1.0, 5.0]), p), keeps_dtype=True),
    "spectral.igft": Call(
        lambda p: {"y": nodes(spectral.igft(p.graph, spectral.gft(p.graph, p.readings)), 1)}, keeps_dtype=True
    ),
    "spectral.itersine": Call(
        lambda p: {"out": nodes(spectral.itersine(p.graph, 3).analyze(p.readings, method="exact"), 1)},
        keeps_dtype=True,
        rtol=1e-6,
    ),
    "spectral.mexican_hat": Call(lambda p: bank(spectral.mexican_hat(p.graph, 3), p), keeps_dtype=True, rtol=1e-6),
    "spectral.meyer": Call(lambda p: bank(spectral.meyer(p.graph, 3), p), keeps_dtype=True, rtol=1e-6),
    # time
    "spacetime.fit": Call(fitted, rtol=1e-3, costly=True, unequal=HIDDEN),
    "spacetime.SpaceTimeModel": Call(smoothed),
    "spacetime.Stream": Call(followed),
    "spacetime.placement": Call(lambda p: sites(spacetime.placement(model_of(p), stations=range(p.n)))),
    "spacetime.removal": Call(lambda p: sites(spacetime.removal(model_of(p)))),
    "quality.check": Call(checked, rtol=1e-6),
    "quality.scores": Call(lambda p: {"scores": nodes(quality.scores(p.graph, p.readings, model=model_of(p)))}, rtol=1e-6),
    "datasets.inject": Call(injected, unequal="faults begin at random", no_unit="the fault is a wrong unit"),
    # scikit-learn
    "estimators.EdgeDenoiser": Call(
        estimator(lambda p: EdgeDenoiser(p.graph, noise=p.noise, random_state=0)), rtol=1e-3, costly=True, keeps_dtype=True
    ),
    "estimators.GraphInterpolator": Call(estimator(lambda p: GraphInterpolator(p.graph, weights=0.7)), keeps_dtype=True),
    "estimators.NodeAdaptiveDenoiser": Call(
        estimator(lambda p: NodeAdaptiveDenoiser(p.graph, noise=p.noise, random_state=0)),
        rtol=1e-3,
        costly=True,
        keeps_dtype=True,
    ),
    "estimators.SpaceTimeSmoother": Call(
        estimator(lambda p: SpaceTimeSmoother(p.graph, noise=p.noise, dynamics="scalar", cycles=None, random_state=0)),
        rtol=1e-2,
        costly=True,
        keeps_dtype=True,
        unequal=HIDDEN,
    ),
    # graph networks
    "gnn.NGC": Call(layer(lambda _: gnn.NGC(4, 3)), rtol=1e-4),
    "gnn.RNGC": Call(layer(lambda _: gnn.RNGC(4, 3)), rtol=1e-4),
    "gnn.NodeAdaptiveConv": Call(layer(lambda p: gnn.NodeAdaptiveConv(4, 3, n_nodes=p.n)), rtol=1e-4),
    "gnn.Adjacency": Call(
        lambda p: {"out": nodes(gnn.propagate(gnn.Adjacency(p.graph, normalization="rw"), tensor(p.features)).numpy())},
        rtol=1e-4,
    ),
    "gnn.propagate": Call(
        lambda p: {
            "out": nodes(gnn.propagate(p.graph, p.features, lam=3.0, solver=gnn.ConjugateGradients(tol=1e-6))),
            "powers": nodes(gnn.propagate(p.graph, p.features, weights=[0.5, 0.3, 0.2])),
        },
        rtol=1e-5,
        keeps_dtype=True,
    ),
    "gnn.training": Call(classified, rtol=1e-3),
    "gnn.similarity_weighted": Call(
        lambda p: {"adjacency": pairs(gnn.similarity_weighted(p.graph, p.features).adjacency)}, rtol=1e-6
    ),
    "herta.Unfold": Call(unfolded, rtol=1e-4),
    "herta.fit": Call(trained, rtol=1e-4),
    "herta.fit_attention": Call(attended, rtol=1e-3),
    "herta.precondition": Call(preconditioned, rtol=1e-4),
    # unlearning
    "unlearning.CertifiedGPR": Call(lambda p: {"decision": nodes(forgetting(p).decision())}, rtol=1e-4),
    "unlearning.edge_factors": Call(factors, rtol=1e-8),
    "io.readings_from_frame": Call(tables),
}
