"""Graph networks as regressors: noisy snapshots (N, B) in, clean ones out, trained on fresh noise in every epoch."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from experiments._nodes import Adjacency, networks, torch
from nareg import gnn
from nareg.gnn import NodeAdaptiveConv
from nareg.gnn.ngc import polynomial
from nareg.gnn.training import checked_device


class Snapshots(torch.nn.Module):
    """Three graph convolutions over every snapshot, with what was read beside the last one's input (GCN)."""

    def __init__(self, hidden: int = 32) -> None:
        super().__init__()
        self.first, self.second = torch.nn.Linear(1, hidden), torch.nn.Linear(hidden, hidden)
        self.last = torch.nn.Linear(hidden + 1, 1)

    def forward(self, Y: torch.Tensor, graph: Adjacency) -> torch.Tensor:
        """(N, B) -> (N, B)."""
        H = torch.relu(_spread(self.first(Y[:, :, None]), graph))
        H = torch.relu(_spread(self.second(H), graph))
        out: torch.Tensor = self.last(torch.cat([_spread(H, graph), Y[:, :, None]], dim=2))[:, :, 0]
        return out


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


class Dense(torch.nn.Module):
    """A perceptron over all nodes at once, no graph (MLP)."""

    def __init__(self, n_nodes: int, hidden: int = 128) -> None:
        super().__init__()
        self.body = networks.Perceptron(n_nodes, n_nodes, (hidden,))

    def forward(self, Y: torch.Tensor, graph: Adjacency) -> torch.Tensor:
        """(N, B) -> (N, B)."""
        out: torch.Tensor = self.body(Y.T).T
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
) -> Learned:
    """Least squares by Adam on four fifths of the signals; the epoch with the smallest error on the others is kept."""
    start, place = time.perf_counter(), checked_device(device or "cpu")
    order = rng.permutation(U.shape[1])
    n_others = max(U.shape[1] // 5, 1)
    clean = torch.tensor(U[:, order[n_others:]], dtype=torch.float32, device=place)
    other = torch.tensor(U[:, order[:n_others]], dtype=torch.float32, device=place)
    level = float(np.sqrt(variance))
    seeds = torch.Generator(place).manual_seed(int(rng.integers(2**62)))
    # validation noise is the same in every epoch: ten draws of each signal
    target = other.repeat(1, 10)
    readings = target + level * torch.randn(target.shape, generator=seeds, device=place)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(int(rng.integers(2**62)))
        network = build().to(place)
    learned = [p for p in network.parameters() if p.requires_grad]
    optimizer = torch.optim.Adam(learned, lr=lr)
    best = torch.full((), np.inf, device=place)
    state = {key: value.clone() for key, value in network.state_dict().items()}
    for epoch in range(epochs):
        optimizer.zero_grad(set_to_none=True)
        noisy = clean + level * torch.randn(clean.shape, generator=seeds, device=place)
        loss = (network(noisy, graph) - clean).square().mean()
        loss.backward()
        optimizer.step()
        if epoch % 5 == 4:
            with torch.no_grad():
                error = (network(readings, graph) - target).square().mean()
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
    out: np.ndarray = gnn.propagate(graph, torch.as_tensor(Y, device=checked_device(device)), **way).cpu().numpy()
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
