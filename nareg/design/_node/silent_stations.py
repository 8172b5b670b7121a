"""Designs around stations that never read: for the others first, on the graph as they see it.

A station that is never read has no say in the filter of the others, whatever its weight (:mod:`.gap_patterns`):
the design for the others on the reduced graph is the design. Its own weight only scales its own estimate.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from nareg._core import checks
from nareg._solvers.system import Penalty
from nareg.design._node.gap_patterns import extended_weights, gap_details, reduced_penalty
from nareg.design._risk.descent import feasible
from nareg.design._risk.problem import with_details
from nareg.errors import InputError
from nareg.graph import operator_hash
from nareg.results import WeightDesign


@dataclass(frozen=True)
class GivenPerNode:
    """A design's arguments that have an entry for every node, as the caller gave them."""

    noise: Any
    fit: Any
    lower: Any
    upper: Any
    groups: Any

    def checked(self, n: int) -> dict[str, Any]:
        """All of them as arrays of N entries (noise perhaps (N, N)), or None, or the name of a data term."""
        given: dict[str, Any] = {"fit": self.fit}
        given["noise"] = None if self.noise is None else checks.noise("noise", self.noise, n)
        if self.fit is not None and not isinstance(self.fit, str):
            given["fit"] = checks.nonnegative_vector("fit", self.fit, n, why="it weighs the data term, 0 means not observed")
        for name in ("lower", "upper"):
            value = getattr(self, name)
            if value is not None and not (np.ndim(value) == 0 and value == np.inf):
                value = checks.nonnegative_vector(name, value, n, why="it bounds w_i^2")
            given[name] = value
        given["groups"] = None if self.groups is None else checks.array_of("groups", self.groups)
        return given


def without_silent(
    design: Callable[..., WeightDesign], base: Penalty, Y: np.ndarray, seen: np.ndarray, given: GivenPerNode,
    options: dict[str, Any],
) -> WeightDesign:  # fmt: skip
    """Design for the stations with readings, and give the others weights that interpolate from them."""
    live = np.asarray(seen.any(axis=1))
    if live.sum() < 2:
        raise InputError("observed has readings of one station only: a design needs neighbors that read.")
    arguments = given.checked(live.size)
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
    fit = extended.fit
    if isinstance(arguments["fit"], np.ndarray):
        fit = arguments["fit"]
    elif fit is not None and arguments["noise"] is not None:
        variance = arguments["noise"] if arguments["noise"].ndim == 1 else np.diag(arguments["noise"])
        fit = np.divide(1.0, variance, out=fit.copy(), where=variance > 0)
    return replace(extended, weights=w, fit=fit)


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
        fit=None if reduced.fit is None else _all_nodes(reduced.fit, live),
        omega=None,
        graph_hash=operator_hash(base.L),
        settings={**reduced.settings, **bounds},
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
