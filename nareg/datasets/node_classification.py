"""A node classification data set: a graph, features, labels, and the splits that were published with it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse as sp

from nareg._core import checks
from nareg._core.adjacency import undirected
from nareg.datasets._pyg import Split, fields_of_ogb, fields_of_pyg, to_data
from nareg.errors import InputError
from nareg.graph import Graph

if TYPE_CHECKING:
    import torch_geometric

#: What objects of other libraries do not say.
_UNSTATED: dict[str, Any] = {"source": "not stated", "license": "not stated", "citation": "not stated"}


@dataclass(frozen=True, eq=False)
class NodeClassification:
    """A graph whose nodes have features and a class.

    Attributes
    ----------
    name : str
    graph : Graph
        Simple, undirected, every edge of weight one.
    features : (N, F) float32 array, sparse or dense
        As published, not normalized.
    labels : (N,) int64 array
        Class of each node, -1 where the source has none.
    n_classes : int
    splits : tuple of (train, val, test)
        Node indices of the published splits; empty where there is none (see :meth:`random_split`).
    perturbed : mapping of str to Graph
        Attacked versions of the graph, where the source has them: ``"gadc-25"``, ``"pro-gnn-25"``, ...
    source, license, citation : str
    """

    name: str
    graph: Graph
    features: sp.csr_array | np.ndarray
    labels: np.ndarray
    n_classes: int
    splits: tuple[Split, ...]
    source: str
    license: str
    citation: str
    perturbed: Mapping[str, Graph] = field(default_factory=dict)

    @property
    def n_nodes(self) -> int:
        """Number of nodes N."""
        return self.graph.n_nodes

    @property
    def n_features(self) -> int:
        """Number of features F."""
        return int(self.features.shape[1])

    def dense_features(self) -> np.ndarray:
        """Features as a new dense (N, F) float32 array."""
        checks.memory(f"the dense features of {self.name}", 4.0 * self.n_nodes * self.n_features, alternative="use .features")
        features = self.features
        return np.array(features if isinstance(features, np.ndarray) else features.toarray(), dtype=np.float32)

    @classmethod
    def from_pyg(cls, data: Any, *, name: str = "PyTorch Geometric data") -> NodeClassification:
        """Take over a ``torch_geometric.data.Data`` with features ``x``, classes ``y`` and ``edge_index`` (or ``adj_t``).

        Nodes are joined where either points at the other; self-loops and ``edge_attr`` are left out. ``train_mask``,
        ``val_mask`` and ``test_mask``, (N,) or (N, S), become one split or S. Source, license and citation are not stated.

        Parameters
        ----------
        data : torch_geometric.data.Data
        name : str

        Raises
        ------
        InputError
            If a field is missing or has another shape, or the graph has weights.

        Examples
        --------
        >>> import numpy as np
        >>> from nareg.datasets.node_classification import NodeClassification, synthetic
        >>> data = synthetic(50, 2, rng=np.random.default_rng(0)).to_pyg()
        >>> NodeClassification.from_pyg(data).n_nodes
        50
        """
        return cls(name=name, **fields_of_pyg(data), **_UNSTATED)

    @classmethod
    def from_ogb(cls, dataset: Any) -> NodeClassification:
        """Take over an ``ogb.nodeproppred.NodePropPredDataset``, as :meth:`from_pyg` does; labels (N, 1), NaN where unknown.

        Parameters
        ----------
        dataset : ogb.nodeproppred.NodePropPredDataset
            Or any object with ``dataset[0]``, a graph dictionary and labels, and ``get_idx_split()``.

        Raises
        ------
        InputError
            If a field is missing or has another shape.
        """
        return cls(**fields_of_ogb(dataset), **_UNSTATED)

    def to_pyg(self) -> torch_geometric.data.Data:
        """Copy to a ``torch_geometric.data.Data`` with ``x`` (dense), ``edge_index``, ``y`` and the splits as masks.

        Masks are (N,) for one split and (N, S) for S of them, as PyTorch Geometric has them.
        """
        return to_data(self.dense_features(), self.graph, self.labels, self.splits)

    def random_split(self, fractions: tuple[float, float, float] = (0.6, 0.2, 0.2), *, rng: np.random.Generator) -> Split:
        """Split the labeled nodes at random into training, validation and test, class by class.

        Parameters
        ----------
        fractions : (train, val, test)
            Positive, with a sum of at most one. Training and validation are rounded down in each class (a class of one node is
            only tested). If the sum is one, all other nodes are tested.
        rng : numpy.random.Generator

        Examples
        --------
        >>> import nareg, numpy as np
        >>> data = nareg.datasets.node_classification.synthetic(200, 4, rng=np.random.default_rng(0))
        >>> [part.size for part in data.random_split(rng=np.random.default_rng(1))]
        [120, 40, 40]
        """
        shares = checks.floats("fractions", fractions, ndim=(1,)).astype(float)
        if shares.shape != (3,) or (shares <= 0).any() or shares.sum() > 1 + 1e-12:
            raise InputError(f"fractions is {fractions}: three positive shares that add up to at most 1, say (0.6, 0.2, 0.2).")
        generator = checks.generator(rng)
        parts: list[list[np.ndarray]] = [[], [], []]
        for label in range(self.n_classes):
            nodes = generator.permutation(np.flatnonzero(self.labels == label))
            ends = np.floor(np.cumsum(shares) * nodes.size + 1e-9).astype(int)
            for part, piece in zip(parts, np.split(nodes, ends)[:3], strict=True):
                part.append(piece)
        train, val, test = (np.sort(np.concatenate(part)) for part in parts)
        return train, val, test

    def __repr__(self) -> str:
        return (
            f"NodeClassification({self.name!r}, {self.n_nodes} nodes, {self.graph.n_edges} edges, "
            f"{self.n_features} features, {self.n_classes} classes, {len(self.splits)} splits)"
        )


def synthetic(
    n_nodes: int,
    n_classes: int,
    *,
    n_features: int = 64,
    mean_degree: float = 8.0,
    homophily: float = 0.8,
    informative: float = 0.3,
    exponent: float | None = None,
    rng: np.random.Generator,
) -> NodeClassification:
    """A synthetic data set of any size: a stochastic block model with Gaussian class means in the features.

    Parameters
    ----------
    n_nodes, n_classes, n_features : int
        Classes have equal sizes, up to one node.
    mean_degree : float
    homophily : float
        Share of the edges that join nodes of one class.
    informative : float
        Length of a class mean over the expected length of the noise of one node.
    exponent : float, optional
        Degrees by a power law of this exponent, more than 2 (a degree-corrected block model, as :func:`nareg.graphs.power_law`
        without classes), in the place of even ones; repeated edges are dropped, most of them at the nodes of the largest
        degrees.
    rng : numpy.random.Generator

    Returns
    -------
    NodeClassification
        One split: 20 nodes per class train (fewer where it is small), half of the rest validate, the others test.

    Examples
    --------
    >>> import nareg, numpy as np
    >>> nareg.datasets.node_classification.synthetic(100, 3, rng=np.random.default_rng(0)).labels[:4]
    array([0, 1, 2, 0])
    """
    n_nodes = checks.integer("n_nodes", n_nodes, low=4)
    n_classes = checks.integer("n_classes", n_classes, low=2)
    n_features = checks.integer("n_features", n_features, low=1)
    degree = checks.number("mean_degree", mean_degree, low=0, strict=True)
    homophily = checks.number("homophily", homophily, low=0, high=1)
    informative = checks.number("informative", informative)
    generator = checks.generator(rng)
    if n_nodes < 2 * n_classes:
        raise InputError(f"n_nodes is {n_nodes} for {n_classes} classes: at least two nodes per class are needed.")
    labels = np.arange(n_nodes) % n_classes
    wanted = max(int(degree * n_nodes / 2), 1)
    if exponent is not None:
        exponent = checks.number("exponent", exponent, low=2, strict=True)
        drawn = _WeightedNodes(generator.permutation(np.arange(1.0, n_nodes + 1)) ** (-1 / (exponent - 1)), labels)
        tails = drawn.any(wanted, generator)
    else:
        tails = generator.integers(n_nodes, size=wanted)
    same = generator.random(wanted) < homophily
    # a node of the same class, or of another one, drawn evenly
    step = np.where(same, 0, generator.integers(1, n_classes, size=wanted))
    target = (labels[tails] + step) % n_classes
    sizes = np.bincount(labels, minlength=n_classes)
    heads = target + n_classes * generator.integers(sizes[target]) if exponent is None else drawn.of(target, generator)
    apart = tails != heads
    means = generator.standard_normal((n_classes, n_features))
    features = informative * means[labels] + generator.standard_normal((n_nodes, n_features))
    each = min(20, max(int(sizes.min()) // 2, 1))
    train = np.arange(each * n_classes)
    rest = generator.permutation(np.arange(each * n_classes, n_nodes))
    return NodeClassification(
        name="synthetic",
        graph=Graph(undirected(np.stack([tails[apart], heads[apart]]), n_nodes)),
        features=features.astype(np.float32),
        labels=labels.astype(np.int64),
        n_classes=n_classes,
        splits=((train, np.sort(rest[: rest.size // 2]), np.sort(rest[rest.size // 2 :])),),
        source="made up (stochastic block model)",
        license="none needed",
        citation="none",
    )


class _WeightedNodes:
    """Nodes drawn in proportion to weights, of any class or of a given one."""

    def __init__(self, weights: np.ndarray, labels: np.ndarray) -> None:
        self._order = np.argsort(labels, kind="stable")
        self._ends = np.cumsum(weights[self._order])
        last = np.cumsum(np.bincount(labels)) - 1
        self._classes = np.concatenate([[0.0], self._ends[last]])

    def any(self, count: int, rng: np.random.Generator) -> np.ndarray:
        """``count`` nodes."""
        return self._at(rng.random(count) * self._ends[-1])

    def of(self, classes: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        """A node of each of these classes."""
        start, end = self._classes[classes], self._classes[classes + 1]
        return self._at(start + rng.random(classes.size) * (end - start))

    def _at(self, values: np.ndarray) -> np.ndarray:
        return self._order[np.minimum(np.searchsorted(self._ends, values, side="right"), self._ends.size - 1)]
