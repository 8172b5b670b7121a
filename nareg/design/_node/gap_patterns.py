"""Readings with gaps: which stations read together, and the graph as those stations see it.

A station without a reading has no data term. Eliminating such stations from ``C + W L W`` leaves ``C_oo + W_o L_o W_o``
for the others, ``L_o = L_oo - L_om L_mm^+ L_mo`` (Kron reduction): a Laplacian again where L is one, and the same for
all weights. What a filter does with a pattern of gaps is thus what it does on the reduced graph without any.

A station that is never read has no say in the filter of the others, whatever its weight:
the design for the others on the reduced graph is the design. Its own weight only scales its own estimate.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import scipy.sparse as sp
from scipy.linalg import cho_factor, cho_solve, pinvh
from scipy.sparse.csgraph import connected_components

from nareg._core import checks
from nareg._solvers.system import Penalty
from nareg.design._risk.checked import with_details
from nareg.design._risk.descent import feasible
from nareg.errors import InputError
from nareg.graph import operator_hash
from nareg.results import DesignDetails, WeightDesign

#: Entries below this share of the largest are rounding.
ROUNDING = 1e-14
#: Alternating least squares for station levels end after so many rounds.
LEVEL_ITERATIONS = 500


@dataclass(frozen=True)
class Pattern:
    """Stations that read together, and the times at which exactly they did."""

    seen: np.ndarray
    columns: np.ndarray


def patterns(seen: np.ndarray) -> Iterator[Pattern]:
    """The different columns of a mask (N, T), the most frequent first; those without a reading are left out."""
    packed = np.packbits(seen, axis=0).T
    _, first, group, count = np.unique(packed, axis=0, return_index=True, return_inverse=True, return_counts=True)
    for p in np.argsort(-count, kind="stable"):
        if seen[:, first[p]].any():
            yield Pattern(seen[:, first[p]], np.flatnonzero(group.ravel() == p))


def kron_reduction(L: np.ndarray, seen: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The dense reduced operator on the stations that read, and the (missing, read) matrix ``-L_mm^+ L_mo``.

    The rows of the latter say how the others follow from them: ``u_m = A u_o``.
    """
    missing = ~seen
    across, inner = L[np.ix_(missing, seen)], L[np.ix_(missing, missing)]
    extension = np.zeros_like(across)
    if missing.any():
        scale = np.diag(inner).copy()
        scale[scale <= 0] = 1.0
        root = 1.0 / np.sqrt(scale)
        scaled = root[:, None] * inner * root
        # a part of the graph without a reading makes it singular; nothing follows there
        reached = _reached(inner, across)
        part = scaled[np.ix_(reached, reached)]
        right = (root[:, None] * across)[reached]
        try:
            solved = cho_solve(cho_factor(part, lower=True), right)
        except np.linalg.LinAlgError:  # an operator that is no Laplacian can be singular anywhere
            solved = pinvh(part) @ right
        extension[reached] = -root[reached, None] * solved
    reduced = L[np.ix_(seen, seen)] + across.T @ extension
    return (reduced + reduced.T) / 2, extension


def _reached(inner: np.ndarray, across: np.ndarray) -> np.ndarray:
    """Missing stations that some path connects with a station that read."""
    labels = connected_components(sp.csr_array(inner), directed=False)[1]
    touched = np.zeros(labels.max() + 1, dtype=bool)
    touched[labels[across.any(axis=1)]] = True
    return touched[labels]


def reduced_penalty(base: Penalty, live: np.ndarray) -> tuple[Penalty, np.ndarray]:
    """The network without the stations that never read, and how their ``u = w x`` follows from the others'."""
    L, extension = kron_reduction(base.L.toarray(), live)
    matrix = sp.csr_array(np.where(np.abs(L) > ROUNDING * np.abs(L).max(initial=0.0), L, 0.0))
    if base.is_laplacian:  # and stays one: what rounding did to signs and row sums is undone
        off = sp.csr_array(matrix - sp.diags_array(matrix.diagonal()))
        off.data = np.minimum(off.data, 0.0)
        excess = np.asarray(base.L.sum(axis=1)).ravel()
        excess = np.where(excess > ROUNDING * base.L.diagonal(), excess, 0.0)
        diagonal = excess[live] + extension.T @ excess[~live] - np.asarray(off.sum(axis=1)).ravel()
        matrix = sp.csr_array(off + sp.diags_array(diagonal))
    matrix.sort_indices()
    names = np.flatnonzero(live)
    described = base.describe_node
    return Penalty(matrix, base.is_laplacian, lambda i: described(int(names[i]))), extension


def extended_weights(w: np.ndarray, extension: np.ndarray, live: np.ndarray) -> np.ndarray:
    """Weights of all stations, given those of the stations that read.

    A station without a reading gets ``w_m = A |w|``: its estimate is then an average of its neighbors' with no
    factor above one. Where nothing reaches it, it gets the median weight.
    """
    size = np.abs(w)
    full = np.empty(live.size)
    full[live] = w
    follows = extension @ size
    full[~live] = np.where(follows > 0, follows, np.median(size))
    return full


def station_levels(Y: np.ndarray, seen: np.ndarray) -> np.ndarray:
    """Mean of each station as if it had read at all times, (N,): ``y_it ~ level_i + b_t`` by least squares.

    A station that read in summer only is not warmer than its neighbors: what all stations have in common at a time is taken
    out first. Without gaps these are the means over time. A station that never reads gets the mean of the others.
    """
    readings, mask = np.where(seen, Y, 0.0), seen.astype(float)
    per_station, per_time = mask.sum(axis=1), mask.sum(axis=0)
    sums, live, some = readings.sum(axis=1), per_station > 0, per_time > 0
    level = np.divide(sums, per_station, out=np.zeros(len(Y)), where=live)
    scale = float(np.abs(level).max(initial=0.0)) + float(np.abs(readings).max(initial=0.0))
    common = np.zeros(Y.shape[1])
    for _ in range(LEVEL_ITERATIONS if not seen.all() else 0):
        common = np.divide(readings.sum(axis=0) - level @ mask, per_time, out=np.zeros_like(common), where=some)
        common -= common[some].mean()
        changed = np.divide(sums - mask @ common, per_station, out=np.zeros_like(level), where=live)
        change, level = float(np.abs(changed - level).max()), changed
        if change <= 1e-9 * scale:
            break
    return np.where(live, level, level[live].mean())


def gap_details(base: Penalty, seen: np.ndarray) -> DesignDetails:
    """What a design with gaps reports: readings, missing readings, and stations without any by name."""
    silent = np.flatnonzero(~seen.any(axis=1))
    return {
        "readings": int(seen.sum()),
        "missing": int((~seen).sum()),
        "left_out": [base.describe_node(int(i)) for i in silent],
    }


def checked_per_node(n: int, *, noise: Any, data_weight: Any, lower: Any, upper: Any, groups: Any) -> dict[str, Any]:
    """Arguments with an entry per node as arrays of N entries (noise perhaps (N, N)), None, or the name of a data term."""
    given: dict[str, Any] = {"noise": None if noise is None else checks.noise("noise", noise, n), "data_weight": data_weight}
    if data_weight is not None and not isinstance(data_weight, str):
        given["data_weight"] = checks.nonnegative_vector(
            "data_weight", data_weight, n, why="it weighs the data term, 0 means not observed"
        )
    for name, value in (("lower", lower), ("upper", upper)):
        free = value is None or (np.ndim(value) == 0 and value == np.inf)
        given[name] = value if free else checks.nonnegative_vector(name, value, n, why="it bounds w_i^2")
    return {**given, "groups": None if groups is None else checks.array_of("groups", groups)}


def without_silent(
    design: Callable[..., WeightDesign], base: Penalty, Y: np.ndarray, seen: np.ndarray,
    arguments: dict[str, Any], options: dict[str, Any],
) -> WeightDesign:  # fmt: skip
    """Design for the stations with readings, and give the others weights that interpolate from them."""
    live = np.asarray(seen.any(axis=1))
    if live.sum() < 2:
        raise InputError("observed has readings of one station only: a design needs neighbors that read.")
    small, extension = reduced_penalty(base, live)
    part = {name: _rows(value, live) for name, value in arguments.items()}
    reduced = design(small, measurements=Y[live], observed=seen[live], **part, **options)
    extended = for_all_stations(reduced, base, extension, seen)
    w = extended.weights
    if arguments["groups"] is not None:
        w = _joined_groups(w, arguments["groups"], live)
    low, high = (arguments[name] for name in ("lower", "upper"))
    w = np.where(
        live, w, feasible(w, np.zeros(w.size) if low is None else low, np.full(w.size, np.inf) if high is None else high)
    )
    data_weight = extended.data_weight
    if isinstance(arguments["data_weight"], np.ndarray):
        data_weight = arguments["data_weight"]
    elif data_weight is not None and arguments["noise"] is not None:
        variance = arguments["noise"] if arguments["noise"].ndim == 1 else np.diag(arguments["noise"])
        data_weight = np.divide(1.0, variance, out=data_weight.copy(), where=variance > 0)
    return replace(extended, weights=w, data_weight=data_weight)


def for_all_stations(reduced: WeightDesign, base: Penalty, extension: np.ndarray, seen: np.ndarray) -> WeightDesign:
    """A design on the reduced graph as one on the whole; a station that reads again counts as a usual one."""
    live = np.asarray(seen.any(axis=1))
    vectors = [name for name in ("lower", "upper") if isinstance(reduced.settings[name], list)]
    bounds = {name: _all_nodes(np.asarray(reduced.settings[name]), live).tolist() for name in vectors}
    return with_details(
        reduced,
        gap_details(base, seen),
        weights=extended_weights(reduced.weights, extension, live),
        penalty=base.L,
        data_weight=None if reduced.data_weight is None else _all_nodes(reduced.data_weight, live),
        omega=None,
        graph_hash=operator_hash(base.L),
        settings=bounds,
    )


def _rows(value: Any, live: np.ndarray) -> Any:
    """The entries of the stations with readings."""
    if not isinstance(value, np.ndarray):
        return value
    return value[np.ix_(live, live)] if value.ndim == 2 else value[live]


def _joined_groups(w: np.ndarray, groups: np.ndarray, live: np.ndarray) -> np.ndarray:
    """A station without readings shares the weight of its group, where that has one with readings."""
    weight = dict(zip(groups[live].tolist(), w[live].tolist(), strict=True))
    return np.array([weight.get(label, own) for label, own in zip(groups.tolist(), w.tolist(), strict=True)])


def _all_nodes(values: np.ndarray, live: np.ndarray) -> np.ndarray:
    """Values of the stations with readings, and their median for the others."""
    full = np.full(live.size, float(np.median(values)))
    full[live] = values
    return full
