"""One training loop for every model: same splits, same selection rule, same budget of epochs."""

from __future__ import annotations

import copy
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch.nn import functional as F

from nareg import _checks
from nareg.errors import InputError
from nareg.gnn.adjacency import Adjacency, as_adjacency
from nareg.gnn.networks import Network, Rows
from nareg.gnn.propagation import checked_features

RULES = ("val-accuracy", "val-loss", "last")
#: ``progress(epoch, validation accuracy)``
Progress = Callable[[int, float], None]


@dataclass(frozen=True)
class Protocol:
    """What all models of a comparison share.

    Attributes
    ----------
    epochs : int
        Budget, the same for every model.
    selection : {"val-accuracy", "val-loss", "last"}
        The epoch whose weights are tested: best validation accuracy (ties: smaller validation loss), smallest validation loss,
        or the last one.
    patience : int, optional
        Stop after so many epochs without improvement by the rule.
    device : str
        Where to train, "cpu" or "cuda".
    """

    epochs: int = 200
    selection: str = "val-accuracy"
    patience: int | None = None
    device: str = "cpu"

    def __post_init__(self) -> None:
        _checks.integer("epochs", self.epochs, low=1)
        _checks.choice("selection", self.selection, RULES)
        if self.patience is not None:
            _checks.integer("patience", self.patience, low=1)
        checked_device(self.device)


@dataclass(frozen=True, eq=False)
class Run:
    """One trained model.

    Attributes
    ----------
    network : Network
        With the weights that the selection rule chose.
    test_accuracy : float
        By the protocol's rule.
    test_by_rule : dict
        Test accuracy that each of the rules would have reported, from the same training.
    val_accuracy, val_loss : float
        Of the chosen epoch.
    epoch, epochs : int
        The chosen one (from 1), and how many there were.
    seconds : float
    interrupted : bool
        Whether Ctrl-C ended the training early.
    """

    network: Network
    test_accuracy: float
    test_by_rule: dict[str, float]
    val_accuracy: float
    val_loss: float
    epoch: int
    epochs: int
    seconds: float
    interrupted: bool


def fit(
    build: Callable[[], Network],
    features: Any,
    graph: Any,
    labels: Any,
    split: Any,
    *,
    lr: float = 0.01,
    weight_decay: float = 5e-4,
    protocol: Protocol | None = None,
    rng: np.random.Generator,
    progress: Progress | None = None,
) -> Run:
    """Train a network on the nodes of the first part of a split, choose by the second, test on the third.

    Parameters
    ----------
    build : callable
        Returns a new :class:`~nareg.gnn.networks.Network`; called under the seed.
    features : (N, F) array or tensor, float32 or float64
    graph : Adjacency, Graph, sparse matrix or edge_index
    labels : (N,) integers
        Classes from 0; -1 where unknown, which no part of the split may hold.
    split : (train, val, test)
        Node indices or boolean masks.
    lr, weight_decay : float
        Of Adam. Weight decay applies to what the network names in ``decayed()``.
    protocol : Protocol, optional
    rng : numpy.random.Generator
        Source of the seed; torch's global random state is put back afterwards.
    progress : callable, optional
        ``progress(epoch, validation accuracy)``.

    Returns
    -------
    Run

    Raises
    ------
    InputError
        For features, labels or splits that cannot work, and a GPU asked for where there is none.

    Examples
    --------
    >>> import numpy as np, nareg
    >>> from nareg.gnn import networks, training
    >>> data = nareg.datasets.node_classification.synthetic(120, 3, rng=np.random.default_rng(0))
    >>> run = training.fit(
    ...     lambda: networks.Filtered(64, 3, lam=8.0), data.features, data.graph, data.labels, data.splits[0],
    ...     lr=0.2, weight_decay=1e-5, rng=np.random.default_rng(1))
    >>> run.test_accuracy > 0.8
    True
    """
    protocol = protocol or Protocol()
    generator = _checks.generator(rng)
    lr = _checks.number("lr", lr, low=0, strict=True)
    weight_decay = _checks.number("weight_decay", weight_decay, low=0)
    device = checked_device(protocol.device)
    x = torch.as_tensor(features) if isinstance(features, torch.Tensor) else torch.from_numpy(_floats(features))
    x = checked_features("features", x).detach().to(device)
    adjacency = as_adjacency(graph, x.shape[0])
    y, parts = checked_task(labels, split, x.shape[0])
    target = torch.as_tensor(y, device=device)
    start = time.perf_counter()
    with torch.random.fork_rng(devices=range(torch.cuda.device_count()) if device.type == "cuda" else []):
        torch.manual_seed(int(generator.integers(2**63)))
        network = build().to(device=device, dtype=x.dtype)
        near, far = _views(network, x, adjacency, (parts[0], np.concatenate(parts[1:])))
        _check_width(network, near, y)
        loop = _Loop(network, near, far, target, parts[1].size, lr, weight_decay, protocol)
        interrupted = loop.run(progress)
    network.load_state_dict(loop.best[protocol.selection].state)
    network.eval()
    chosen = loop.best[protocol.selection]
    return Run(
        network=network,
        test_accuracy=chosen.test,
        test_by_rule={rule: loop.best[rule].test for rule in RULES},
        val_accuracy=chosen.val,
        val_loss=chosen.loss,
        epoch=chosen.epoch,
        epochs=loop.best["last"].epoch,
        seconds=time.perf_counter() - start,
        interrupted=interrupted,
    )


def _floats(features: Any) -> np.ndarray:
    array = _checks.floats("features", features, ndim=(2,))
    return np.ascontiguousarray(array)


@dataclass(frozen=True)
class _View:
    """What a network needs for the outputs of some nodes: inputs, their rows in them, their numbers in the graph."""

    inputs: Any
    rows: Rows
    nodes: torch.Tensor


def _views(network: Network, x: torch.Tensor, adjacency: Adjacency, parts: tuple[np.ndarray, ...]) -> list[_View]:
    """A view a part: of the neighborhood that the network looks at, or of the whole graph, prepared once."""
    whole = network.prepare(x, adjacency) if network.reach is None else None
    views = []
    for nodes in parts:
        index = torch.as_tensor(nodes, device=x.device)
        if network.reach is None:
            inputs, rows = whole, index
        else:
            near = adjacency.within(nodes, network.reach)
            inputs = network.prepare(x[torch.as_tensor(near, device=x.device)], adjacency.restricted(near))
            rows = torch.as_tensor(np.searchsorted(near, nodes), device=x.device)
        views.append(_View(*network.narrowed(inputs, rows), index))
    return views


def _check_width(network: Network, view: _View, y: np.ndarray) -> None:
    network.eval()
    with torch.no_grad():
        width = network(view.inputs, view.rows).shape[1]
    if y.max() >= width:
        raise InputError(f"labels holds class {y.max()} but the network has {width} outputs: build it with {y.max() + 1}.")


@dataclass
class _Epoch:
    """What a rule has chosen so far."""

    epoch: int
    val: float
    loss: float
    test: float
    state: dict[str, torch.Tensor]


class _Loop:
    """Full-batch training with Adam; every epoch is evaluated."""

    def __init__(
        self,
        network: Network,
        near: _View,
        far: _View,
        target: torch.Tensor,
        n_val: int,
        lr: float,
        decay: float,
        protocol: Protocol,
    ) -> None:
        self.network, self.near, self.far, self.target, self.protocol = network, near, far, target, protocol
        self.n_val = n_val
        decayed = {id(p) for p in network.decayed()}
        groups = [
            {"params": [p for p in network.parameters() if id(p) in decayed], "weight_decay": decay},
            {"params": [p for p in network.parameters() if id(p) not in decayed], "weight_decay": 0.0},
        ]
        self.optimizer = torch.optim.Adam([group for group in groups if group["params"]], lr=lr)
        self.best: dict[str, _Epoch] = {}

    def run(self, progress: Progress | None) -> bool:
        """Train; whether Ctrl-C ended it (after the first epoch, so that there is a result)."""
        try:
            for epoch in range(1, self.protocol.epochs + 1):
                self._step()
                last = self._evaluate(epoch)
                if progress is not None:
                    progress(epoch, last.val)
                waited = epoch - self.best[self.protocol.selection].epoch
                if self.protocol.patience is not None and waited >= self.protocol.patience:
                    break
        except KeyboardInterrupt:
            if not self.best:
                raise
            return True
        return False

    def _step(self) -> None:
        self.network.train()
        self.optimizer.zero_grad(set_to_none=True)
        view = self.near
        loss = F.cross_entropy(self.network(view.inputs, view.rows), self.target[view.nodes]) + self.network.penalty()
        loss.backward()
        self.optimizer.step()

    @torch.no_grad()
    def _evaluate(self, epoch: int) -> _Epoch:
        self.network.eval()
        logits, target, n = self.network(self.far.inputs, self.far.rows), self.target[self.far.nodes], self.n_val
        right = (logits.argmax(1) == target).double()
        loss = float(F.cross_entropy(logits[:n], target[:n]))
        now = _Epoch(epoch, float(right[:n].mean()), loss, float(right[n:].mean()), {})
        for rule in RULES:
            held = self.best.get(rule)
            if held is None or _better(rule, now, held):
                if not now.state and rule == self.protocol.selection:
                    now.state = copy.deepcopy(self.network.state_dict())
                self.best[rule] = now
        return now


def _better(rule: str, now: _Epoch, held: _Epoch) -> bool:
    if rule == "last":
        return True
    if rule == "val-loss":
        return now.loss < held.loss
    return (now.val, -now.loss) > (held.val, -held.loss)


def checked_task(labels: Any, split: Any, n_nodes: int) -> tuple[np.ndarray, tuple[np.ndarray, np.ndarray, np.ndarray]]:
    """Labels (N,) int64 and three disjoint, labeled parts as indices."""
    y = _checks.array_of("labels", labels.detach().cpu().numpy() if hasattr(labels, "detach") else labels)
    if y.shape != (n_nodes,) or y.dtype.kind not in "iu":
        raise InputError(f"labels has shape {y.shape} and dtype {y.dtype}: ({n_nodes},) integers are expected.")
    parts = tuple(split) if isinstance(split, (tuple, list)) else ()
    if len(parts) != 3:
        raise InputError("split is not three parts: pass (train, val, test) indices or masks, say data.splits[0].")
    found = []
    seen = np.zeros(n_nodes, dtype=int)
    for name, part in zip(("train", "val", "test"), parts, strict=True):
        index = _indices(name, part, n_nodes)
        if (y[index] < 0).any():
            node = int(index[np.flatnonzero(y[index] < 0)[0]])
            raise InputError(f"node {node} of the {name} part has no label ({y[node]}): leave it out of the split.")
        np.add.at(seen, index, 1)
        found.append(index)
    if (seen > 1).any():
        raise InputError(f"node {int(np.flatnonzero(seen > 1)[0])} is in two parts of the split, or twice in one.")
    return y.astype(np.int64), (found[0], found[1], found[2])


def _indices(name: str, part: Any, n_nodes: int) -> np.ndarray:
    index = _checks.array_of(name, part.detach().cpu().numpy() if hasattr(part, "detach") else part)
    if index.dtype == bool and index.shape == (n_nodes,):
        index = np.flatnonzero(index)
    if index.ndim != 1 or index.dtype.kind not in "iu" or not index.size:
        raise InputError(f"the {name} part of the split has shape {index.shape} and dtype {index.dtype}: indices or a mask.")
    if index.min() < 0 or index.max() >= n_nodes:
        bad = index.min() if index.min() < 0 else index.max()
        raise InputError(f"the {name} part of the split holds node {bad}, out of range: there are {n_nodes} nodes.")
    return index.astype(np.int64)


def checked_device(name: Any) -> torch.device:
    """A device that is there."""
    try:
        device = torch.device(name)
    except (RuntimeError, TypeError):
        raise InputError(f"device is {name!r}: 'cpu' or 'cuda' is expected.") from None
    if device.type not in ("cpu", "cuda"):
        raise InputError(f"device is {str(name)!r}: 'cpu' or 'cuda' is expected.")
    if device.type == "cuda" and (device.index or 0) >= torch.cuda.device_count():
        raise InputError(f"device is {str(name)!r} but torch sees no CUDA GPU here: leave it out, or device='cpu'.")
    return device
