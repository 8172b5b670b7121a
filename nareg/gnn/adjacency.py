"""The normalized adjacency matrix that every graph convolution here multiplies by, prepared once.

    sym   A~ = D~^-1/2 (A + I) D~^-1/2          rw   A~ = D~^-1 (A + I)          D~ = diag((A + I) 1)

Both have their eigenvalues in (-1, 1]. A node that already has a self-loop keeps its weight, the others get one (as PyTorch
Geometric does); an isolated node is its own neighbor, so that every filter leaves it as it is.
"""

from __future__ import annotations

import itertools
import weakref
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import numpy as np
import scipy.sparse as sp

from nareg._core import checks
from nareg.errors import InputError
from nareg.gnn._reading import read, unwrapped
from nareg.graph import Graph
from nareg.typing import ArrayLike, Features, Sparse

if TYPE_CHECKING:
    import torch

#: Symmetric, or of a random walk.
Normalization: TypeAlias = Literal["sym", "rw"]
NORMALIZATIONS: tuple[Normalization, ...] = ("sym", "rw")

#: A graph in any form: what :class:`Adjacency` takes, or one prepared already.
GraphInput: TypeAlias = "Adjacency | Graph | Sparse | np.ndarray | torch.Tensor"


#: Adjacencies by their numbers, through which compiled code finds them.
BY_NUMBER: weakref.WeakValueDictionary[int, Adjacency] = weakref.WeakValueDictionary()
_numbers = itertools.count()


class Adjacency:
    """A graph prepared for propagation: checked, normalized, and stored in every format and dtype that was asked for.

    Parameters
    ----------
    graph : Graph, (N, N) SciPy sparse array, (N, N) torch sparse tensor, ``edge_index``, or a data object
        ``edge_index`` is PyTorch Geometric's (2, E) integer tensor or array, every undirected edge listed both ways. Of a
        ``Data``, or the one relation of a ``HeteroData``, ``edge_index`` (or ``adj_t``) and ``edge_weight`` are read.
    edge_weight : (E,) array or tensor, optional
        Weights of ``edge_index``; default ones.
    n_nodes : int, optional
        Default for ``edge_index``: the largest index plus one.
    normalization : {"sym", "rw"}
        ``D~^-1/2 (A + I) D~^-1/2`` or ``D~^-1 (A + I)``.
    symmetrize : bool
        True joins i and j where either points at the other, with the larger of the two weights. False refuses a directed
        graph.

    Attributes
    ----------
    raw : (N, N) CSR array
        A, with the self-loops that the input had.
    matrix : (N, N) CSR array
        A~, float64.
    degrees : (N,) array
        Diagonal of D~.

    Raises
    ------
    InputError
        If the graph is directed, not square or without nodes, or a weight is negative or not finite.

    Examples
    --------
    >>> import nareg
    >>> A = nareg.gnn.Adjacency(nareg.graphs.grid((3,)))
    >>> A.matrix.toarray().round(3)
    array([[0.5  , 0.408, 0.   ],
           [0.408, 0.333, 0.408],
           [0.   , 0.408, 0.5  ]])
    """

    def __init__(
        self,
        graph: Graph | Sparse | Features,
        *,
        edge_weight: ArrayLike | torch.Tensor | None = None,
        n_nodes: int | None = None,
        normalization: Normalization = "sym",
        symmetrize: bool = False,
    ) -> None:
        checks.choice("normalization", normalization, NORMALIZATIONS)
        self.normalization = normalization
        raw = read(*unwrapped(graph, edge_weight), None if n_nodes is None else checks.integer("n_nodes", n_nodes, low=1))
        if raw.shape[0] == 0:
            raise InputError("graph has no nodes: pass at least one.")
        mirrored = sp.csr_array(raw.T)
        larger = sp.csr_array(raw.maximum(mirrored))
        gap = (abs(raw - mirrored) - 1e-6 * larger).tocoo()
        if gap.nnz and gap.data.max() > 0:
            if not symmetrize:
                raise directed(*(int(index[gap.data.argmax()]) for index in gap.coords))
            raw = larger
        self.raw = raw
        loops = raw.diagonal()
        with_loops = sp.csr_array(raw + sp.diags_array(np.where(loops > 0, 0.0, 1.0)))
        self.degrees = np.asarray(with_loops.sum(axis=1)).ravel()
        self.matrix = self._normalized(with_loops)
        self.matrix.sort_indices()
        self._formats: dict[Any, Any] = {}
        self.number = next(_numbers)
        BY_NUMBER[self.number] = self

    def _normalized(self, matrix: sp.csr_array) -> sp.csr_array:
        if self.normalization == "rw":
            return sp.csr_array(sp.diags_array(1 / self.degrees) @ matrix)
        half = sp.diags_array(1 / np.sqrt(self.degrees))
        return sp.csr_array(half @ matrix @ half)

    @property
    def is_learned(self) -> bool:
        """Whether its weights are a tensor that requires a gradient."""
        return False

    @property
    def n_nodes(self) -> int:
        """Number of nodes N."""
        return int(self.matrix.shape[0])

    @property
    def is_symmetric(self) -> bool:
        """Whether A~ is a symmetric matrix."""
        return self.normalization == "sym"

    @cached_property
    def symmetric(self) -> Adjacency:
        """The same graph with ``normalization="sym"``."""
        return self if self.is_symmetric else Adjacency(self.raw)

    @cached_property
    def laplacian(self) -> sp.csr_array:
        """Combinatorial Laplacian ``D - A`` of the graph, whose self-loops cancel."""
        loopless = sp.csr_array(self.raw - sp.diags_array(self.raw.diagonal()))
        return sp.csr_array(sp.diags_array(np.asarray(loopless.sum(axis=1)).ravel()) - loopless)

    @cached_property
    def augmented_laplacian(self) -> sp.csr_array:
        """Laplacian with self-loops ``I - D~^-1/2 (A + I) D~^-1/2``, (N, N) CSR, symmetric whatever the normalization."""
        return sp.csr_array(sp.eye_array(self.n_nodes) - self.symmetric.matrix)

    @cached_property
    def derived(self) -> dict[Any, Any]:
        """What a filter derives from this graph, by a key of its own."""
        return {}

    def csr(self, dtype: Any, *, transposed: bool = False) -> sp.csr_array:
        """A~ (or its transpose) in this NumPy dtype."""
        transposed = transposed and not self.is_symmetric
        key = (np.dtype(dtype), transposed)
        if key not in self._formats:
            matrix = self.matrix.astype(dtype)
            self._formats[key] = sp.csr_array(matrix.T) if transposed else matrix
        return self._formats[key]

    def tensor(self, dtype: torch.dtype, device: torch.device, *, transposed: bool = False) -> torch.Tensor:
        """A~ (or its transpose) as a torch CSR tensor."""
        transposed = transposed and not self.is_symmetric
        key = (dtype, device, transposed)
        if key not in self._formats:
            self._formats[key] = csr_tensor(self.matrix.T if transposed else self.matrix, dtype, device)
        return self._formats[key]

    @cached_property
    def places(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Row and column of every entry of A~ in its order, and the place of the entry across the diagonal."""
        matrix = self.csr(np.float64)
        rows = np.repeat(np.arange(self.n_nodes), np.diff(matrix.indptr))
        numbered = sp.csr_array((np.arange(matrix.nnz), matrix.indices, matrix.indptr), shape=matrix.shape)
        return rows, matrix.indices.astype(np.int64), sp.csr_array(numbered.T).data

    def places_on(self, device: torch.device) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """The same on a device."""
        import torch

        key = ("places", device)
        if key not in self._formats:
            self._formats[key] = tuple(torch.as_tensor(part, dtype=torch.int64, device=device) for part in self.places)
        return self._formats[key]

    def edge_index(self, dtype: torch.dtype, device: torch.device) -> tuple[torch.Tensor, torch.Tensor]:
        """PyTorch Geometric's form of A, with the self-loops that the input had: (2, E) indices and (E,) weights."""
        import torch

        key = ("edge_index", dtype, device)
        if key not in self._formats:
            coo = self.raw.tocoo()
            index = torch.stack([torch.as_tensor(part, dtype=torch.int64, device=device) for part in coo.coords])
            self._formats[key] = (index, torch.as_tensor(coo.data, dtype=dtype, device=device))
        return self._formats[key]

    def __repr__(self) -> str:
        return f"Adjacency({self.n_nodes} nodes, {self.matrix.nnz} entries, {self.normalization!r})"


def directed(i: int, j: int) -> InputError:
    """What is said of a graph whose weights from i to j and back differ."""
    return InputError(
        f"graph is directed: the weight from node {i} to {j} is not that from {j} to {i}; pass symmetrize=True to the layer or "
        "to nareg.gnn.Adjacency, which joins nodes where either points at the other (edges between two types of nodes "
        "cannot work)."
    )


def as_adjacency(
    graph: GraphInput,
    n_nodes: int,
    *,
    edge_weight: ArrayLike | torch.Tensor | None = None,
    normalization: Normalization | None = None,
    symmetrize: bool = False,
) -> Adjacency:
    """A prepared adjacency as it is; anything else prepared."""
    if not isinstance(graph, Adjacency):
        return Adjacency(
            graph, n_nodes=n_nodes, edge_weight=edge_weight, normalization=normalization or "sym", symmetrize=symmetrize
        )
    if graph.n_nodes != n_nodes:
        raise InputError(f"graph has {graph.n_nodes} nodes but x has {n_nodes} rows: one row of features per node is expected.")
    if edge_weight is not None:
        raise InputError("edge_weight goes with edge_index only: the prepared adjacency has its own weights.")
    if normalization not in (None, graph.normalization):
        raise InputError(
            f"normalization is {normalization!r} but the adjacency was prepared with {graph.normalization!r}: prepare one with "
            f"nareg.gnn.Adjacency(graph, normalization={normalization!r})."
        )
    return graph


def csr_tensor(matrix: Any, dtype: torch.dtype, device: torch.device) -> torch.Tensor:
    """A SciPy matrix as a torch CSR tensor with 32-bit indices where they suffice."""
    from nareg._solvers._torch._device import csr

    return csr(sp.csr_array(matrix), device, dtype)


def csr_like(matrix: torch.Tensor, values: torch.Tensor) -> torch.Tensor:
    """A torch CSR tensor with other values in the same places."""
    from nareg._solvers._torch._device import csr_of

    return csr_of(matrix.crow_indices(), matrix.col_indices(), values, (matrix.shape[0], matrix.shape[1]))
