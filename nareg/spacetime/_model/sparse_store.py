"""Models and streams of large networks in files: plain arrays and one JSON text in an .npz, no pickle."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import numpy as np

from nareg.spacetime._model import store as _store
from nareg.spacetime._sparse.field import SMOOTHNESS, FieldFamily
from nareg.spacetime._sparse.system import Process
from nareg.spacetime._sparse.variances import OffsetShares

if TYPE_CHECKING:
    from nareg.spacetime._model.sparse import SparseSpaceTimeModel
    from nareg.spacetime._model.sparse_stream import SparseStream


def save(model: SparseSpaceTimeModel, path: str | os.PathLike[str]) -> None:
    """Write a model; whole or not at all."""
    _store.write(path, *_contents(model))


def save_stream(stream: SparseStream, path: str | os.PathLike[str]) -> None:
    """Write a stream with its model; whole or not at all."""
    arrays, facts = _contents(stream.model)
    state, extra = stream.snapshot()
    names = {f"stream_{name}": array for name, array in state.items()}
    _store.write(path, arrays | names, facts | {"format": _store.SPARSE_STREAM_FORMAT, "stream": extra})


def _contents(model: SparseSpaceTimeModel) -> tuple[dict[str, Any], dict[str, Any]]:
    arrays, facts = _store.common_contents(model)
    process = model.process
    facts |= {
        "format": _store.SPARSE_FORMAT, "rho": process.rho, "variance": process.variance, "reach": process.field.reach,
        "smoothness": process.field.family.smoothness,
    }  # fmt: skip
    shares = model.shares
    arrays |= {"shares_field": shares.field, "shares_offset": shares.offset, "shares_known": shares.known}
    return arrays, facts


def model_of(a: dict[str, np.ndarray], facts: dict[str, Any]) -> SparseSpaceTimeModel:
    """A model from the arrays and facts of a file."""
    from nareg.spacetime._model.sparse import SparseSpaceTimeModel

    common = _store.common(a, facts)
    rho, smoothness = _store.number(facts, "rho"), facts["smoothness"]
    variance, reach = _store.number(facts, "variance"), _store.number(facts, "reach")
    _store.need(abs(rho) < 1 and variance > 0 and 0 < reach < 1e6, "its process is not stationary")
    _store.need(smoothness in SMOOTHNESS, f"its smoothness is {smoothness!r}")
    spatial = FieldFamily(common["graph"].adjacency, int(smoothness)).at(reach)
    process = Process(spatial, rho, variance, common["unit_noise"])
    return SparseSpaceTimeModel(process=process, shares=_shares(a, common["graph"].n_nodes), **common)


def _shares(a: dict[str, np.ndarray], n: int) -> OffsetShares:
    place, share, known = a["shares_field"], a["shares_offset"], a["shares_known"]
    for name in ("shares_field", "shares_offset"):
        _store.array(a, name, (place.size,))
    _store.need(place.size >= 2 and bool((np.diff(place) > 0).all()), "the curve of its shares does not increase")
    _store.need(bool(((share >= 0) & (share <= 1)).all()), "its shares are not between 0 and 1")
    _store.need(known.shape == (n,) and known.dtype == bool, "shares_known is not a mask of its stations")
    return OffsetShares(place, share, known)


def stream_of(a: dict[str, np.ndarray], facts: dict[str, Any]) -> SparseStream:
    """A stream from the arrays and facts of a file."""
    from nareg.spacetime._model.sparse_stream import SparseStream
    from nareg.spacetime._sparse.markov import POWERS

    model, own = model_of(a, facts), facts["stream"]
    robust = None if own["robust"] is None else _store.number(own, "robust")
    _store.need(type(own["row"]) is int and own["row"] >= 0, "its row is not valid")
    _store.need(robust is None or robust > 0, "its bound for outliers is not positive")
    power, n = own["power"], model.n_nodes
    _store.need(type(power) is int and POWERS[0] <= power <= POWERS[1], "its power of the graph is not valid")
    state = {name.removeprefix("stream_"): a[name] for name in a if name.startswith("stream_")}
    order = state["order"]
    _store.need(order.shape == (n,) and order.dtype.kind == "i", "order has a wrong shape")
    _store.need(np.array_equal(np.sort(order), np.arange(n)), "order is no order of its stations")
    stream = SparseStream(model, own["row"], robust, order, power)
    shapes = {"strikes": (n,), "mean": (n,), "covariance": stream.filter.covariance.shape}
    for name, shape in shapes.items():
        kind = "i" if name == "strikes" else "f"
        _store.need(state[name].shape == shape and state[name].dtype.kind == kind, f"{name} has a wrong shape")
        _store.need(bool(np.isfinite(state[name]).all()), f"{name} has a value that is not finite")
    stream.restore(state)
    _store.need(bool((stream.filter.variance > 0).all()), "a variance is not positive")
    return stream
