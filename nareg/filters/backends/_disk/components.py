"""Connected parts of a graph on disk: does each have a node with data?"""

from __future__ import annotations

import numpy as np

from nareg._core.compiled import serial
from nareg.errors import SingularSystemError
from nareg.filters.backends._disk.streaming import EdgeStream


def refuse_without_data(edges: EdgeStream, coupled: np.ndarray, observed: np.ndarray) -> None:
    """Refuse a connected part (over edges between coupled nodes) that has no observed node.

    K is singular there, or (where weights of zero cut the part off) would pull its values to zero.

    One pass over the edges, and one number per node.
    """
    parent = np.arange(coupled.size)
    for part in edges.rows():
        _join(part.indptr, part.indices, part.first, coupled, parent)
    node = int(_without_data(parent, observed))
    if node >= 0:
        raise SingularSystemError(
            f"fit is zero on the whole connected part of the graph that holds node {node}: observe one of its nodes, connect "
            "it with non-zero weights, or drop it."
        )


@serial
def _root(parent, i):  # type: ignore[no-untyped-def]
    """The first node of i's part; paths to it are halved."""
    while parent[i] != i:
        parent[i] = parent[parent[i]]
        i = parent[i]
    return i


@serial
def _join(indptr, indices, first, coupled, parent):  # type: ignore[no-untyped-def]
    for i in range(indptr.size - 1):
        if not coupled[first + i]:
            continue
        for e in range(indptr[i], indptr[i + 1]):
            j = indices[e]
            if j < first + i and coupled[j]:
                a, b = _root(parent, first + i), _root(parent, j)
                parent[max(a, b)] = min(a, b)


@serial
def _without_data(parent, observed):  # type: ignore[no-untyped-def]
    """A node of a part in which none is observed, or -1."""
    anchored = np.zeros(parent.size, np.bool_)
    for i in range(parent.size):
        if observed[i]:
            anchored[_root(parent, i)] = True
    for i in range(parent.size):
        if not anchored[_root(parent, i)]:
            return i
    return -1
