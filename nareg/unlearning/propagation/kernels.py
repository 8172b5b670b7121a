"""Compiled loops of lazy propagation, on rows of live neighbors.

Row u of the graph is ``neighbors[start[u] : start[u] + live[u]]``; every node is its own neighbor besides, and its degree
counts that. Rows of features are contiguous; where several threads add to them each has columns of its own.
"""

from __future__ import annotations

import functools
from typing import Any

import numba
import numpy as np

from nareg._core.compiled import parallel, serial

#: Rows that a source adds to, about.
SPREAD = 10


@serial
def find(start: Any, live: Any, neighbors: Any, u: Any, v: Any) -> Any:
    """Where in ``neighbors`` v stands in the row of u; -1 if it does not."""
    for p in range(start[u], start[u] + live[u]):
        if neighbors[p] == v:
            return p
    return -1


@serial
def present(start: Any, live: Any, neighbors: Any, edges: Any, out: Any) -> None:
    """Whether edges are there; the shorter of two rows is searched."""
    for e in range(edges.shape[0]):
        u, v = edges[e, 0], edges[e, 1]
        if live[u] > live[v]:
            u, v = v, u
        out[e] = find(start, live, neighbors, u, v) >= 0


@serial
def unlink(start: Any, live: Any, neighbors: Any, edges: Any) -> None:
    """Take edges that are there out of the rows of both ends."""
    for e in range(edges.shape[0]):
        for side in range(2):
            u, v = edges[e, side], edges[e, 1 - side]
            p = find(start, live, neighbors, u, v)
            live[u] -= 1
            neighbors[p] = neighbors[start[u] + live[u]]
            neighbors[start[u] + live[u]] = -1


@serial
def link(start: Any, live: Any, neighbors: Any, edges: Any) -> None:
    """Put edges that are not there into the rows of both ends, which have room."""
    for e in range(edges.shape[0]):
        for side in range(2):
            u, v = edges[e, side], edges[e, 1 - side]
            neighbors[start[u] + live[u]] = v
            live[u] += 1


@serial
def work(live: Any, sources: Any) -> Any:
    """Rows that a scatter from these nodes adds to."""
    total = 0
    for s in sources:
        total += live[s] + 1
    return total


@functools.partial(parallel, size=lambda start, live, neighbors, sources, Y, slot, out, block: SPREAD * Y.size)
def scatter(start: Any, live: Any, neighbors: Any, sources: Any, Y: Any, slot: Any, out: Any, block: Any) -> None:
    """Add row i of Y to the rows ``slot`` of ``sources[i]`` and its neighbors; so many columns to a thread."""
    width = Y.shape[1]
    for part in numba.prange((width + block - 1) // block):
        low, high = part * block, min((part + 1) * block, width)
        for i in range(sources.size):
            s = sources[i]
            row = slot[s]
            for f in range(low, high):
                out[row, f] += Y[i, f]
            for p in range(start[s], start[s] + live[s]):
                row = slot[neighbors[p]]
                for f in range(low, high):
                    out[row, f] += Y[i, f]


@functools.partial(parallel, size=lambda start, live, neighbors, targets, source, Y, place, out: targets.size * Y.shape[1])
def collect(start: Any, live: Any, neighbors: Any, targets: Any, source: Any, Y: Any, place: Any, out: Any) -> None:
    """As :func:`scatter`, per target: add to its row ``place`` the rows ``source`` of its neighbors, and its own."""
    width = Y.shape[1]
    for i in numba.prange(targets.size):
        t = targets[i]
        row, k = place[t], source[t]
        if k >= 0:
            for f in range(width):
                out[row, f] += Y[k, f]
        for p in range(start[t], start[t] + live[t]):
            k = source[neighbors[p]]
            if k >= 0:
                for f in range(width):
                    out[row, f] += Y[k, f]


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


@serial
def add_signed(places: Any, rows: Any, signs: Any, out: Any) -> None:
    """``out[places] += signs rows``, one after another: places may repeat."""
    for i in range(places.size):
        for f in range(out.shape[1]):
            out[places[i], f] += signs[i] * rows[i, f]


@parallel
def gather(start: Any, live: Any, neighbors: Any, Q: Any, scale: Any, place: Any, weight: Any, out: Any) -> None:
    """``out[place] += weight A diag(scale) Q`` with the loop at every node."""
    width = Q.shape[1]
    for u in numba.prange(place.size):
        row = place[u]
        for f in range(width):
            out[row, f] += weight * scale[u] * Q[u, f]
        for p in range(start[u], start[u] + live[u]):
            k = neighbors[p]
            share = weight * scale[k]
            for f in range(width):
                out[row, f] += share * Q[k, f]


@serial
def reach(start: Any, live: Any, neighbors: Any, ends: Any, slot: Any, touched: Any, counts: Any) -> None:
    """Nodes within 0, 1, 2, ... hops of the ends, nearest first, with places; ``counts`` has how many each."""
    count = 0
    for node in ends:
        slot[node] = count
        touched[count] = node
        count += 1
    counts[0] = count
    first = 0
    for hop in range(1, counts.size):
        last = count
        for i in range(first, last):
            s = touched[i]
            for p in range(start[s], start[s] + live[s]):
                k = neighbors[p]
                if slot[k] < 0:
                    slot[k] = count
                    touched[count] = k
                    count += 1
        first = last
        counts[hop] = count


@serial
def left_factors(start: Any, live: Any, neighbors: Any, weights: Any, ends: Any, slot: Any, touched: Any, counts: Any) -> Any:
    """Left factors of the removal of the edge between two nodes, a row for each of those that :func:`reach` finds.

    Columns are those of the two ends' ``q_0, ..., q_(L-1), S``, end by end. The edge is taken out, and put in again, and no
    node has a place when this returns: no signal is handled in between.
    """
    order = weights.size - 1
    reach(start, live, neighbors, ends, slot, touched, counts)
    size = counts[-1]
    left, scale = np.zeros((size, 2 * (order + 1))), np.empty(size)
    hold, new, edge = np.zeros(size), np.zeros(size), ends.copy().reshape(1, 2)
    unlink(start, live, neighbors, edge)
    for i in range(size):
        scale[i] = 1 / np.sqrt(live[touched[i]] + 1.0)
    for end in range(2):
        a = touched[end]
        d = live[a] + 1.0
        d_old = d + 1
        ratio = np.sqrt(d / d_old) - 1
        for j in range(order):
            column = end * (order + 1) + j
            hold[:] = 0
            for level in range(order, j, -1):
                new[:] = 0
                if level < order:  # A' D'^-1 of what is further out
                    for i in range(counts[order - level]):
                        share = hold[i] / (live[touched[i]] + 1.0)
                        if share != 0:
                            new[i] += share
                            s = touched[i]
                            for p in range(start[s], start[s] + live[s]):
                                new[slot[neighbors[p]]] += share
                # (A' D'^-1 - A D^-1) e_a, and for features what the root of the degree does
                along = 1 / d - 1 / d_old + (ratio / d if j == 0 else 0.0)
                new[end] += weights[level] * along
                new[1 - end] -= weights[level] / d_old
                for p in range(start[a], start[a] + live[a]):
                    new[slot[neighbors[p]]] += weights[level] * along
                hold, new = new, hold
            if j == 0:
                hold[end] += weights[0] * ratio
            for i in range(size):
                left[i, column] = hold[i] * scale[i]
        if order:  # without hops no edge matters
            left[end, end * (order + 1) + order] = 1 / np.sqrt(d) - 1 / np.sqrt(d_old)
    for i in range(size):
        slot[touched[i]] = -1
    link(start, live, neighbors, edge)
    return left
