"""One training loop for every model: same splits, same selection rule, same budget of epochs."""

from __future__ import annotations

import functools
import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, TypeAlias

import numpy as np
import torch
from torch.nn import functional as F

from nareg._core import checks
from nareg._core.arrays import as_numpy, as_tensor
from nareg._solvers._torch._device import resolve
from nareg.errors import InputError
from nareg.gnn.adjacency import GraphInput, as_adjacency
from nareg.gnn.networks import Network, Rows, as_network
from nareg.gnn.propagation import checked_features, values_checked
from nareg.progress import Progress, ProgressCallback
from nareg.results import Status
from nareg.typing import ArrayLike, Features

#: How the epoch whose weights are tested is selected.
Rule: TypeAlias = Literal["val-accuracy", "val-loss", "last"]
RULES: tuple[Rule, ...] = ("val-accuracy", "val-loss", "last")
#: (train, val, test): node indices or boolean masks.
Split: TypeAlias = Sequence[ArrayLike | torch.Tensor]


@dataclass(frozen=True)
class Protocol:
    """Settings that all models of a comparison share.

    Attributes
    ----------
    epochs : int
        Number of epochs, the same for every model.
    selection : {"val-accuracy", "val-loss", "last"}
        The epoch whose weights are tested: best validation accuracy (ties: smaller validation loss), smallest validation loss,
        or the last one.
    patience : int, optional
        Stop after so many epochs without improvement by the rule.
    device : str
        Where to train, "cpu" or "cuda".

    Raises
    ------
    InputError
        If a setting is out of range, or there is no GPU where one is asked for.
    """

    epochs: int = 200
    selection: Rule = "val-accuracy"
    patience: int | None = None
    device: str = "cpu"

    def __post_init__(self) -> None:
        checks.integer("epochs", self.epochs, low=1)
        checks.choice("selection", self.selection, RULES)
        if self.patience is not None:
            checks.integer("patience", self.patience, low=1)
        resolve(self.device)


@dataclass(frozen=True, eq=False)
class Run:
    """One trained model.

    Attributes
    ----------
    network : Network
        With the weights of the selected epoch. A torch module that is no Network is its ``module``.
    status : Status
        COMPLETED, STOPPED_EARLY (by patience), INTERRUPTED (by Ctrl-C), or DIVERGED: the last validation loss is
        not finite.
    test_accuracy : float
        Of the epoch that the protocol's rule selected. A node with an output that is NaN counts as wrong.
    test_by_rule : dict of str to float
        Test accuracy of the epoch that each of the rules would have selected, from the same training.
    val_accuracy, val_loss : float
        Of the selected epoch.
    epoch, epochs : int
        The selected epoch (from 1), and the number of epochs.
    timings : dict of seconds
        ``"prepare"`` (network and filtered features), ``"train"``, ``"total"``.
    """

    network: Network
    status: Status
    test_accuracy: float
    test_by_rule: dict[str, float]
    val_accuracy: float
    val_loss: float
    epoch: int
    epochs: int
    timings: dict[str, float]


def fit(
    build: Callable[[], torch.nn.Module],
    graph: GraphInput,
    features: Features,
    labels: ArrayLike | torch.Tensor,
    split: Split,
    *,
    learning_rate: float = 0.01,
    weight_decay: float = 5e-4,
    protocol: Protocol | None = None,
    rng: np.random.Generator | None = None,
    progress: ProgressCallback | None = None,
) -> Run:
    """Train a network on the nodes of the first part of a split, choose by the second, test on the third.

    Parameters
    ----------
    build : callable
        Returns a new :class:`~nareg.gnn.networks.Network`, or any torch module that is called as
        ``module(x, edge_index, edge_weight)``; called under the seed.
    graph : Adjacency, Graph, sparse matrix or edge_index
    features : (N, F) array or tensor, float32 or float64
    labels : (N,) integers
        Classes from 0; -1 where unknown, which no part of the split may hold.
    split : (train, val, test)
        Node indices or boolean masks.
    learning_rate, weight_decay : float
        Settings of Adam. Weight decay applies to what the network names in ``decayed()``.
    protocol : Protocol, optional
    rng : numpy.random.Generator, optional
        Source of the seed, default ``default_rng(0)``. Torch's global random state is put back afterwards.
    progress : callable, optional
        Called with a :class:`~nareg.progress.Progress` per epoch, with values ``"val_accuracy"`` and ``"val_loss"``, for which
        the host waits for a GPU in every epoch.

    Returns
    -------
    Run

    Raises
    ------
    InputError
        If features, labels or split cannot work, or there is no GPU where one is asked for.

    Examples
    --------
    >>> import numpy as np, nareg
    >>> from nareg.gnn import networks, training
    >>> data = nareg.datasets.node_classification.synthetic(120, 3, rng=np.random.default_rng(0))
    >>> run = training.fit(
    ...     lambda: networks.FilteredNetwork(64, 3, lam=8.0), data.graph, data.features, data.labels, data.splits[0],
    ...     learning_rate=0.2, weight_decay=1e-5, rng=np.random.default_rng(1))
    >>> run.test_accuracy > 0.8
    True
    """
    if isinstance(build, torch.nn.Module) or not callable(build):
        raise InputError(
            f"build is a {type(build).__name__}: pass a function that builds a new torch module, say lambda: Net()."
        )
    protocol = protocol or Protocol()
    generator = checks.generator(rng)
    learning_rate = checks.number("learning_rate", learning_rate, low=0, strict=True)
    weight_decay = checks.number("weight_decay", weight_decay, low=0)
    device = resolve(protocol.device)
    x = as_tensor(checked_features("features", features), device=device).detach()
    adjacency = as_adjacency(graph, x.shape[0])
    y, parts = checked_task(labels, split, x.shape[0])
    target = torch.as_tensor(y, device=device)
    start = time.perf_counter()
    with torch.random.fork_rng(devices=range(torch.cuda.device_count()) if device.type == "cuda" else []):
        torch.manual_seed(int(generator.integers(2**63)))
        network = as_network(build()).to(device=device, dtype=x.dtype)
        if not any(parameter.requires_grad for parameter in network.parameters()):
            name = type(getattr(network, "module", network)).__name__
            raise InputError(f"{name} has no parameter that requires a gradient: there is nothing to train.")
        nodes = (parts[0], np.concatenate(parts[1:]))
        views = zip(network.views(adjacency, x, nodes), nodes, strict=True)
        near, far = (_View(*view, target[torch.as_tensor(part, device=device)]) for view, part in views)
        _check_width(network, near, y)
        prepared = time.perf_counter()
        loop = _Loop(network, near, far, parts[1].size, _adam(network, learning_rate, weight_decay), protocol)
        status = loop.run(progress)
    by_rule = {rule: loop.selected(rule) for rule in RULES}
    epoch, chosen = by_rule[protocol.selection]
    if status is not Status.INTERRUPTED and not math.isfinite(loop.results[-1].loss):
        status = Status.DIVERGED
    network.load_state_dict(loop.weights(), strict=False)
    network.eval()
    end = time.perf_counter()
    return Run(
        network=network,
        status=status,
        test_accuracy=chosen.test,
        test_by_rule={rule: result.test for rule, (_, result) in by_rule.items()},
        val_accuracy=chosen.val,
        val_loss=chosen.loss,
        epoch=epoch,
        epochs=loop.epoch,
        timings={"prepare": prepared - start, "train": end - prepared, "total": end - start},
    )


class _View(NamedTuple):
    """Inputs of a network and rows in them, for the outputs of some nodes, and the classes of these."""

    inputs: Any
    rows: Rows
    target: torch.Tensor


def _check_width(network: Network, view: _View, y: np.ndarray) -> None:
    network.eval()
    with torch.no_grad():
        width = network(view.inputs, view.rows).shape[1]
    if y.max() >= width:
        raise InputError(f"labels holds class {y.max()} but the network has {width} outputs: build it with {y.max() + 1}.")


def _adam(network: Network, learning_rate: float, weight_decay: float) -> torch.optim.Adam:
    decayed = {id(p) for p in network.decayed()}
    groups = [
        {"params": [p for p in network.parameters() if id(p) in decayed], "weight_decay": weight_decay},
        {"params": [p for p in network.parameters() if id(p) not in decayed], "weight_decay": 0.0},
    ]
    return torch.optim.Adam([group for group in groups if group["params"]], lr=learning_rate)


class _Result(NamedTuple):
    """Validation accuracy, validation loss and test accuracy of an epoch: numbers, or a tensor's entries."""

    val: Any
    loss: Any
    test: Any

    def better(self, rule: Rule, best: _Result) -> Any:
        """Whether a rule prefers it to an earlier one."""
        if rule == "last":
            return self.test >= 0  # always, and where the numbers are
        # any loss is better than one that is NaN, which no comparison finds larger
        lower = (self.loss < best.loss) | ((self.loss == self.loss) & (best.loss != best.loss))
        if rule == "val-loss":
            return lower
        return (self.val > best.val) | ((self.val == best.val) & lower)


class _Loop:
    """Full-batch training; every epoch is evaluated.

    Results and the selected weights stay on the device: the host reads them at the end, for ``progress``, and where
    ``patience`` may run out, which is twice in so many epochs at most.
    """

    def __init__(
        self, network: Network, near: _View, far: _View, n_val: int, optimizer: torch.optim.Optimizer, protocol: Protocol
    ) -> None:
        self.network, self.near, self.far, self.n_val = network, near, far, n_val
        self.optimizer, self.protocol, self.epoch = optimizer, protocol, 0
        self._results = torch.empty((protocol.epochs, 3), dtype=torch.float64, device=near.target.device)
        #: result and weights of the selected epoch
        self._best: tuple[torch.Tensor, dict[str, torch.Tensor]] | None = None

    def run(self, progress: ProgressCallback | None) -> Status:
        """Train. Ctrl-C ends it after the first epoch at the earliest, so that there is a result."""
        epochs, patience = self.protocol.epochs, self.protocol.patience
        look = patience  # no epoch before this one can be the last
        try:
            with values_checked():  # by fit
                for epoch in range(1, epochs + 1):
                    self._step()
                    self._evaluate(epoch)
                    if progress is not None:
                        val, loss, _ = self._results[epoch - 1].tolist()
                        values = {"val_accuracy": val, "val_loss": loss}
                        progress(Progress("training", epoch, epochs, epoch / epochs, values))
                    if patience is not None and epoch == look:
                        best, _ = self.selected(self.protocol.selection)
                        if epoch - best >= patience:
                            return Status.STOPPED_EARLY
                        look = best + patience
        except KeyboardInterrupt:
            if not self.epoch:
                raise
            return Status.INTERRUPTED
        return Status.COMPLETED

    @property
    def results(self) -> list[_Result]:
        """Of the epochs so far, read off the device."""
        return [_Result(*row) for row in self._results[: self.epoch].tolist()]

    def selected(self, rule: Rule) -> tuple[int, _Result]:
        """The epoch, from 1, that a rule selects of those so far, and its result."""
        epochs = enumerate(self.results, start=1)
        return functools.reduce(lambda best, now: now if now[1].better(rule, best[1]) else best, epochs)

    def weights(self) -> dict[str, torch.Tensor]:
        """State of the network in the epoch that the protocol's rule selects."""
        assert self._best is not None
        return self._best[1]

    def _step(self) -> None:
        self.network.train()
        self.optimizer.zero_grad(set_to_none=True)
        inputs, rows, target = self.near
        loss = F.cross_entropy(self.network(inputs, rows), target) + self.network.penalty()
        loss.backward()
        self.optimizer.step()

    @torch.no_grad()
    def _evaluate(self, epoch: int) -> None:
        self.network.eval()
        inputs, rows, target = self.far
        logits, n = self.network(inputs, rows), self.n_val
        # the largest of outputs with a NaN is the first NaN, which is no answer
        right = ((logits.argmax(1) == target) & ~logits.isnan().any(1)).double()
        loss = F.cross_entropy(logits[:n], target[:n])
        now = torch.stack((right[:n].mean(), loss.double(), right[n:].mean()))
        # a module may have a state besides its tensors, which stays that of the last epoch
        state = {name: value for name, value in self.network.state_dict().items() if isinstance(value, torch.Tensor)}
        if self._best is None:
            best = now, {name: value.clone() for name, value in state.items()}
        else:
            better = _Result(*now).better(self.protocol.selection, _Result(*self._best[0]))
            weights = {name: torch.where(better, value, self._best[1][name]) for name, value in state.items()}
            best = torch.where(better, now, self._best[0]), weights
        self._results[epoch - 1] = now
        self._best, self.epoch = best, epoch


def checked_task(labels: Any, split: Any, n_nodes: int) -> tuple[np.ndarray, tuple[np.ndarray, np.ndarray, np.ndarray]]:
    """Labels (N,) int64 and three disjoint, labeled parts as indices."""
    y = checks.array_of("labels", as_numpy(labels))
    if y.shape != (n_nodes,) or y.dtype.kind not in "iu":
        raise InputError(f"labels has shape {y.shape} and dtype {y.dtype}: ({n_nodes},) integers are expected.")
    parts = tuple(split) if isinstance(split, (tuple, list)) else ()
    if len(parts) != 3:
        raise InputError("split is not three parts: pass (train, val, test) indices or masks, say data.splits[0].")
    indices = []
    seen = np.zeros(n_nodes, dtype=int)
    for name, part in zip(("train", "val", "test"), parts, strict=True):
        index = _indices(name, part, n_nodes)
        if (y[index] < 0).any():
            node = int(index[np.flatnonzero(y[index] < 0)[0]])
            raise InputError(f"node {node} of the {name} part has no label ({y[node]}): leave it out of the split.")
        np.add.at(seen, index, 1)
        indices.append(index)
    if (seen > 1).any():
        raise InputError(
            f"node {int(np.flatnonzero(seen > 1)[0])} is in two parts of the split, or twice in one: list it once."
        )
    return y.astype(np.int64), (indices[0], indices[1], indices[2])


def _indices(name: str, part: Any, n_nodes: int) -> np.ndarray:
    index = checks.array_of(name, as_numpy(part))
    if index.dtype == bool and index.shape == (n_nodes,):
        index = np.flatnonzero(index)
    if index.ndim != 1 or index.dtype.kind not in "iu" or not index.size:
        raise InputError(
            f"the {name} part of the split has shape {index.shape} and dtype {index.dtype}: pass indices or a mask."
        )
    if index.min() < 0 or index.max() >= n_nodes:
        bad = index.min() if index.min() < 0 else index.max()
        raise InputError(f"the {name} part of the split holds node {bad}, out of range: there are {n_nodes} nodes.")
    return index.astype(np.int64)
