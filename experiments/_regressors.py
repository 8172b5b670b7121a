"""Graph networks as regressors: noisy snapshots (N, B) in, clean ones out, trained on fresh noise in every epoch.

Readings that are missing are NaN. Networks made with ``gaps`` take two channels: the reading or 0, and whether there is one.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from experiments._nodes import Adjacency, networks, torch
from nareg import gnn
from nareg._solvers._torch._device import resolve
from nareg.gnn import NodeAdaptiveConv
from nareg.gnn.ngc import polynomial


class Snapshots(torch.nn.Module):
    """Three graph convolutions over every snapshot, with what was read beside the last one's input (GCN)."""

    def __init__(self, hidden: int = 32, gaps: bool = False) -> None:
        super().__init__()
        self.gaps = gaps
        self.first, self.second = torch.nn.Linear(1 + gaps, hidden), torch.nn.Linear(hidden, hidden)
        self.last = torch.nn.Linear(hidden + 1 + gaps, 1)

    def forward(self, Y: torch.Tensor, graph: Adjacency) -> torch.Tensor:
        """(N, B) -> (N, B)."""
        read = torch.stack(_channels(Y), dim=2) if self.gaps else Y[:, :, None]
        H = torch.relu(_spread(self.first(read), graph))
        H = torch.relu(_spread(self.second(H), graph))
        out: torch.Tensor = self.last(torch.cat([_spread(H, graph), read], dim=2))[:, :, 0]
        return out


def _channels(Y: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Readings with 0 where there is none, and 1 where there is one."""
    return Y.nan_to_num(), Y.isfinite().to(Y.dtype)


def _spread(H: torch.Tensor, graph: Adjacency) -> torch.Tensor:
    return polynomial(graph, H.flatten(1), [0.0, 1.0]).view_as(H)


class Polynomial(torch.nn.Module):
    """``sum_s g_s A~^s y`` with learned g: the filter whose one member is NGC."""

    def __init__(self, order: int = 16, lam: float = 1.0) -> None:
        super().__init__()
        self.g = torch.nn.Parameter(torch.tensor(gnn.series.neumann_weights(lam, order), dtype=torch.float32))

    def forward(self, Y: torch.Tensor, graph: Adjacency) -> torch.Tensor:
        """(N, B) -> (N, B)."""
        out: torch.Tensor = gnn.propagate(graph, Y, weights=self.g)
        return out


class NormalizedPolynomial(torch.nn.Module):
    """``(sum_s g_s A~^s M y) / (sum_s h_s A~^s m)``, m one where there is a reading; g learned, and h > 0 that sums to one."""

    def __init__(self, order: int = 16, lam: float = 1.0) -> None:
        super().__init__()
        start = torch.tensor(gnn.series.neumann_weights(lam, order), dtype=torch.float32)
        self.g, self.log_h = torch.nn.Parameter(start), torch.nn.Parameter(start.log())

    def forward(self, Y: torch.Tensor, graph: Adjacency) -> torch.Tensor:
        """(N, B) -> (N, B)."""
        values, seen = _channels(Y)
        out: torch.Tensor = gnn.propagate(graph, values, weights=self.g)
        return out / gnn.propagate(graph, seen, weights=self.log_h.softmax(0)).clamp(min=1e-6)


class Weights(torch.nn.Module):
    """The node-adaptive denoiser with weights learned end to end."""

    def __init__(self, n_nodes: int, lam: float) -> None:
        super().__init__()
        self.layer = NodeAdaptiveConv(
            1, 1, n_nodes=n_nodes, lam=lam, lower=1e-6, laplacian="combinatorial", tol=1e-4, bias=False
        )
        self.layer.weight.requires_grad_(False)

    def forward(self, Y: torch.Tensor, graph: Adjacency) -> torch.Tensor:
        """(N, B) -> (N, B)."""
        return self.layer.denoise(graph, Y)


class GappyWeights(torch.nn.Module):
    """``(M + diag(w) L diag(w))^-1 M y`` with w learned end to end and M the mask of each snapshot, by dense solves in float64.

    Weights that are learned where few readings are make the system singular to float32.
    """

    L: torch.Tensor

    def __init__(self, laplacian: np.ndarray) -> None:
        super().__init__()
        self.register_buffer("L", torch.tensor(laplacian, dtype=torch.float64))
        self.log_w = torch.nn.Parameter(torch.zeros(len(laplacian)))

    def forward(self, Y: torch.Tensor, graph: Adjacency) -> torch.Tensor:
        """(N, B) -> (N, B)."""
        values, seen = (channel.double() for channel in _channels(Y))
        w = self.log_w.double().exp()
        S = w[:, None] * self.L * w
        if bool((seen == seen[:, :1]).all()):  # one system for all snapshots
            return torch.linalg.solve(torch.diag(seen[:, 0]) + S, values).float()
        out: torch.Tensor = torch.linalg.solve(torch.diag_embed(seen.T) + S, values.T)
        return out.T.float()


class Dense(torch.nn.Module):
    """A perceptron over all nodes at once, no graph (MLP)."""

    def __init__(self, n_nodes: int, hidden: int = 128, gaps: bool = False) -> None:
        super().__init__()
        self.gaps = gaps
        self.body = networks.Perceptron((1 + gaps) * n_nodes, n_nodes, (hidden,))

    def forward(self, Y: torch.Tensor, graph: Adjacency) -> torch.Tensor:
        """(N, B) -> (N, B)."""
        read = torch.cat(_channels(Y)) if self.gaps else Y
        out: torch.Tensor = self.body(read.T).T
        return out


@dataclass(frozen=True)
class Learned:
    """A trained regressor: what it does to readings, how many numbers it learned, how long it took."""

    apply: Callable[[np.ndarray], np.ndarray]
    parameters: int
    seconds: float


def train(
    build: Callable[[], torch.nn.Module],
    graph: Adjacency,
    U: np.ndarray,
    variance: float,
    *,
    lr: float,
    epochs: int,
    rng: np.random.Generator,
    device: str | None = None,
    hidden: Callable[[tuple[int, ...]], np.ndarray] | None = None,
    batch: int | None = None,
) -> Learned:
    """Least squares by Adam on four fifths of the signals; the epoch with the smallest error on the others is kept.

    ``hidden(shape)`` draws where no reading is taken: errors count there alone. ``batch`` signals are drawn per epoch.
    """
    start, place = time.perf_counter(), resolve(device or "cpu")
    order = rng.permutation(U.shape[1])
    n_others = max(U.shape[1] // 5, 1)
    clean = torch.tensor(U[:, order[n_others:]], dtype=torch.float32, device=place)
    other = torch.tensor(U[:, order[:n_others]], dtype=torch.float32, device=place)
    level = float(np.sqrt(variance))
    seeds = torch.Generator(place).manual_seed(int(rng.integers(2**62)))

    def read(truth: torch.Tensor) -> torch.Tensor:
        noisy = truth + level * torch.randn(truth.shape, generator=seeds, device=place)
        if hidden is None:
            return noisy
        return noisy.masked_fill(torch.as_tensor(hidden(tuple(truth.shape)), device=place), torch.nan)

    def error_of(readings: torch.Tensor, truth: torch.Tensor) -> torch.Tensor:
        squares = (network(readings, graph) - truth).square()
        mean: torch.Tensor = squares.mean() if hidden is None else squares[readings.isnan()].mean()
        return mean

    # validation noise is the same in every epoch: ten draws of each signal
    target = other.repeat(1, 10)
    readings = read(target)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(int(rng.integers(2**62)))
        network = build().to(place)
    learned = [p for p in network.parameters() if p.requires_grad]
    optimizer = torch.optim.Adam(learned, lr=lr)
    best = torch.full((), np.inf, device=place)
    state = {key: value.clone() for key, value in network.state_dict().items()}
    for epoch in range(epochs):
        optimizer.zero_grad(set_to_none=True)
        truth = clean
        if batch is not None and batch < clean.shape[1]:
            truth = clean[:, torch.randperm(clean.shape[1], generator=seeds, device=place)[:batch]]
        error_of(read(truth), truth).backward()
        optimizer.step()
        if epoch % 5 == 4:
            with torch.no_grad():
                error = error_of(readings, target)
                better = error < best  # chosen on the device: nothing waits for it
                best = torch.where(better, error, best)
                state = {key: torch.where(better, value, state[key]) for key, value in network.state_dict().items()}
    network.load_state_dict(state)

    def apply(Y: np.ndarray) -> np.ndarray:
        with torch.no_grad():
            out: np.ndarray = (
                network(torch.tensor(Y, dtype=torch.float32, device=place), graph).cpu().numpy().astype(np.float64)
            )
        return out

    return Learned(apply, sum(p.numel() for p in learned), time.perf_counter() - start)


def propagated(graph: Adjacency, Y: np.ndarray, device: str | None, **way: Any) -> np.ndarray:
    """Propagation on a device, in compiled loops where none is named."""
    if device is None:
        return gnn.propagate(graph, Y, **way)
    out: np.ndarray = gnn.propagate(graph, torch.as_tensor(Y, device=resolve(device)), **way).cpu().numpy()
    return out


def chosen_filter(
    graph: Adjacency,
    U: np.ndarray,
    variance: float,
    ways: list[dict[str, Any]],
    rng: np.random.Generator,
    device: str | None = None,
) -> Learned:
    """NGC or RNGC: the way to propagate that has the smallest error on the training signals."""
    start = time.perf_counter()
    Y = U + np.sqrt(variance) * rng.standard_normal(U.shape)
    best = min(ways, key=lambda way: float(np.mean((propagated(graph, Y, device, **way) - U) ** 2)))
    return Learned(lambda Z: propagated(graph, Z, device, **best), len(best), time.perf_counter() - start)
