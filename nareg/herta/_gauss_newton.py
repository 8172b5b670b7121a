"""Unfolded networks with any f(X; theta): the graph as a layer, and a preconditioner from f's Jacobian, renewed in training.

    Z = H^-1 f(X; theta)          P ~ J^T H^-1 M D M H^-1 J,      J = df/dtheta,  D = a bound of the loss' curvature in Z

HERTA D.4 replaces X by the Jacobian. J has as many columns as the network has parameters, too many for a Gram matrix. So P is
approximated by its leading eigenvectors: a randomized Nystrom approximation from a few products with P.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch.func import functional_call, vjp, vmap

from nareg._core import checks
from nareg._core.arrays import eagerly
from nareg._solvers._torch._device import Linear, resolve
from nareg.errors import InputError
from nareg.gnn.adjacency import GraphInput
from nareg.herta._coordinates import PreconditionedOptimizer, Values, checked_parameters
from nareg.herta._features import Device, Nodes, Precision
from nareg.herta._inputs import checked_dtype, node_index
from nareg.herta._objective import LOSSES
from nareg.herta._options import Unfolding, fraction
from nareg.herta._system import System, scaled_laplacian_of

#: Accuracy of the solves behind a preconditioner.
TOLERANCE = 1e-2
#: Share of the largest eigenvalue below which eigenvalues are noise.
NOISE = 1e-12


class Unfold(torch.nn.Module):
    """The layer ``Y -> (I + lam L)^-1 Y``, differentiable by one more solve.

    Parameters
    ----------
    graph : Graph, Adjacency, SciPy or torch sparse (N, N), or ``edge_index`` (2, E)
    lam : float
        At least 0.
    kind : {"augmented", "combinatorial", "operator"}
    tol : float
        Largest error per column, relative to its length.
    solver : {"auto", "chebyshev", "cg", "cholesky"}
        As in :class:`nareg.herta.Unfolding`.
    dtype : torch.dtype
        float64 or float32. ``.to()``, ``.float()`` and the like change it, as for any module.
    device : str
    n_nodes : int, optional
        For an ``edge_index`` whose last nodes have no edge.

    Raises
    ------
    InputError

    Examples
    --------
    >>> import torch, nareg
    >>> from nareg import herta
    >>> unfold = herta.Unfold(nareg.graphs.grid((3,)), lam=1.0, tol=1e-8)
    >>> unfold(torch.tensor([[1.0], [0.0], [0.0]], dtype=torch.float64)).ravel().round(decimals=3).tolist()
    [0.718, 0.188, 0.051]
    """

    def __init__(
        self,
        graph: GraphInput,
        *,
        lam: float = 1.0,
        kind: str = "augmented",
        tol: float = 1e-6,
        solver: str = "auto",
        dtype: Precision = torch.float64,
        device: Device = "cpu",
        n_nodes: int | None = None,
    ) -> None:
        super().__init__()
        unfolding, self.tol = Unfolding(lam, kind, solver=solver), fraction("tol", tol)
        L, scale = scaled_laplacian_of(graph, unfolding.kind, n_nodes)
        place: dict[str, Any] = {"dtype": checked_dtype(dtype), "device": resolve(device)}
        self.system = System(L, float(unfolding.lam), scale=scale, solver=solver, **place)

    @eagerly
    def forward(self, Y: torch.Tensor) -> torch.Tensor:
        """(N, C) -> (N, C)."""
        system = self.system
        given = getattr(Y, "ndim", 0), getattr(Y, "dtype", None), getattr(Y, "device", None)
        if given != (2, system.dtype, system.device) or Y.shape[0] != system.n_nodes:
            options = f"shape {tuple(Y.shape)}, {Y.dtype} on {Y.device}" if isinstance(Y, torch.Tensor) else f"type {type(Y)}"
            raise InputError(f"Y has {options}: pass ({system.n_nodes}, C), {system.dtype} on {system.device}.")
        return Linear.apply(Y, self._solve, self._solve)

    def _solve(self, B: torch.Tensor) -> torch.Tensor:
        return self.system.solve(B, tol=self.tol)

    def _apply(self, fn: Callable[[torch.Tensor], torch.Tensor], recurse: bool = True) -> Unfold:
        """Move and convert the system with the module, as PyTorch does its parameters."""
        super()._apply(fn, recurse)
        probe = fn(torch.empty(0, dtype=self.system.dtype, device=self.system.device))
        if (probe.dtype, probe.device) != (self.system.dtype, self.system.device):
            self.system = self.system.to(checked_dtype(probe.dtype), probe.device)
        return self


class GaussNewton(PreconditionedOptimizer):
    """A PyTorch optimizer in coordinates in which the leading curvature of the training problem is one.

    ``R = (V diag(values) V^T + d I)^-1/2`` with the ``rank`` leading eigenvalues of P, and d the smallest of them or
    ``damping`` times the largest. The coordinates are renewed in training, and the optimizer's moments are reset then.

    Gradient descent takes learning rates near one, whatever the features' units, where the network is nearly linear over a
    step. Otherwise start at 0.1, or take Adam.

    Provisional: no experiment uses it yet; arguments and results may change.

    Parameters
    ----------
    optimizer : torch.optim.Optimizer
        Over parameters of ``network``.
    network : torch.nn.Module
        f: (N, F) -> (N, C), evaluated in ``eval()`` mode.
    features : (N, F) tensor
    unfold : Unfold
    train : (n,) indices or (N,) mask
    loss : {"mse", "ce"}
        ``1/2 ||Z - Y||^2`` or softmax cross-entropy, summed over the training nodes: D is the identity, or
        ``(I - 1 1^T / C) / 2``, which is never below the second derivative of cross-entropy (Bohning 1992).
    rank : int
        Number of eigenvectors. A renewal takes about ``4 rank`` solves with C columns.
    every : int
        Steps between renewals.
    damping : float
        Curvature below which a direction counts as flat, as a share of the largest. If the loss rises, f is far from linear:
        increase the damping, renew more often, or lower the learning rate.
    generator : torch.Generator, optional

    Raises
    ------
    InputError

    References
    ----------
    HERTA, Appendix D.4. Frangella, Tropp, Udell, "Randomized Nystrom preconditioning" (2023), Algorithm 2.1.

    Examples
    --------
    >>> import torch, nareg
    >>> from nareg import herta
    >>> unfold, X = herta.Unfold(nareg.graphs.grid((10, 10)), lam=1.0), torch.ones(100, 3, dtype=torch.float64)
    >>> net = torch.nn.Sequential(torch.nn.Linear(3, 8), torch.nn.Tanh(), torch.nn.Linear(8, 2)).double()
    >>> sgd = torch.optim.SGD(net.parameters(), lr=0.5)
    >>> optimizer = herta.GaussNewton(sgd, net, X, unfold, train=torch.arange(50), rank=4)
    >>> (unfold(net(X))[:50] ** 2).sum().backward()
    >>> optimizer.step()
    """

    def __init__(
        self,
        optimizer: torch.optim.Optimizer,
        network: torch.nn.Module,
        features: torch.Tensor,
        unfold: Unfold,
        *,
        train: Nodes,
        loss: str = "mse",
        rank: int = 50,
        every: int = 10,
        damping: float = 1e-2,
        generator: torch.Generator | None = None,
    ) -> None:
        stored = checked_parameters(optimizer)
        if not isinstance(network, torch.nn.Module):
            raise InputError(f"network is {network!r}: pass a torch.nn.Module.")
        if not isinstance(unfold, Unfold):
            raise InputError(f"unfold is {unfold!r}: pass a nareg.herta.Unfold.")
        system = unfold.system
        place = getattr(features, "dtype", None), getattr(features, "device", None)
        strided = getattr(features, "layout", None) == torch.strided
        if place != (system.dtype, system.device) or not strided or features.shape[:1] != (system.n_nodes,):
            raise InputError(
                f"features are not a dense tensor of {system.n_nodes} rows of {system.dtype} on {system.device}, like unfold: "
                "convert one of them with .to()."
            )
        if any((p.dtype, p.device) != place for p in stored):
            raise InputError(f"network holds parameters that are not {system.dtype} on {system.device}: convert it with .to().")
        named = dict(network.named_parameters())
        self._names = [name for p in stored for name, q in named.items() if q is p]
        if len(self._names) != len(stored):
            raise InputError("optimizer holds a parameter that is not in network: make it from network.parameters().")
        super().__init__(optimizer, stored)
        self._network, self._features, self._unfold = network, features, unfold
        index = node_index("train", train, system.n_nodes)
        self._train = torch.as_tensor(index, device=features.device)
        self._loss = checks.choice("loss", loss, LOSSES)
        self._rank = min(checks.integer("rank", rank, low=1), sum(p.numel() for p in stored))
        if generator is not None and not isinstance(generator, torch.Generator):
            raise InputError(f"generator is {generator!r}: pass a torch.Generator.")
        self._every, self._count = checks.integer("every", every, low=1), 0
        self._generator = torch.Generator().manual_seed(0) if generator is None else generator
        self._damping = checks.number("damping", damping, low=0, high=1)
        self._V, self._scale, self._rest = features.new_zeros((0, 0)), features.new_zeros(0), 1.0

    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Take one step of the optimizer; renew the coordinates first every ``every`` steps."""
        if self._count % self._every == 0:
            self._renew()
        self._count += 1
        return super().step(closure)

    def _renew(self) -> None:
        values, V = self.leading_curvature()
        flat = max(float(values[-1]), self._damping * float(values[0]))
        self._V, self._scale, self._rest = V, (values + flat) ** -0.5, flat**-0.5
        self._written = None
        self.optimizer.state.clear()

    @torch.no_grad()
    def leading_curvature(self) -> tuple[torch.Tensor, torch.Tensor]:
        """Leading eigenvalues, in descending order, and eigenvectors of ``P``, by a randomized Nystrom approximation."""
        p, k = sum(q.numel() for q in self._parameters), self._rank
        like = self._features
        omega = torch.randn((p, k), generator=self._generator, dtype=like.dtype, device=self._generator.device).to(like.device)
        omega = torch.linalg.qr(omega).Q
        Y = self._curvature(omega)
        shift = float(torch.finfo(like.dtype).eps) * float(Y.norm())
        Y = Y + shift * omega
        core, turn = torch.linalg.eigh(omega.T @ Y)
        # P ~ Y (omega^T Y)^-1 Y^T; shifted, so that rounding leaves the core definite
        B = Y @ turn * core.clamp(min=shift or 1.0).rsqrt()
        U, singular, _ = torch.linalg.svd(B, full_matrices=False)
        values = (singular**2 - shift).clamp(min=0)
        retained = values > NOISE * values[0]
        if not bool(retained.any()):  # no curvature: R is a multiple of the identity
            return torch.ones_like(values[:1]), U[:, :1] * 0
        return values[retained], U[:, retained]

    def _curvature(self, directions: torch.Tensor) -> torch.Tensor:
        """``P V`` for (parameters, k) V, all directions in one block of solves per way."""
        modes = {module: module.training for module in self._network.modules()}
        self._network.eval()
        try:
            parameters = dict(zip(self._names, self._read(), strict=True))
            outputs, pull = vjp(lambda q: functional_call(self._network, q, (self._features,)), parameters)[:2]
            if outputs.ndim != 2 or outputs.shape[0] != self._unfold.system.n_nodes or not bool(outputs.isfinite().all()):
                raise InputError(
                    f"network returns a tensor of shape {tuple(outputs.shape)}: it has to return finite numbers of shape "
                    f"({self._unfold.system.n_nodes}, C)."
                )
            # J V as the transpose of J^T, because every layer has a reverse mode
            push = vjp(lambda cotangent: pull(cotangent)[0], torch.zeros_like(outputs))[1]
            k, (n, c) = directions.shape[1], outputs.shape
            (moved,) = vmap(push)(self._split(directions.T))
            Z = self._solve(moved.permute(1, 2, 0).reshape(n, c * k)).reshape(n, c, k)[self._train]
            back = torch.zeros((n, c, k), dtype=Z.dtype, device=Z.device)
            back[self._train] = Z if self._loss == "mse" else 0.5 * (Z - Z.mean(dim=1, keepdim=True))
            cotangents = self._solve(back.reshape(n, c * k)).reshape(n, c, k).permute(2, 0, 1)
            (pulled,) = vmap(pull)(cotangents.contiguous())
            return torch.cat([pulled[name].reshape(k, -1) for name in self._names], dim=1).T
        finally:
            for module, mode in modes.items():
                module.training = mode

    def _solve(self, B: torch.Tensor) -> torch.Tensor:
        return self._unfold.system.solve(B.contiguous(), tol=TOLERANCE)

    def _split(self, rows: torch.Tensor) -> dict[str, torch.Tensor]:
        """(k, parameters) -> parameters by name, each with k in front."""
        parts = torch.split(rows, [p.numel() for p in self._parameters], dim=1)
        shapes = [p.shape for p in self._parameters]
        return {name: part.reshape(-1, *shape) for name, part, shape in zip(self._names, parts, shapes, strict=True)}

    def _coordinates(self) -> dict[str, Any]:
        return {"count": self._count, "vectors": self._V, "scale": self._scale, "rest": self._rest}

    def _set_coordinates(self, state: dict[str, Any]) -> None:
        self._count, self._rest = int(state["count"]), float(state["rest"])
        self._V, self._scale = (state[name].to(self._features) for name in ("vectors", "scale"))

    def _inner(self, values: Values) -> Values:
        return self._scaled(values, 1 / self._scale, 1 / self._rest)

    def _outer(self, values: Values) -> Values:
        return self._scaled(values, self._scale, self._rest)

    def _pull_back(self, gradients: Values) -> Values:
        return self._scaled(gradients, self._scale, self._rest)  # R is symmetric

    def _scaled(self, values: Values, factors: torch.Tensor, rest: float) -> Values:
        """``V diag(factors) V^T + rest (I - V V^T)`` times the concatenated parameters."""
        flat = torch.cat([value.reshape(-1) for value in values])
        flat = rest * flat + self._V @ ((factors - rest) * (self._V.T @ flat))
        parts = torch.split(flat, [value.numel() for value in values])
        return [part.reshape(value.shape) for part, value in zip(parts, values, strict=True)]
