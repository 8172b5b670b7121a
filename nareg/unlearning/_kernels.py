"""Compiled loops of lazy propagation, on rows of live neighbours.

Row u of the graph is ``neighbours[start[u] : start[u] + live[u]]``; every node is its own neighbour besides, and its degree
counts that. Rows of features are contiguous; where several threads add to them each has columns of its own.
"""

from __future__ import annotations

import functools
from typing import Any

import numba

from nareg._compiled import parallel, serial

#: Rows that a source adds to, about.
SPREAD = 10


@serial
def find(start: Any, live: Any, neighbours: Any, u: Any, v: Any) -> Any:
    """Where in ``neighbours`` v stands in the row of u; -1 if it does not."""
    for p in range(start[u], start[u] + live[u]):
        if neighbours[p] == v:
            return p
    return -1


@serial
def present(start: Any, live: Any, neighbours: Any, edges: Any, out: Any) -> None:
    """Whether edges are there; the shorter of two rows is searched."""
    for e in range(edges.shape[0]):
        u, v = edges[e, 0], edges[e, 1]
        if live[u] > live[v]:
            u, v = v, u
        out[e] = find(start, live, neighbours, u, v) >= 0


@serial
def unlink(start: Any, live: Any, neighbours: Any, edges: Any) -> None:
    """Take edges that are there out of the rows of both ends."""
    for e in range(edges.shape[0]):
        for side in range(2):
            u, v = edges[e, side], edges[e, 1 - side]
            p = find(start, live, neighbours, u, v)
            live[u] -= 1
            neighbours[p] = neighbours[start[u] + live[u]]


@serial
def link(start: Any, live: Any, neighbours: Any, edges: Any) -> None:
    """Put edges that are not there into the rows of both ends, which have room."""
    for e in range(edges.shape[0]):
        for side in range(2):
            u, v = edges[e, side], edges[e, 1 - side]
            neighbours[start[u] + live[u]] = v
            live[u] += 1


@serial
def mark(start: Any, live: Any, neighbours: Any, sources: Any, slot: Any, touched: Any) -> Any:
    """Give the sources, and then their neighbours, places in rising order; how many there are."""
    found = 0
    for s in sources:
        slot[s] = found
        touched[found] = s
        found += 1
    for s in sources:
        for p in range(start[s], start[s] + live[s]):
            k = neighbours[p]
            if slot[k] < 0:
                slot[k] = found
                touched[found] = k
                found += 1
    return found


@serial
def work(live: Any, sources: Any) -> Any:
    """Rows that a scatter from these nodes adds to."""
    total = 0
    for s in sources:
        total += live[s] + 1
    return total


@functools.partial(parallel, size=lambda start, live, neighbours, sources, Y, slot, out, block: SPREAD * Y.size)
def scatter(start: Any, live: Any, neighbours: Any, sources: Any, Y: Any, slot: Any, out: Any, block: Any) -> None:
    """Add row i of Y to the rows ``slot`` of ``sources[i]`` and its neighbours; so many columns to a thread."""
    width = Y.shape[1]
    for part in numba.prange((width + block - 1) // block):
        low, high = part * block, min((part + 1) * block, width)
        for i in range(sources.size):
            s = sources[i]
            row = slot[s]
            for f in range(low, high):
                out[row, f] += Y[i, f]
            for p in range(start[s], start[s] + live[s]):
                row = slot[neighbours[p]]
                for f in range(low, high):
                    out[row, f] += Y[i, f]


@functools.partial(parallel, size=lambda nodes, delta, *_: delta.size)
def outflow(nodes: Any, delta: Any, Q: Any, before: Any, after: Any, Y: Any) -> None:
    """Row i of Y: what node i sends more than before, ``(q + delta) / d' - q / d``; and Q with delta added."""
    width = Q.shape[1]
    for i in numba.prange(nodes.size):
        k = nodes[i]
        d, d_new = before[i], after[i]
        for f in range(width):
            new = Q[k, f] + delta[i, f]
            Y[i, f] = new / d_new - Q[k, f] / d
            Q[k, f] = new


@functools.partial(parallel, size=lambda places, rows, *_: rows.size)
def add_rows(places: Any, rows: Any, weight: Any, out: Any) -> None:
    """``out[places] += weight rows``; no place twice."""
    for i in numba.prange(places.size):
        for f in range(out.shape[1]):
            out[places[i], f] += weight * rows[i, f]


@parallel
def gather(start: Any, live: Any, neighbours: Any, Q: Any, scale: Any, place: Any, weight: Any, out: Any) -> None:
    """``out[place] += weight A diag(scale) Q`` with the loop at every node."""
    width = Q.shape[1]
    for u in numba.prange(place.size):
        row = place[u]
        for f in range(width):
            out[row, f] += weight * scale[u] * Q[u, f]
        for p in range(start[u], start[u] + live[u]):
            k = neighbours[p]
            share = weight * scale[k]
            for f in range(width):
                out[row, f] += share * Q[k, f]
