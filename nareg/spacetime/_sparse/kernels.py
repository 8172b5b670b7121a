"""Compiled loops of the large model. Imported when first needed."""

from __future__ import annotations

import numpy as np
from numba import prange

from nareg._core.compiled import parallel, serial


@parallel
def pair_sums(i, j, E):  # type: ignore[no-untyped-def]
    """``sum_t E[i, t] E[j, t]`` for every pair of rows."""
    out = np.empty(i.size)
    for e in prange(i.size):
        total = 0.0
        for t in range(E.shape[1]):
            total += E[i[e], t] * E[j[e], t]
        out[e] = total
    return out


@parallel
def solve_in_time(diagonal, beside, R):  # type: ignore[no-untyped-def]
    """Tridiagonal systems along the last axis of R (N, S, T): their ``diagonal`` (N, T), and the number ``beside`` it (N,)."""
    n, S, T = R.shape
    X = np.empty_like(R)
    for i in prange(n):
        slopes, inverses = np.empty(T), np.empty(T)
        slopes[0], inverses[0] = 0.0, 1 / diagonal[i, 0]
        for t in range(1, T):
            slopes[t] = beside[i] * inverses[t - 1]
            inverses[t] = 1 / (diagonal[i, t] - slopes[t] * beside[i])
        for s in range(S):
            X[i, s, 0] = R[i, s, 0]
            for t in range(1, T):
                X[i, s, t] = R[i, s, t] - slopes[t] * X[i, s, t - 1]
            X[i, s, T - 1] *= inverses[T - 1]
            for t in range(T - 2, -1, -1):
                X[i, s, t] = X[i, s, t] * inverses[t] - slopes[t + 1] * X[i, s, t + 1]
    return X


@serial
def correct(indptr, indices, starts, parents, P, weights, right):  # type: ignore[no-untyped-def]
    """Condition a Gaussian on readings; covariances on the pattern of L (CSC, sorted, diagonal first), which is chordal.

    The Gaussian is the one of largest entropy with the covariances ``P`` on the pattern: what a block of columns (``starts``)
    has below it screens it from all later ones. Its precision J then has this pattern, too. Blocks are taken as in a
    multifrontal factorization of ``J + diag(weights)``, whose pieces of J are made when they are needed.

    Returns the covariances after the readings, ``(J + diag(weights))^-1 right``, and the log-determinants of both precisions.
    """
    blocks = starts.size - 1
    updates = [np.zeros((0, 0)) for _ in range(blocks)]  # what a block's elimination leaves to its parent
    inverses = [np.zeros((0, 0)) for _ in range(blocks)]
    slopes = [np.zeros((0, 0)) for _ in range(blocks)]
    children = [np.zeros(0, np.int64) for _ in range(blocks)]
    counts = np.zeros(blocks, np.int64)
    for k in range(blocks):
        if parents[k] >= 0:
            counts[parents[k]] += 1
    for k in range(blocks):
        children[k] = np.empty(counts[k], np.int64)
        counts[k] = 0
    for k in range(blocks):
        p = parents[k]
        if p >= 0:
            children[p][counts[p]] = k
            counts[p] += 1
    x = right.copy()
    before, after = 0.0, 0.0
    for k in range(blocks):
        first, w = starts[k], starts[k + 1] - starts[k]
        a = indptr[first]
        m = indptr[first + 1] - a
        below = m - w
        # covariances, those below first
        K = np.empty((m, m))
        for c in range(below):
            place = indptr[indices[a + w + c]]
            for r in range(c, below):
                while indices[place] != indices[a + w + r]:
                    place += 1
                K[c, r] = K[r, c] = P[place]
        for c in range(w):
            place = indptr[first + c]
            for r in range(c, w):
                K[below + r, below + c] = K[below + c, below + r] = P[place + r - c]
            for r in range(below):
                K[below + c, r] = K[r, below + c] = P[place + w - c + r]
        M = np.linalg.cholesky(K)
        W = M[below:, :below].copy()
        for c in range(w):  # regression of the block on what is below
            row = W[c]
            for i in range(below - 1, -1, -1):
                value = row[i] / M[i, i]
                row[i] = value
                for h in range(i):
                    row[h] -= value * M[i, h]
            before -= 2 * np.log(M[below + c, below + c])
        own = np.ascontiguousarray(M[below:, below:])
        D = np.linalg.inv(np.dot(own, own.T))
        WD = np.dot(W.T, D)
        # the block's piece of J, the block first
        F = np.empty((m, m))
        F[:w, :w] = D
        F[w:, :w] = -WD
        F[w:, w:] = np.dot(WD, W)
        for c in range(w):
            F[c, c] += weights[first + c]
        for child in children[k]:
            U = updates[child]
            size = U.shape[0]
            start = indptr[starts[child] + 1] - size
            place = 0
            where = np.empty(size, np.int64)
            for r in range(size):
                while indices[a + place] != indices[start + r]:
                    place += 1
                where[r] = place
            for r in range(size):
                for c in range(r + 1):
                    F[where[r], where[c]] += U[r, c]
            updates[child] = np.zeros((0, 0))
        A = F[:w, :w].copy()
        for r in range(w):
            for c in range(r):
                A[c, r] = A[r, c]
        root = np.linalg.cholesky(A)
        for c in range(w):
            after += 2 * np.log(root[c, c])
        inverse = np.ascontiguousarray(np.linalg.inv(A))
        low = F[w:, :w].copy()
        B = np.dot(low, inverse)
        updates[k] = F[w:, w:] - np.dot(B, low.T)
        inverses[k], slopes[k] = inverse, B
        for r in range(below):
            total = 0.0
            for c in range(w):
                total += B[r, c] * x[first + c]
            x[indices[a + w + r]] -= total
    Z = np.empty_like(P)
    for k in range(blocks - 1, -1, -1):
        first, w = starts[k], starts[k + 1] - starts[k]
        a = indptr[first]
        below = indptr[first + 1] - a - w
        inverse, B = inverses[k], slopes[k]
        V = np.empty((below, below))
        for c in range(below):
            place = indptr[indices[a + w + c]]
            for r in range(c, below):
                while indices[place] != indices[a + w + r]:
                    place += 1
                V[c, r] = V[r, c] = Z[place]
        VB = np.dot(V, B)
        top = inverse + np.dot(B.T, VB)
        for c in range(w):
            place = indptr[first + c]
            for r in range(c, w):
                Z[place + r - c] = top[r, c]
            for r in range(below):
                Z[place + w - c + r] = -VB[r, c]
        mean = np.dot(inverse, x[first : first + w].copy())
        for c in range(w):
            for r in range(below):
                mean[c] -= B[r, c] * x[indices[a + w + r]]
        x[first : first + w] = mean
    return Z, x, before, after
