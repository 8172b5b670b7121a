"""Files and options that the commands of ``nareg unlearn`` share, and how they are read."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
import typer

from nareg._storage.folders import is_folder
from nareg.cli import node_files as read
from nareg.errors import InputError

if TYPE_CHECKING:
    from nareg.unlearning import CertifiedGPR

#: Format of the options that list nodes.
LISTED = "3,5, or a CSV file with one number per line"

Store = Annotated[
    Path, typer.Argument(help="Store with the remaining data, the model and its requests, or folder (fit --folder).")
]
Key = Annotated[Path | None, typer.Option(help="File with the key of the store's hashes; default STORE.key.")]
Where = Annotated[str | None, typer.Option(help="Torch device, such as cuda, for training and heavy propagation.")]
Edges = Annotated[str | None, typer.Option(help="Edges: 3-5,7-9, or a CSV file of pairs u,v.")]
Nodes = Annotated[str | None, typer.Option(help=f"Nodes, with their edges, features and labels: {LISTED}.")]


@dataclass(frozen=True)
class DataFiles:
    """Files with a graph, features and labels, or a data set instead."""

    graph: Annotated[Path | None, typer.Argument(help="Adjacency in MatrixMarket (.mtx), or CSV of pairs u,v.")] = None
    features: Annotated[
        Path | None, typer.Argument(help="One row per node: .npy, .mtx, or .npz from scipy.sparse.save_npz.")
    ] = None
    labels: Annotated[Path | None, typer.Argument(help="CSV with columns node, label (empty for none), train (0 or 1).")] = None
    dataset: Annotated[str | None, typer.Option(help="Name of a data set, with its first split, instead of the files.")] = None

    def read(self, *, in_place: bool = False) -> tuple[Any, Any, Any, Any]:
        """Graph, features, labels and training nodes; ``in_place``: a folder's path and a mapped file, to be read in parts."""
        from nareg import datasets

        if self.dataset is not None:
            if self.graph is not None:
                raise InputError("--dataset replaces the files: pass one or the other.")
            data = datasets.load(self.dataset)
            if not isinstance(data, datasets.NodeClassification) or not data.splits:
                raise InputError(
                    f"--dataset {self.dataset} is not a node classification data set with a split: see nareg datasets list."
                )
            return data.graph, data.features, data.labels, data.splits[0][0]
        if self.graph is None or self.features is None or self.labels is None:
            raise InputError("the data are missing: pass the files graph, features and labels, or --dataset.")
        X = read.matrix(self.features, in_place=in_place)
        y, train = read.labels(self.labels, X.shape[0])
        return self.graph if in_place and is_folder(self.graph) else read.graph(self.graph, X.shape[0]), X, y, train


@dataclass(frozen=True)
class ModelOptions:
    """Options of a :class:`nareg.unlearning.CertifiedGPR`."""

    order: Annotated[int, typer.Option(help="Number of propagation steps.")] = 2
    weights: Annotated[str | None, typer.Option(help="Weights of steps 0, 1, ..., instead of --order: 0.2,0.3,0.5.")] = None
    loss: Annotated[str, typer.Option(help="Loss: logistic or squared.")] = "logistic"
    lam: Annotated[str, typer.Option(help="Ridge per training node; auto suits the features' scale.")] = "auto"
    alpha: Annotated[str, typer.Option(help="Standard deviation of the noise term that hides removed data, or auto.")] = "auto"
    feature_norm: Annotated[
        float | None, typer.Option(help="Length of a row of features, if known without the data: 1 for normalized rows.")
    ] = None
    eps_scale: Annotated[
        float | None, typer.Option(help="What auto adds to --eps per removed row without --feature-norm; default 48 / nodes.")
    ] = None
    eps: Annotated[float, typer.Option(help="Privacy loss epsilon that each certificate guarantees.")] = 1.0
    delta: Annotated[float, typer.Option(help="Probability delta that the guarantee fails.")] = 1e-4

    @property
    def certifies_nothing(self) -> bool:
        """Whether there is no noise."""
        return _number("alpha", self.alpha) == 0

    def model(self, **others: Any) -> CertifiedGPR:
        """The model, not yet fitted."""
        from nareg.unlearning import CertifiedGPR, FeatureScale

        read: dict[str, Any] = {
            "weights": self.order if self.weights is None else _weights(self.weights),
            "lam": _number("lam", self.lam),
            "alpha": _number("alpha", self.alpha),
        }
        if self.feature_norm is not None or self.eps_scale is not None:
            scale = FeatureScale(self.feature_norm, self.eps_scale)
            read |= {name: scale for name in ("lam", "alpha") if read[name] == "auto"}
        options = {name: value for name, value in asdict(self).items() if name not in ("order", "feature_norm", "eps_scale")}
        return CertifiedGPR(**options | read | others)


@dataclass(frozen=True)
class Removal:
    """What a request removes."""

    edges: Edges = None
    nodes: Nodes = None
    features: Annotated[str | None, typer.Option(help=f"Nodes whose features to remove: {LISTED}.")] = None
    labels: Annotated[bool, typer.Option("--labels", help="Remove the labels of the --features nodes, too.")] = False

    @property
    def named(self) -> dict[str, str]:
        """The options that were passed."""
        texts = {"edges": self.edges, "nodes": self.nodes, "features": self.features}
        return {name: text for name, text in texts.items() if text is not None}

    def read(self) -> dict[str, np.ndarray]:
        """Pairs of nodes under "edges", node numbers under the other names."""
        if self.labels and self.features is None:
            raise InputError("--labels needs --features: pass the nodes whose features and labels to remove.")
        return {name: (read.pairs if name == "edges" else read.numbers)(text) for name, text in self.named.items()}


def _number(name: str, text: str) -> float | str:
    """A number, or "auto"."""
    try:
        return text if text == "auto" else float(text)
    except ValueError:
        raise InputError(f"--{name} {text}: pass a number or auto.") from None


def _weights(text: str) -> np.ndarray:
    """Weights of "0.2,0.3,0.5"."""
    try:
        return np.array([float(part) for part in text.split(",")])
    except ValueError:
        raise InputError(f"--weights {text}: pass numbers separated by commas, such as 0.2,0.3,0.5.") from None
