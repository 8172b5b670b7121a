"""Breadth-first search from a node, in compiled loops that visit no more than asked for."""

import numpy as np

from nareg._core.compiled import serial


@serial
def levels(indptr, indices, data, start, enough):  # type: ignore[no-untyped-def]
    """Levels of the search over entries that are not zero, ``enough`` at most; how many nodes they have, and the last one."""
    seen = np.zeros(indptr.size - 1, np.bool_)
    front = np.array([start])
    seen[start] = True
    depth, count = 0, 1
    while depth < enough:
        size = 0
        for i in front:
            size += indptr[i + 1] - indptr[i]
        following = np.empty(size, np.int64)
        size = 0
        for i in front:
            for e in range(indptr[i], indptr[i + 1]):
                j = indices[e]
                if data[e] != 0 and not seen[j]:
                    seen[j] = True
                    following[size] = j
                    size += 1
        if size == 0:
            break
        front = following[:size]
        depth, count = depth + 1, count + size
    return depth, count, front[-1]


@serial
def ball(indptr, indices, start, size):  # type: ignore[no-untyped-def]
    """The first ``size`` nodes of the search; where a component ends it goes on at the next node not yet seen."""
    n = indptr.size - 1
    seen = np.zeros(n, np.bool_)
    nodes = np.empty(min(size, n), np.int64)
    count, done = 0, 0
    following = start
    while count < nodes.size:
        if done == count:
            while seen[following % n]:
                following += 1
            seen[following % n] = True
            nodes[count] = following % n
            count += 1
        i = nodes[done]
        done += 1
        for e in range(indptr[i], indptr[i + 1]):
            j = indices[e]
            if not seen[j] and count < nodes.size:
                seen[j] = True
                nodes[count] = j
                count += 1
    return nodes
