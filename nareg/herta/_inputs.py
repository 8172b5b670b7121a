"""The training problem that a user describes, checked once."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
import torch

from nareg._core import checks
from nareg._core.arrays import Array, as_numpy, is_tensor
from nareg._core.sparse_checks import whole_sparse
from nareg._solvers._torch._device import resolve
from nareg.errors import InputError
from nareg.gnn.adjacency import GraphInput
from nareg.graph import node_indices
from nareg.herta._features import Device, Features, Matrix, Nodes, Precision, in_range
from nareg.herta._objective import CrossEntropy, Implicit, SquaredError, TrainingLoss
from nareg.herta._options import Regularized, Unfolding
from nareg.herta._system import System, Unrolled, largest_eigenvalue, scaled_laplacian_of


@dataclass(frozen=True, eq=False)
class TrainingInputs:
    """A training problem: the graph's system, features, training nodes and the loss at them."""

    graph: GraphInput
    kind: str
    system: System
    features: Features
    train: torch.Tensor
    loss: TrainingLoss
    labels: torch.Tensor | None
    weight_decay: float
    as_tensors: bool

    @property
    def like(self) -> torch.Tensor:
        """An empty tensor of the dtype and device of the weights."""
        return torch.empty(0, dtype=self.features.dtype, device=self.features.device)

    def returned(self, value: torch.Tensor) -> Array:
        """A result in the kind of array that the features came in."""
        return value if self.as_tensors else as_numpy(value)

    def accuracy_at(self, validation: Nodes, tol: float) -> Callable[[torch.Tensor], float]:
        """Accuracy at the validation nodes, as a function of W."""
        nodes = torch.as_tensor(node_index("validation", validation, self.system.n_nodes), device=self.train.device)
        if self.labels is None:
            raise InputError("validation needs classes, but targets are numbers: pass labels, or one-hot rows, as targets.")
        if bool((self.labels[nodes] < 0).any()):
            raise InputError("validation holds a node whose label is not known (-1): leave it out.")
        model, labels = Implicit(self.system, self.features, nodes), self.labels[nodes]
        return lambda W: float((model.apply(W, max(tol, 1e-4), warm_start=True).argmax(1) == labels).double().mean())


def read_model(
    graph: GraphInput, features: Matrix, unfolding: Unfolding, *,
    train: Nodes | None = None, device: Device | None = None, dtype: Precision | None = None,
) -> tuple[System, Features, np.ndarray]:  # fmt: skip
    """System, features and training nodes, checked; float64 on the features' device by default."""
    lam, kind = float(unfolding.lam), unfolding.kind
    place = resolve(getattr(features, "device", "cpu") if device is None else device)
    precision = checked_dtype(dtype)
    X = Features.read(features, dtype=precision, device=place)
    n = X.shape[0]
    L, scale = scaled_laplacian_of(graph, kind, n)
    index = node_index("train", np.arange(n) if train is None else train, n)
    if unfolding.unrolled is None:
        return System(L, lam, dtype=precision, device=place, scale=scale, solver=unfolding.solver), X, index
    largest = 2.0 if kind == "augmented" else largest_eigenvalue(L)
    return Unrolled(L, lam, unfolding.unrolled, dtype=precision, device=place, largest=largest), X, index


def read(
    graph: GraphInput, features: Matrix, targets: Matrix, unfolding: Unfolding, objective: Regularized, **options: Any
) -> TrainingInputs:
    """Everything that describes the problem, checked; ``options`` is what :func:`read_model` takes."""
    system, X, index = read_model(graph, features, unfolding, **options)
    Y, labels = _targets(as_numpy(targets), X.shape[0], index, objective.loss)
    if objective.loss == "mse":
        in_range("targets", float(abs(Y[index]).max()), index.size, X.dtype)
        loss: TrainingLoss = SquaredError(torch.as_tensor(Y[index], dtype=X.dtype, device=X.device))
    else:
        assert labels is not None
        loss = CrossEntropy(torch.as_tensor(labels[index], dtype=torch.int64, device=X.device), int(labels.max()) + 1)
    return TrainingInputs(
        graph=graph, kind=unfolding.kind, system=system, features=X, train=torch.as_tensor(index, device=X.device), loss=loss,
        labels=None if labels is None else torch.as_tensor(labels, device=X.device),
        weight_decay=float(objective.weight_decay), as_tensors=is_tensor(features),
    )  # fmt: skip


def _targets(value: Any, n: int, index: np.ndarray, loss: str) -> tuple[np.ndarray, np.ndarray | None]:
    """One row of targets per node, and classes if there are any: (N,) labels, or (N, C) numbers."""
    if sp.issparse(value):
        whole_sparse("targets", value)
        checks.memory("targets as a dense array", 8.0 * np.prod(value.shape, dtype=float), alternative="pass labels (N,)")
        value = value.toarray()
    array = checks.array_of("targets", value)
    if array.shape[:1] != (n,):
        raise InputError(f"targets have shape {array.shape} but there are {n} nodes: pass (N,) labels or (N, C) numbers.")
    if array.ndim == 2 and loss == "mse":
        Y = checks.floats("targets", array, ndim=(2,), finite=False).astype(np.float64)
        if Y.shape[1] == 0:
            raise InputError(f"targets have shape {Y.shape}: at least one column is needed.")
        bad = index[~np.isfinite(Y[index]).all(axis=1)]
        if bad.size:
            raise InputError(f"targets[{int(bad[0])}] is not finite but node {int(bad[0])} is in train: leave it out.")
        return Y, _classes(Y)
    if array.ndim != 1 or array.dtype.kind not in "iu":
        expected = "(N,) integer labels" + (" or (N, C) numbers" if loss == "mse" else "")
        form = f"shape {array.shape} and dtype {array.dtype}"
        raise InputError(f"targets have {form}: {expected} are expected for loss={loss!r}.")
    labels = array.astype(np.int64)
    bad = index[labels[index] < 0]
    if bad.size:
        node = int(bad[0])
        raise InputError(f"targets[{node}] is {labels[node]}, no class, but node {node} is in train: leave it out.")
    n_classes = int(labels.max()) + 1
    if n_classes < 2 and loss == "ce":
        raise InputError("targets hold a single class: cross-entropy needs at least two.")
    if n_classes > n:
        raise InputError(f"targets hold class {n_classes - 1} for {n} nodes: number the classes from 0 without gaps.")
    absent = np.setdiff1d(np.arange(n_classes), labels[index])
    if absent.size:
        warnings.warn(
            f"targets hold {n_classes} classes, but no node of train has class {', '.join(map(str, absent[:10]))}"
            f"{', ...' if absent.size > 10 else ''}: nothing is learned of it; number the classes from 0 without gaps, or "
            "train on nodes of each.", stacklevel=5,
        )  # fmt: skip
    Y = np.zeros((n, n_classes))
    known = labels >= 0
    Y[np.flatnonzero(known), labels[known]] = 1
    return Y, labels


def _classes(Y: np.ndarray) -> np.ndarray | None:
    """Classes where rows are those of the identity, -1 for rows of NaN; None where some row is neither."""
    unknown = np.isnan(Y).all(axis=1)
    one_hot = ((Y == 0) | (Y == 1)).all(axis=1) & (np.nansum(Y, axis=1) == 1)
    return np.where(one_hot, Y.argmax(axis=1), -1) if (one_hot | unknown).all() else None


def node_index(name: str, value: Nodes, n: int) -> np.ndarray:
    """Node indices without repeats, at least one, from indices or a boolean mask, array or tensor."""
    array = checks.array_of(name, as_numpy(value))
    index = node_indices(name, array, n) if np.size(array) else np.empty(0)
    if index.size == 0:
        raise InputError(f"{name} is empty: name at least one node.")
    if array.dtype != bool and array.min() < 0:
        raise InputError(f"{name} holds {array.min()}: nodes are numbered from 0.")
    return index.astype(np.int64)


def checked_dtype(value: Precision | None) -> torch.dtype:
    """float64 (default) or float32, named by torch, NumPy or a string."""
    if value is None:
        return torch.float64
    by_name = {"float32": torch.float32, "float64": torch.float64}
    try:
        return by_name[str(value).removeprefix("torch.") if isinstance(value, torch.dtype) else np.dtype(value).name]
    except (KeyError, TypeError):
        raise InputError(f"dtype is {value!r}: float32 or float64 is expected.") from None
