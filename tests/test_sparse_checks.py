"""Damaged sparse matrices and edge lists are refused wherever they enter: compiled loops would crash on them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

import nareg
from nareg._core.sparse_checks import whole_sparse
from nareg.errors import InputError, TooLargeError

FAR = 10**8
GRID = nareg.graphs.grid((5, 6))
N = GRID.n_nodes


def changed(kind: str, change: Callable[[Any], None], matrix: Any = None) -> Any:
    """A copy of a whole matrix in this format, damaged."""
    source = GRID.laplacian() if matrix is None else matrix
    value = sp.csr_array(source).copy().asformat(kind)
    if kind == "dia":
        value = sp.dia_array((value.data.copy(), value.offsets.copy()), shape=value.shape)
    change(value)
    return value


def put(array: str, place: Any, number: int) -> Callable[[Any], None]:
    def change(value: Any) -> None:
        getattr(value, array)[place] = number

    return change


def coordinate(axis: int, number: int) -> Callable[[Any], None]:
    def change(value: Any) -> None:
        value.coords[axis][3] = number

    return change


def shortened(array: str) -> Callable[[Any], None]:
    def change(value: Any) -> None:
        setattr(value, array, getattr(value, array)[:-2])

    return change


def lists(row: Any, entries: Any) -> Callable[[Any], None]:
    def change(value: Any) -> None:
        value.rows[5], value.data[5] = row, entries

    return change


DAMAGED = {
    "csr, far index": lambda: changed("csr", put("indices", slice(9, None), FAR)),
    "csr, negative index": lambda: changed("csr", put("indices", 7, -FAR)),
    "csr, far start": lambda: changed("csr", put("indptr", 11, 2**30)),
    "csr, falling start": lambda: changed("csr", put("indptr", 11, 0)),
    "csr, negative first start": lambda: changed("csr", put("indptr", 0, -5)),
    "csr, last start": lambda: changed("csr", put("indptr", -1, 2**30)),
    "csr, few entries": lambda: changed("csr", shortened("data")),
    "csr, few indices": lambda: changed("csr", shortened("indices")),
    "csr, few starts": lambda: changed("csr", shortened("indptr")),
    "csc, far index": lambda: changed("csc", put("indices", 7, FAR)),
    "csc, far start": lambda: changed("csc", put("indptr", 4, 2**30)),
    "bsr, far index": lambda: changed("bsr", put("indices", 2, FAR)),
    "bsr, far start": lambda: changed("bsr", put("indptr", 2, 2**30)),
    "coo, far row": lambda: changed("coo", coordinate(0, FAR)),
    "coo, negative column": lambda: changed("coo", coordinate(1, -2)),
    "coo, few entries": lambda: changed("coo", shortened("data")),
    "dia, far offset": lambda: changed("dia", put("offsets", 0, 10**9)),
    "dia, one offset twice": lambda: changed("dia", put("offsets", 0, 0)),
    "dia, few offsets": lambda: changed("dia", shortened("offsets")),
    "lil, far column": lambda: changed("lil", lists([FAR], [1.0])),
    "lil, negative column": lambda: changed("lil", lists([-FAR], [1.0])),
    "lil, few entries": lambda: changed("lil", lists([1, 2, 3], [1.0])),
    "lil, no list": lambda: changed("lil", lists(None, [1.0])),
    "lil, few rows": lambda: changed("lil", shortened("rows")),
    "dok, far key": lambda: changed("dok", lambda value: value._dict.update({(FAR, 0): 1.0})),
}

Y = np.random.default_rng(0).standard_normal((N, 3))

ENTRIES: dict[str, Callable[[Any], Any]] = {
    "weights": lambda S: nareg.filters.denoise(GRID, S, np.ones(N)),
    "operator": lambda S: nareg.filters.denoise(S, 1.0, np.ones(N)),
    "adjacency": nareg.Graph,
    "design": lambda S: nareg.design.node_invariant(S, rule="oracle", signals=Y, noise=0.1),
    "uncertainty": lambda S: nareg.filters.uncertainty(GRID, S, noise=0.1),
    "prepare": lambda S: nareg.filters.prepare(GRID, S),
    "risk": lambda S: nareg.design.risk(GRID, S, signals=Y, noise=0.1),
}


@pytest.mark.parametrize("entry", ENTRIES)
@pytest.mark.parametrize("damage", DAMAGED)
def test_a_damaged_matrix_is_refused(damage, entry):
    with pytest.raises(InputError, match=r"is a damaged sparse matrix .*: build it again from its entries"):
        ENTRIES[entry](DAMAGED[damage]())


@pytest.mark.parametrize("damage", DAMAGED)
def test_damaged_graphs_features_and_targets_of_networks_are_refused(damage):
    pytest.importorskip("torch")
    from nareg import gnn, herta
    from nareg.unlearning import CertifiedGPR

    bad, labels = DAMAGED[damage](), np.arange(N) % 2
    for call in (
        lambda: gnn.Adjacency(bad),
        lambda: gnn.propagate(bad, Y, weights=[1.0, 0.5]),
        lambda: herta.fit(GRID, bad, labels, lam=1.0, train=np.arange(20)),
        lambda: herta.fit(GRID, Y, bad, lam=1.0, train=np.arange(20)),
        lambda: herta.fit(bad, Y, labels, lam=1.0, train=np.arange(20)),
        lambda: CertifiedGPR(lam=0.01, alpha=1.0).fit(GRID, bad, labels, np.arange(20)),
    ):
        with pytest.raises(InputError, match="damaged sparse matrix"):
            call()


@pytest.mark.parametrize("kind", ["csr", "csc", "bsr", "coo", "dia", "lil", "dok"])
@pytest.mark.parametrize("shape", [(1, 1), (4, 7), (6, 3), (3, 0)])
def test_whole_matrices_of_every_format_pass(kind, shape, rng):
    dense = np.where(rng.random(shape) < 0.5, rng.standard_normal(shape), 0.0)
    for make in (sp.csr_array, sp.csr_matrix):
        whole_sparse("it", make(dense).asformat(kind))
        whole_sparse("it", make(shape).asformat(kind))


def test_damaged_sparse_tensors_are_refused():
    torch = pytest.importorskip("torch")
    ones = torch.ones(2)
    near, far = torch.tensor([0, 1]), torch.tensor([0, 10**7])
    starts, wild = torch.tensor([0, 1, 2]), torch.tensor([0, 2**40, 2])
    tensors = [
        torch.sparse_csr_tensor(starts, far, ones, size=(2, 2), check_invariants=False),
        torch.sparse_csr_tensor(starts, -far, ones, size=(2, 2), check_invariants=False),
        torch.sparse_csr_tensor(wild, near, ones, size=(2, 2), check_invariants=False),
        torch.sparse_csc_tensor(starts, far, ones, size=(2, 2), check_invariants=False),
        torch.sparse_coo_tensor(torch.stack([near, far]), ones, size=(2, 2), check_invariants=False),
        torch.sparse_coo_tensor(torch.stack([-far, near]), ones, size=(2, 2), check_invariants=False),
    ]
    for tensor in tensors:
        for call in (
            lambda: nareg.gnn.Adjacency(tensor),  # noqa: B023
            lambda: nareg.filters.denoise(nareg.graphs.grid((2,)), tensor, np.ones(2)),  # noqa: B023
            lambda: nareg.herta.fit(nareg.graphs.grid((2,)), tensor, [0, 1], lam=1.0, train=[0, 1]),  # noqa: B023
        ):
            with pytest.raises(InputError, match="damaged sparse matrix"):
                call()


def test_node_numbers_that_are_negative_or_too_large_are_named():
    torch = pytest.importorskip("torch")
    for read in (nareg.Graph.from_edge_index, nareg.gnn.Adjacency):
        with pytest.raises(InputError, match="edge_index holds node -3"):
            read(np.array([[0, -3], [-3, 0]]))
        with pytest.raises(TooLargeError, match=r"node of number 1099511627776 .*numpy.unique"):
            read(np.array([[0, 2**40], [2**40, 0]]))
        with pytest.raises(InputError, match="edge_index holds node 5"):
            read(np.array([[0, 5], [5, 0]]), n_nodes=5)
        with pytest.raises(InputError, match=r"edge_index holds node|TooLarge|number"):
            read(np.array([[0, 2**64 - 1], [2**64 - 1, 0]], dtype=np.uint64))
    with pytest.raises(InputError, match="edge_index holds node 5000000"):
        nareg.gnn.NGC(3, 2)(torch.ones(9, 3), torch.tensor([[0, 5_000_000], [5_000_000, 0]]))
