"""The filters as torch operators: what torch.compile and torch.export see of a layer.

An operator is opaque to the compiler: it runs the code that runs without it, checks values when it runs, and knows the graphs
of its last calls. Its backward is an operator, too: the transposed filter where only the features require a gradient, else the
filter's own backward, computed again.
"""

from __future__ import annotations

from collections.abc import Callable
from threading import Lock
from typing import Any

import torch
from torch import Tensor

from nareg._core.arrays import empty_like
from nareg._solvers._torch._device import full_precision
from nareg.errors import InputError
from nareg.gnn._autograd import filter_gradients
from nareg.gnn._last_graph import key_of, object_key
from nareg.gnn._learned import EdgePlaces, LearnedAdjacency
from nareg.gnn._node_adaptive_system import node_adaptive_system
from nareg.gnn._reading import without_nodes
from nareg.gnn.adjacency import BY_NUMBER, Adjacency, as_adjacency
from nareg.gnn.propagation import filtered
from nareg.gnn.solvers import Chebyshev, ConjugateGradients, Neumann, Solver

#: Name of the series of unit gain, for operators, which take no objects.
UNIT_GAIN = "neumann, unit gain"


class _Recent:
    """The last few values that were made of tensors, recognized by these."""

    SIZE = 16

    def __init__(self) -> None:
        self._values: list[tuple[tuple[Any, ...], Any]] = []
        self._lock = Lock()

    def get(self, key: tuple[Any, ...], make: Callable[[], Any]) -> Any:
        """The value of this key, the two first parts of which recognize objects."""
        with self._lock:
            alive = [(k, v) for k, v in self._values if k[0].reference() is not None]
            value = next((v for k, v in alive if k == key), None)
            if value is None:
                value = make()
                if None not in key[:2]:
                    alive.append((key, value))
            self._values = alive[-self.SIZE :]
        return value


_adjacencies, _places = _Recent(), _Recent()


def solver_settings(solver: Solver) -> tuple[str, int, float]:
    """A solver as a name, an order and a tolerance."""
    if isinstance(solver, Neumann):
        return UNIT_GAIN if solver.unit_gain else "neumann", solver.order, 0.0
    return ("chebyshev" if isinstance(solver, Chebyshev) else "cg"), 0, solver.tol


def _solver(name: str, order: int, tol: float) -> Solver:
    if name in ("neumann", UNIT_GAIN):
        return Neumann(order, unit_gain=name == UNIT_GAIN)
    return Chebyshev(tol) if name == "chebyshev" else ConjugateGradients(tol)


def _prepared(
    edges: Tensor | None,
    edge_weight: Tensor | None,
    number: int,
    learned: bool,
    n_nodes: int,
    normalization: Any,
    symmetrize: bool,
) -> Adjacency:
    """The graph of a call, remembered from one of the last ones."""
    if edges is None:
        adjacency = BY_NUMBER.get(number)
        if adjacency is None:
            raise InputError("the Adjacency that this was compiled with is gone: keep it, or compile again.")
        return as_adjacency(adjacency, n_nodes)
    if learned and edge_weight is not None:
        places = _places.get((object_key(edges), n_nodes), lambda: EdgePlaces(edges, n_nodes))
        return LearnedAdjacency(places, edge_weight, normalization=normalization, symmetrize=symmetrize)
    return _adjacencies.get(
        key_of(edges, edge_weight, n_nodes, normalization, symmetrize),
        lambda: as_adjacency(edges, n_nodes, edge_weight=edge_weight, normalization=normalization, symmetrize=symmetrize),
    )


def _precise(x: Tensor) -> Tensor:
    """Finite features in the precision that the filter computes in."""
    bad = ~torch.isfinite(x) if not bool(torch.isfinite(x.sum())) else None
    if bad is not None and bool(bad.any()):
        i = int(bad.nonzero()[0, 0])
        raise InputError(f"x[{i}] holds a value that is not finite: features must be finite; fill or drop what is missing.")
    return x.to(torch.promote_types(x.dtype, torch.float32)).contiguous()


def _nothing(like: Tensor) -> Tensor:
    """In the place of a gradient that nobody asks for."""
    return like.new_empty(0)


@torch.library.custom_op("nareg::graph_filter", mutates_args=())
def graph_filter(
    x: Tensor,
    factor: Tensor | None,
    edges: Tensor | None,
    edge_weight: Tensor | None,
    number: int,
    learned: bool,
    normalization: str,
    symmetrize: bool,
    lam: float,
    solver: str,
    order: int,
    tol: float,
    eps: float,
    masked: bool,
) -> Tensor:
    """The filter of NGC, or of RNGC with the features in ``factor``."""
    if edges is not None and without_nodes(edges, edge_weight, x.shape[0]):
        return empty_like(x)
    with torch.no_grad(), full_precision(x):
        adjacency = _prepared(edges, edge_weight, number, learned, x.shape[0], normalization, symmetrize)
        z = _precise(x)
        out: Tensor = filtered(
            adjacency, z, lam=lam, solver=_solver(solver, order, tol), eps=eps, masked=masked,
            factor=z if factor is None or factor is x else factor.to(z.dtype), memo=_memo(adjacency),
        )  # fmt: skip
        return out.to(x.dtype).contiguous()


@torch.library.custom_op("nareg::graph_filter_gradients", mutates_args=())
def graph_filter_gradients(
    gradient: Tensor,
    x: Tensor,
    factor: Tensor | None,
    edges: Tensor | None,
    edge_weight: Tensor | None,
    number: int,
    learned: bool,
    normalization: str,
    symmetrize: bool,
    lam: float,
    solver: str,
    order: int,
    tol: float,
    eps: float,
    masked: bool,
    factor_needs_it: bool,
) -> tuple[Tensor, Tensor, Tensor]:
    """Its gradients in x, factor and edge weight."""
    if not x.shape[0]:
        of_weight = empty_like(edge_weight) if learned and edge_weight is not None else _nothing(x)
        return empty_like(x), empty_like(factor) if factor_needs_it and factor is not None else _nothing(x), of_weight
    with torch.no_grad(), full_precision(x):
        adjacency = _prepared(edges, edge_weight, number, learned, x.shape[0], normalization, symmetrize)
        z = x.to(torch.promote_types(x.dtype, torch.float32)).contiguous()
        U = z if factor is None or factor is x else factor.to(z.dtype)
        of_x, of_factor, of_entries = filter_gradients(
            adjacency, gradient.to(z.dtype).contiguous(), z, U, lam=lam, solver=_solver(solver, order, tol), eps=eps,
            masked=masked, memo=_memo(adjacency), factor_needs_it=factor_needs_it,
        )  # fmt: skip
        of_weight = None if of_entries is None else adjacency.pull_back(of_entries, normalization)  # type: ignore[attr-defined]
        return (
            of_x.to(x.dtype).contiguous(),
            _nothing(x) if of_factor is None or factor is None else of_factor.to(factor.dtype).contiguous(),
            _nothing(x) if of_weight is None else of_weight.contiguous(),
        )


def _memo(adjacency: Adjacency) -> dict[Any, Any]:
    return adjacency.derived.setdefault("memo", {})


@graph_filter.register_fake
def _of_features(x: Tensor, *_settings: Any) -> Any:
    return empty_like(x)


@graph_filter_gradients.register_fake
def _(
    gradient: Tensor, x: Tensor, factor: Tensor | None, edges: Any, edge_weight: Tensor | None, number: int, learned: bool,
    *settings: Any,
) -> tuple[Tensor, Tensor, Tensor]:  # fmt: skip
    of_factor = empty_like(factor) if settings[-1] and factor is not None else _nothing(x)
    return empty_like(x), of_factor, empty_like(edge_weight) if learned and edge_weight is not None else _nothing(x)


def _remember(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
    ctx.save_for_backward(*inputs[:4])
    ctx.settings = inputs[4:]


def _backward(ctx: Any, gradient: Tensor) -> Any:
    lam, eps = ctx.settings[4], ctx.settings[-2]
    factor_needs_it = bool(ctx.needs_input_grad[1]) and lam != 0 and eps != 0
    of_x, of_factor, of_weight = graph_filter_gradients(gradient, *ctx.saved_tensors, *ctx.settings, factor_needs_it)
    learned = ctx.settings[1]
    return of_x, of_factor if factor_needs_it else None, None, of_weight if learned else None, *[None] * 10


graph_filter.register_autograd(_backward, setup_context=_remember)


@torch.library.custom_op("nareg::node_adaptive_filter", mutates_args=())
def node_adaptive_filter(
    x: Tensor,
    w: Tensor,
    edges: Tensor | None,
    edge_weight: Tensor | None,
    designed_places: Tensor | None,
    designed_values: Tensor | None,
    number: int,
    learned: bool,
    symmetrize: bool,
    laplacian: str,
    tol: float,
) -> Tensor:
    """``(I + diag(w) L diag(w))^-1 x``."""
    with torch.no_grad(), full_precision(x):
        z = _precise(x)
        adjacency = _prepared(edges, edge_weight, number, learned, x.shape[0], "sym", symmetrize)
        system = node_adaptive_system(adjacency, z, laplacian, (designed_places, designed_values), adjacency.derived)  # type: ignore[arg-type]
        return system.solve(z, w.to(z.dtype)[:, None], tol).to(x.dtype).contiguous()


@torch.library.custom_op("nareg::node_adaptive_gradients", mutates_args=())
def node_adaptive_gradients(
    gradient: Tensor,
    out: Tensor,
    w: Tensor,
    edges: Tensor | None,
    edge_weight: Tensor | None,
    number: int,
    learned: bool,
    symmetrize: bool,
    laplacian: str,
    tol: float,
) -> tuple[Tensor, Tensor, Tensor]:
    """Its gradients in x, w and edge weight, of its result ``out``."""
    with torch.no_grad(), full_precision(out):
        Z = out.to(torch.promote_types(out.dtype, torch.float32))
        adjacency = _prepared(edges, edge_weight, number, learned, out.shape[0], "sym", symmetrize)
        system = node_adaptive_system(adjacency, Z, laplacian, (None, None), adjacency.derived)  # type: ignore[arg-type]
        v = w.to(Z.dtype)[:, None]
        Y = system.solve(gradient.to(Z.dtype).contiguous(), v, tol)
        of_w, of_entries = system.gradients(Y, Z, v)
        of_weight = None if of_entries is None else adjacency.pull_back(of_entries, laplacian)  # type: ignore[attr-defined]
        return (
            Y.to(out.dtype).contiguous(),
            of_w.to(w.dtype).contiguous(),
            _nothing(out) if of_weight is None else of_weight.contiguous(),
        )


node_adaptive_filter.register_fake(_of_features)


@node_adaptive_gradients.register_fake
def _(
    gradient: Tensor, out: Tensor, w: Tensor, edges: Any, edge_weight: Tensor | None, number: int, learned: bool, *settings: Any
) -> tuple[Tensor, Tensor, Tensor]:
    return empty_like(out), empty_like(w), empty_like(edge_weight) if learned and edge_weight is not None else _nothing(out)


def _remember_solution(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
    _, w, edges, edge_weight, _, _, *ctx.settings = inputs
    ctx.save_for_backward(output, w, edges, edge_weight)


def _backward_of_solution(ctx: Any, gradient: Tensor) -> Any:
    of_x, of_w, of_weight = node_adaptive_gradients(gradient, *ctx.saved_tensors, *ctx.settings)
    return of_x, of_w, None, of_weight if ctx.settings[1] else None, *[None] * 7


node_adaptive_filter.register_autograd(_backward_of_solution, setup_context=_remember_solution)
