"""Stations of a fitted model: named or numbered, added, removed.

A new one is its kriging estimate from the others, plus a field of its own. With ``x_n = W x + u``, W from the parametric
covariance and u independent of x with the same autoregression, the joint process is again of the model's form. One that
leaves is replaced by its expectation given the others: with scalar and diagonal dynamics, where no station acts on another,
that changes nothing for them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike

from nareg._core import checks
from nareg.errors import InputError
from nareg.graph import Graph
from nareg.io import distinct
from nareg.spacetime._dense.dynamics import Dynamics
from nareg.spacetime._learn.parametric import Parameters
from nareg.spacetime._space import JITTER, Space

if TYPE_CHECKING:
    import pandas as pd

    from nareg.spacetime._model.dense import SpaceTimeModel


@dataclass(frozen=True, eq=False)
class Extension:
    """How M new stations follow from N old ones."""

    W: np.ndarray  # (M, N)
    own: np.ndarray  # (M, M) covariance of u at one time
    a: np.ndarray  # (p,) autoregression of u
    gamma: np.ndarray  # (p, p) its autocovariances at variance one
    q: float  # its innovation variance at variance one

    @classmethod
    def of(cls, dynamics: Dynamics, parameters: Parameters, space: Space, points: np.ndarray) -> Extension:
        n = space.n
        eta = 1 / (1 + np.exp(-parameters.logit_eta))
        joint = (1 - eta) * space.joint_correlation(parameters.family, float(np.exp(parameters.log_reach)), points)
        joint.flat[:: joint.shape[0] + 1] += eta + JITTER
        joint *= np.exp(parameters.log_variance)
        W = np.linalg.solve(joint[:n, :n], joint[:n, n:]).T
        own = joint[n:, n:] - W @ joint[:n, n:]
        # scalar dynamics were refined: u then follows these
        if all(A.ndim == 0 for A in dynamics.blocks):
            parameters = parameters.with_coefficients(np.array([float(A) for A in dynamics.blocks]))
        a, gamma, q = parameters.autoregression()
        return cls(W, 0.5 * (own + own.T), a, gamma, q)

    def covariance(self, P: np.ndarray) -> np.ndarray:
        """Covariance of a state (pN, pN) with the new stations in it, u being stationary."""
        n, p = self.W.shape[1], self.a.size
        blocks = [
            [_bordered(P[k * n : (k + 1) * n, m * n : (m + 1) * n], self.W, self.gamma[k, m] * self.own) for m in range(p)]
            for k in range(p)
        ]
        return np.block(blocks)

    def state(self, z: np.ndarray) -> np.ndarray:
        """Mean (pN, ...) of a state with the new stations in it."""
        n, p = self.W.shape[1], self.a.size
        return np.concatenate([np.concatenate([part, self.W @ part]) for part in z.reshape(p, n, *z.shape[1:])])

    def dynamics(self, old: Dynamics) -> Dynamics:
        """Dynamics with the new stations in them."""
        n, m = self.W.shape[1], self.W.shape[0]
        blocks = []
        for A, a in zip(old.blocks, self.a, strict=True):
            if A.ndim == 0:
                blocks.append(A)
                continue
            full = A if A.ndim == 2 else np.diag(A)
            blocks.append(np.block([[full, np.zeros((n, m))], [self.W @ full - a * self.W, a * np.eye(m)]]))
        return Dynamics(tuple(blocks), _bordered(old.Q, self.W, self.q * self.own), self.covariance(old.P0))


def restricted(old: Dynamics, stations: np.ndarray) -> Dynamics:
    """Dynamics of some of the stations, the others replaced by their regression on these in the first state's covariance."""
    n, p = old.n, old.order
    retained = np.concatenate([k * n + stations for k in range(p)])
    P0 = old.P0[np.ix_(retained, retained)]
    Q = old.Q[np.ix_(stations, stations)]
    if all(A.ndim < 2 for A in old.blocks):
        return Dynamics(tuple(A if A.ndim == 0 else A[stations] for A in old.blocks), Q, P0)
    gone = np.setdiff1d(np.arange(p * n), retained)
    A = old.matrix()[stations]
    G = np.linalg.solve(P0, old.P0[np.ix_(retained, gone)]).T
    left = old.P0[np.ix_(gone, gone)] - G @ old.P0[np.ix_(retained, gone)]
    whole = A[:, retained] + A[:, gone] @ G
    spread = A[:, gone] @ left @ A[:, gone].T
    m = stations.size
    return Dynamics(tuple(whole[:, k * m : (k + 1) * m] for k in range(p)), Q + 0.5 * (spread + spread.T), P0)


def _bordered(P: np.ndarray, W: np.ndarray, own: np.ndarray) -> np.ndarray:
    WP = W @ P
    return np.block([[P, P @ W.T], [WP, WP @ W.T + own]])


def position(graph: Graph, station: str | int) -> int:
    """Position of a station, by its name or its position."""
    names = graph.names
    if isinstance(station, str):
        if names is None or station not in names:
            known = "has no names: pass positions" if names is None else f"has {', '.join(names[:5])}, ..."
            raise InputError(f"station {station!r} is not in the model, which {known}.")
        return names.index(station)
    index = checks.integer("station", station, low=0)
    if index >= graph.n_nodes:
        raise InputError(f"station is {index} but the model has {graph.n_nodes} stations: pass 0 to {graph.n_nodes - 1}.")
    return index


def by_name(graph: Graph, readings: Mapping[str, float] | pd.Series) -> np.ndarray:
    """(N,) readings of one time in the order of the stations, NaN where there is none."""
    names = graph.names
    if names is None:
        raise InputError("y is a mapping but the model's stations have no names: pass an array with one reading per station.")
    rows = {name: i for i, name in enumerate(names)}
    entries = [(str(name), value) for name, value in readings.items()]
    distinct("y", [name for name, _ in entries])
    unknown = [name for name, _ in entries if name not in rows]
    if unknown:
        raise InputError(
            f"y has a reading of station {unknown[0]!r}, which the model does not know: add it first with "
            "add_station, or omit it."
        )
    y = np.full(graph.n_nodes, np.nan)
    for name, value in entries:
        y[rows[name]] = checks.number(f"y[{name!r}]", value) if value == value else np.nan
    return y


def checked_places(graph: Graph, coordinates: ArrayLike) -> np.ndarray:
    """(M, d) coordinates of further places, checked against the graph's."""
    points = checks.floats("coordinates", coordinates, ndim=(2,)).astype(float)
    if graph.coordinates is None:
        raise InputError("the model's graph has no coordinates: build it with Graph.from_knn to add places.")
    if points.shape[1] != graph.coordinates.shape[1] or points.shape[0] == 0:
        raise InputError(
            f"coordinates has shape {points.shape}: pass one row per place, {graph.coordinates.shape[1]} columns each."
        )
    if graph.metric == "haversine" and (np.abs(points[:, 0]) > 90).any():
        i = int(np.argmax(np.abs(points[:, 0])))
        raise InputError(
            f"coordinates[{i}] has latitude {points[i, 0]:g}, outside -90 to 90: pass latitude, then longitude, in degrees."
        )
    return points


def extended(model: SpaceTimeModel, points: np.ndarray, names: Sequence[str] | None) -> SpaceTimeModel:
    """The model with stations at places (M, d) that have no reading yet."""
    extension = Extension.of(model.dynamics, model.parameters, model.space, points)
    level = model.cycles.at_points(model.space, points)
    M = points.shape[0]
    known = model.graph.names
    if names is not None and (known is None or len(names) != M):
        remedy = ", but the model's stations have no names: omit it." if known is None else ": pass one per place."
        raise InputError(f"names has {len(names)} entries for {M} places{remedy}")
    if known is not None:
        names = [*known, *(names or [f"place {k + 1}" for k in range(M)])]
    places = np.concatenate([model.graph.coordinates, points])
    joined = Graph(model.space.extended(points), coordinates=places, names=names, metric=model.graph.metric)
    spread = model.cycles.spread_at_points(model.space, points)
    # of a place's own coefficients the readings so far tell nothing
    own = np.random.default_rng(0).standard_normal((*spread.shape, model.cycles.errors.shape[2])) * np.sqrt(spread)[..., None]
    cycles = replace(
        model.cycles, level=np.hstack([model.cycles.level, level]),
        dual=np.hstack([model.cycles.dual, np.zeros((level.shape[0], M))]),
        spread=np.hstack([model.cycles.spread, spread]), errors=np.hstack([model.cycles.errors, own]),
    )  # fmt: skip
    noise = np.concatenate([model.unit_noise, np.full(M, np.median(model.unit_noise))])
    error = (
        None
        if model.noise_error is None
        else np.hstack([model.noise_error, np.repeat(np.median(model.noise_error, axis=1)[:, None], M, axis=1)])
    )
    log_noise = np.concatenate([model.parameters.log_noise, np.full(M, np.median(model.parameters.log_noise))])
    empty = np.full((M, model.readings.shape[1]), np.nan)
    return replace(
        model, graph=joined, dynamics=extension.dynamics(model.dynamics), cycles=cycles, unit_noise=noise, noise_error=error,
        readings=np.vstack([model.readings, empty]), excluded=np.vstack([model.excluded, np.zeros(empty.shape, dtype=bool)]),
        parameters=replace(model.parameters, log_noise=log_noise),
    )  # fmt: skip


def without(model: SpaceTimeModel, gone: list[int]) -> SpaceTimeModel:
    """The model without the stations at these positions."""
    keep = np.setdiff1d(np.arange(model.n_nodes), gone)
    if keep.size == 0:
        raise InputError("stations lists all stations of the model: keep at least one.")
    graph, parameters = model.graph.subgraph(keep), model.parameters
    return replace(
        model, graph=graph, cycles=model.cycles.restricted(Space.of(graph), keep), dynamics=restricted(model.dynamics, keep),
        unit_noise=model.unit_noise[keep], noise_error=None if model.noise_error is None else model.noise_error[:, keep],
        parameters=replace(parameters, log_noise=parameters.log_noise[keep]),
        readings=model.readings[keep], excluded=model.excluded[keep],
    )  # fmt: skip
