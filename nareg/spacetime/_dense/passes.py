"""Compiled loops of the dense filter and smoother, over the times of a part of the record. Imported when first needed.

The filter takes the readings of a time in blocks: a block's small covariance is factored, the state's is corrected. The
smoother (de Jong 1989) goes back with a vector and a matrix: after time t, what is read later has the gradient ``score`` and
the negative second derivative ``information`` in the state. It inverts nothing and needs what the filter stored.

Arrays are contiguous in float64. Means have rows of columns: the field's first, then those of errors.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from nareg._core.compiled import inner, serial
from nareg.spacetime._dense.filter import LOG_2PI, STEADY

#: Readings that are taken at once.
BLOCK = 8
#: Multiplications from which on a product of matrices is BLAS's.
LARGE = 2**10
#: Columns of a symmetric product that are computed at once, without their part above the diagonal.
PANEL = 48
#: A reading shows the smoothed variance of its station, unless its noise is so many times the variance before.
MUCH_NOISE = 100.0
#: Sums may be taken in any order.
SUMS = ("reassoc", "contract")


class StateSpace(NamedTuple):
    """Readings and the state-space model: N stations, states of pN, T times, C columns."""

    y: np.ndarray  # (T, C, N), NaN where missing
    r: np.ndarray  # (T, N)
    scale: np.ndarray  # (T,)
    A: np.ndarray  # (N, pN)
    turned: np.ndarray  # (pN, N), its transpose
    diagonals: np.ndarray  # (p, N) of diagonal dynamics, else (0, N)
    Q: np.ndarray  # (N, N)


class Means(NamedTuple):
    """What the filter leaves of every time."""

    states: np.ndarray  # (T, C, pN) after the readings
    weighted: np.ndarray  # (T, C, N) innovations, weighted by the inverse of their covariance, block by block
    var: np.ndarray  # (T, N) of the field after the readings
    innovations: np.ndarray  # (T, N)
    spreads: np.ndarray  # (T, N) their variances


class SegmentCovariances(NamedTuple):
    """Covariances of a segment, which times of a steady state share."""

    places: np.ndarray  # (segment,) where a time's are
    covariances: np.ndarray  # (S, pN, pN) after the readings
    gains: np.ndarray  # (S, N, pN) rows per reading
    inverses: np.ndarray  # (S, N, B) of the covariances of blocks
    constants: np.ndarray  # (S,) of the log-likelihood


class SmoothedTimes(NamedTuple):
    """What the smoother leaves of every time, and its sums. What is not asked for has no rows."""

    states: np.ndarray  # (T, C, pN)
    var: np.ndarray  # (T, N)
    scale: np.ndarray  # (T,) updated with Student t steps
    W: np.ndarray  # (M, N)
    point_variances: np.ndarray  # (T, M)
    present: np.ndarray  # (N, N) sum of covariances of the field
    lagged: np.ndarray  # (N, N) of these as those of the field two steps before
    past: np.ndarray  # (pN, N) of covariances of states with their field, as past ones
    shared: np.ndarray  # (N, pN) of shared information
    covariance: np.ndarray  # (pN, N) that is not yet in the sums
    information: np.ndarray  # (N, pN) that is not yet in the sums
    first: np.ndarray  # (pN, pN) covariance of the first state
    weights: np.ndarray  # (5,) with which these are added, by the order above; and the trace of the information times Q
    by_Q: np.ndarray  # (N, N) twice the derivative of the log-likelihood by Q, if it is wanted; then also
    by_a: np.ndarray  # (p,) that by multiples of the identity in A
    by_r: np.ndarray  # (N,) twice that by r
    latest: np.ndarray  # (p + N,) covariances' part of the last two at one time


@inner(fastmath=SUMS)
def _times(A, B, out):  # type: ignore[no-untyped-def]
    """``A B``."""
    n, K, m = A.shape[0], A.shape[1], B.shape[1]
    if K * n * m >= LARGE:
        np.dot(A, B, out)
        return
    for i in range(n):
        for j in range(m):
            out[i, j] = 0.0
        k = 0
        while k + 3 < K:
            a, b, c, d = A[i, k], A[i, k + 1], A[i, k + 2], A[i, k + 3]
            for j in range(m):
                out[i, j] += a * B[k, j] + b * B[k + 1, j] + c * B[k + 2, j] + d * B[k + 3, j]
            k += 4
        while k < K:
            for j in range(m):
                out[i, j] += A[i, k] * B[k, j]
            k += 1


@inner(fastmath=SUMS)
def _symmetric(A, B, out):  # type: ignore[no-untyped-def]
    """``A B`` where that is symmetric: of large matrices two thirds are computed."""
    n, K = A.shape
    if n < 2 * PANEL:
        _times(A, B, out)
        return
    for start in range(0, n, PANEL):
        width = min(PANEL, n - start)
        columns, done = np.empty((K, width)), np.empty((n - start, width))
        for k in range(K):
            for j in range(width):
                columns[k, j] = B[k, start + j]
        np.dot(A[start:], columns, done)
        for i in range(n - start):
            for j in range(width):
                out[start + i, start + j] = out[start + j, start + i] = done[i, j]


@inner(once=True)
def _same(P, other):  # type: ignore[no-untyped-def]
    """Whether no entry differs by more than a share of the standard deviations that it belongs to."""
    for i in range(P.shape[0]):
        for j in range(P.shape[0]):
            # of a field that vanishes, rounding may leave less than nothing
            if abs(P[i, j] - other[i, j]) > STEADY * np.sqrt(max(P[i, i], 0.0) * max(P[j, j], 0.0)):
                return False
    return True


@inner(once=True)
def _repeats(system, t):  # type: ignore[no-untyped-def]
    """Whether a time has the gaps, noise and scale of the time before."""
    if system.scale[t] != system.scale[t - 1]:
        return False
    for i in range(system.r.shape[1]):
        missing = np.isnan(system.y[t, 0, i])
        if missing != np.isnan(system.y[t - 1, 0, i]) or not (missing or system.r[t, i] == system.r[t - 1, i]):
            return False
    return True


@inner(once=True)
def _observed(system, t, stations):  # type: ignore[no-untyped-def]
    """How many stations read at a time; they come first in ``stations``."""
    count = 0
    for i in range(stations.size):
        if not np.isnan(system.y[t, 0, i]):
            stations[count] = i
            count += 1
    return count


@inner(fastmath=SUMS, once=True)
def _after(system, P, out):  # type: ignore[no-untyped-def]
    """``A P``, (N, pN), for the covariance P (pN, pN) of a state."""
    n, p = system.diagonals.shape[1], system.diagonals.shape[0]
    if p == 0:
        _times(system.A, P, out)
        return
    for i in range(n):
        for j in range(out.shape[1]):
            out[i, j] = system.diagonals[0, i] * P[i, j]
        for k in range(1, p):
            for j in range(out.shape[1]):
                out[i, j] += system.diagonals[k, i] * P[k * n + i, j]


@inner(fastmath=SUMS, once=True)
def _from_both(system, shared, out):  # type: ignore[no-untyped-def]
    """``(A P) A'`` into the first columns and rows, from ``A P`` (N, pN)."""
    n, p = system.diagonals.shape[1], system.diagonals.shape[0]
    if p == 0:
        _symmetric(shared, system.turned, out)
        return
    for i in range(n):
        for j in range(n):
            out[i, j] = system.diagonals[0, j] * shared[i, j]
        for k in range(1, p):
            for j in range(n):
                out[i, j] += system.diagonals[k, j] * shared[i, k * n + j]


@inner(fastmath=SUMS)
def _before(system, V, out):  # type: ignore[no-untyped-def]
    """``[A I]' V``, (pN, ...), for rows (pN, ...): what they mean for the state one time earlier."""
    n, p, m = system.diagonals.shape[1], system.diagonals.shape[0], out.shape[0]
    if p == 0:
        _times(system.turned, V[:n], out)
    else:
        for k in range(p):
            for i in range(n):
                for j in range(V.shape[1]):
                    out[k * n + i, j] = system.diagonals[k, i] * V[i, j]
    for i in range(m - n):
        for j in range(V.shape[1]):
            out[i, j] += V[n + i, j]


@inner(fastmath=SUMS, once=True)
def _beside(system, V, left, out):  # type: ignore[no-untyped-def]
    """``V [A I]``, (pN, pN), symmetric; ``left`` are the first columns of V."""
    n, p, m = system.diagonals.shape[1], system.diagonals.shape[0], out.shape[0]
    if p == 0:
        if m == n:
            _symmetric(left, system.A, out)
        else:
            _times(left, system.A, out)
    else:
        for i in range(m):
            for k in range(p):
                for j in range(n):
                    out[i, k * n + j] = system.diagonals[k, j] * V[i, j]
    for i in range(m):
        for j in range(m - n):
            out[i, j] += V[i, n + j]
    for i in range(m):
        for j in range(i):
            out[i, j] = out[j, i] = 0.5 * (out[i, j] + out[j, i])


@inner(fastmath=SUMS, once=True)
def _predict(system, P, scale, shared, out):  # type: ignore[no-untyped-def]
    """Covariance of the next state."""
    n, m = system.Q.shape[0], P.shape[0]
    _after(system, P, shared)
    top = out if m == n else np.empty((n, n))
    _from_both(system, shared, top)
    for i in range(n):
        for j in range(i + 1):
            out[i, j] = out[j, i] = 0.5 * (top[i, j] + top[j, i]) + scale * system.Q[i, j]
    for i in range(m - n):
        for j in range(n):
            out[n + i, j] = out[j, n + i] = shared[j, i]
        for j in range(m - n):
            out[n + i, n + j] = P[i, j]


@inner(fastmath=SUMS, once=True)
def _subtract(P, G):  # type: ignore[no-untyped-def]
    """Subtract ``G' G``, of eight rows, from the lower triangle: half of what a product of matrices takes."""
    for i in range(P.shape[0]):
        a, b, c, d, e, f, g, h = G[0, i], G[1, i], G[2, i], G[3, i], G[4, i], G[5, i], G[6, i], G[7, i]
        for j in range(i + 1):
            P[i, j] -= (a * G[0, j] + b * G[1, j] + c * G[2, j] + d * G[3, j]) + (
                e * G[4, j] + f * G[5, j] + g * G[6, j] + h * G[7, j]
            )


@inner(fastmath=SUMS, once=True)
def _correct(P, r, stations, gains, inverses):  # type: ignore[no-untyped-def]
    """Correct a covariance by readings at stations, block by block; the log-determinant, or infinity if there is none."""
    B, m = inverses.shape[1], P.shape[0]
    L, G = np.empty((B, B)), np.zeros((BLOCK, m))
    log_determinant = 0.0
    for start in range(0, stations.size, B):
        size = min(B, stations.size - start)
        G[size:] = 0.0
        for a in range(size):
            row, i = start + a, stations[start + a]
            for j in range(i + 1):
                G[a, j] = P[i, j]
            for j in range(i + 1, m):
                G[a, j] = P[j, i]
            for b in range(a + 1):
                value = P[i, stations[start + b]]
                for c in range(b):
                    value -= L[a, c] * L[b, c]
                if a > b:
                    L[a, b] = value / L[b, b]
                elif value + r[i] > 0:
                    L[a, a] = np.sqrt(value + r[i])
                else:
                    return np.inf
            log_determinant += 2 * np.log(L[a, a])
            # forward: of the rows of P, and of the identity
            for b in range(size):
                inverses[row, b] = 0.0
            inverses[row, a] = 1.0 / L[a, a]
            for b in range(a):
                share = L[a, b] / L[a, a]
                for c in range(b + 1):
                    inverses[row, c] -= share * inverses[start + b, c]
                for j in range(m):
                    G[a, j] -= L[a, b] * G[b, j]
            turns = 1.0 / L[a, a]
            for j in range(m):
                G[a, j] *= turns
        for a in range(size - 1, -1, -1):  # and back
            row = start + a
            for j in range(m):
                gains[row, j] = G[a, j]
            for b in range(a + 1, size):
                for j in range(m):
                    gains[row, j] -= L[b, a] * gains[start + b, j]
                for c in range(size):
                    inverses[row, c] -= L[b, a] * inverses[start + b, c]
            turns = 1.0 / L[a, a]
            for j in range(m):
                gains[row, j] *= turns
            for c in range(size):
                inverses[row, c] *= turns
        _subtract(P, G)
    for i in range(m):
        for j in range(i):
            P[j, i] = P[i, j]
    return log_determinant


@inner(fastmath=SUMS, once=True)
def _correct_mean(system, means, stored, t, place, stations, z):  # type: ignore[no-untyped-def]
    """Correct means by the readings of time t; the log-likelihood."""
    m, B = z.shape[1], stored.inverses.shape[2]
    v = np.empty(B)
    log_likelihood = stored.constants[place]
    for start in range(0, stations.size, B):
        size = min(B, stations.size - start)
        for c in range(z.shape[0]):
            for a in range(size):
                v[a] = system.y[t, c, stations[start + a]] - z[c, stations[start + a]]
            for a in range(size):
                total = 0.0
                for b in range(size):
                    total += stored.inverses[place, start + a, b] * v[b]
                means.weighted[t, c, stations[start + a]] = total
                if c == 0:
                    log_likelihood -= 0.5 * v[a] * total
                for j in range(m):
                    z[c, j] += v[a] * stored.gains[place, start + a, j]
    return log_likelihood


@serial(fastmath=SUMS, nogil=True)
def forward(system, means, stored, z, P, steady, first, start, stop):  # type: ignore[no-untyped-def]
    """Filter times ``start`` to ``stop`` of a segment that begins at ``first``; the log-likelihood of their readings.

    ``z`` (C, pN) and ``P`` are mean and covariance of the state before the readings, and become those of time ``stop``.
    ``steady`` says whether P is that of the time before. The result is infinite where a covariance is not positive definite.
    """
    (T, C, n), m = system.y.shape, P.shape[0]
    buffer, ahead = np.empty(n, np.int64), np.empty(n)
    following, shared = np.empty((m, m)), np.empty((n, m))
    log_likelihood = 0.0
    for t in range(start, stop):
        stations = buffer[: _observed(system, t, buffer)]
        repeats = t > first and steady[0]
        place = stored.places[t - first - 1] if repeats else (t - first) % stored.constants.size
        stored.places[t - first] = place
        after = stored.covariances[place]
        if not repeats:
            for i in range(m):
                for j in range(m):
                    after[i, j] = P[i, j]
            log_determinant = _correct(after, system.r[t], stations, stored.gains[place], stored.inverses[place])
            if log_determinant == np.inf:
                return np.inf
            stored.constants[place] = -0.5 * (log_determinant + stations.size * LOG_2PI)
        for i in stations:
            means.innovations[t, i] = system.y[t, 0, i] - z[0, i]
            means.spreads[t, i] = P[i, i] + system.r[t, i]
        log_likelihood += _correct_mean(system, means, stored, t, place, stations, z)
        for i in range(n):
            means.var[t, i] = after[i, i]
        for c in range(C):
            for j in range(m):
                means.states[t, c, j] = z[c, j]
            for i in range(n):
                total = 0.0  # in a register: a sum in an array waits for its memory at every term
                for k in range(system.diagonals.shape[0]):
                    total += system.diagonals[k, i] * z[c, k * n + i]
                for j in range(0 if system.diagonals.shape[0] else m):
                    total += system.A[i, j] * z[c, j]
                ahead[i] = total
            for i in range(m - 1, n - 1, -1):
                z[c, i] = z[c, i - n]
            for i in range(n):
                z[c, i] = ahead[i]
        if t + 1 == T:
            break
        again = _repeats(system, t + 1)
        if repeats and again:
            continue
        onto = following if again else P
        _predict(system, after, system.scale[t + 1], shared, onto)
        steady[0] = again and _same(following, P)
        if again and not steady[0]:
            for i in range(m):
                for j in range(m):
                    P[i, j] = following[i, j]
    return log_likelihood


@inner(fastmath=SUMS, once=True)
def _mean_before(system, score):  # type: ignore[no-untyped-def]
    """Take the score to the state one time earlier."""
    (C, m), n = score.shape, system.Q.shape[0]
    earlier = np.empty(m)
    for c in range(C):
        for j in range(m):
            earlier[j] = score[c, n + j] if j < m - n else 0.0
        if system.diagonals.shape[0]:
            for k in range(m // n):
                for i in range(n):
                    earlier[k * n + i] += system.diagonals[k, i] * score[c, i]
        else:
            for i in range(n):
                for j in range(m):
                    earlier[j] += score[c, i] * system.A[i, j]
        for j in range(m):
            score[c, j] = earlier[j]


@inner(fastmath=SUMS, once=True)
def _score_readings(means, stored, t, place, stations, score, squares):  # type: ignore[no-untyped-def]
    """Add the readings of time t to the score, and what they add to it, squared, to ``squares`` of their stations, if any."""
    C, m = score.shape
    B = stored.inverses.shape[2]
    u = np.empty(B)
    for start in range((stations.size - 1) // B * B, -1, -B):
        size = min(B, stations.size - start)
        for c in range(C):
            for a in range(size):
                u[a] = means.weighted[t, c, stations[start + a]]
                for j in range(m):
                    u[a] -= stored.gains[place, start + a, j] * score[c, j]
            for a in range(size):
                score[c, stations[start + a]] += u[a]
                if c == 0 and squares.size:
                    squares[stations[start + a]] += u[a] ** 2


@inner(fastmath=SUMS, once=True)
def _inform(gains, inverses, stations, information, variances):  # type: ignore[no-untyped-def]
    """Add the readings of one time to the information; ``variances`` are of what they add to the score."""
    B, m = inverses.shape[1], information.shape[0]
    rows = np.empty(B * m)
    for start in range((stations.size - 1) // B * B, -1, -B):
        size = min(B, stations.size - start)
        moved = rows[: size * m].reshape((size, m))
        _times(gains[start : start + size], information, moved)
        for a in range(size):
            i = stations[start + a]
            for j in range(m):
                information[i, j] -= moved[a, j]
        for a in range(size):
            for b in range(a, size):
                total = inverses[start + a, b] - moved[b, stations[start + a]]
                for j in range(m):
                    total += moved[a, j] * gains[start + b, j]
                information[stations[start + a], stations[start + b]] += total
                if a == b:
                    variances[stations[start + a]] = total + moved[a, stations[start + a]]
        for a in range(size):  # columns are rows: an error that is not symmetric would grow from reading to reading
            i = stations[start + a]
            for j in range(m):
                information[j, i] = information[i, j]


@inner(fastmath=SUMS)
def _quadratic(Q, v):  # type: ignore[no-untyped-def]
    """``v' Q v``."""
    total = 0.0
    for i in range(Q.shape[0]):
        part = 0.0
        for j in range(Q.shape[0]):
            part += Q[i, j] * v[j]
        total += part * v[i]
    return total


@inner(fastmath=SUMS, once=True)
def _other_variances(system, P, information, smoothed, t):  # type: ignore[no-untyped-def]
    """Smoothed variances at time t of the stations whose readings do not show them; the information is before these."""
    m, count, others = P.shape[0], 0, np.empty(system.Q.shape[0], np.int64)
    for i in range(others.size):
        if np.isnan(system.y[t, 0, i]) or system.r[t, i] > MUCH_NOISE * P[i, i]:
            others[count] = i
            count += 1
    columns, half = np.empty((m, count)), np.empty((m, count))
    for j in range(m):
        for k in range(count):
            columns[j, k] = P[j, others[k]]
    _times(information, columns, half)
    for k in range(count):
        smoothed.var[t, others[k]] = P[others[k], others[k]]
    for j in range(m):
        for k in range(count):
            smoothed.var[t, others[k]] -= columns[j, k] * half[j, k]


@inner(fastmath=SUMS, once=True)
def _covariances(P, smoothed, t, top, half, V):  # type: ignore[no-untyped-def]
    """Smoothed covariances (pN, N) at time t of the state with its field, and the variances of stations and points."""
    n = V.shape[1]
    if V.shape[0] == n:
        _symmetric(P, half, V)
    else:
        _times(P, half, V)
    for i in range(V.shape[0]):
        for j in range(n if i >= n else i + 1):
            V[i, j] = top[i, j] - (V[i, j] if i >= n else 0.5 * (V[i, j] + V[j, i]))
            if i < n:
                V[j, i] = V[i, j]
    for i in range(n if smoothed.var.size else 0):
        smoothed.var[t, i] = V[i, i]
    for k in range(smoothed.W.shape[0]):
        smoothed.point_variances[t, k] = _quadratic(V[:n], smoothed.W[k])


@inner(fastmath=SUMS, once=True)
def _add(smoothed, V, known):  # type: ignore[no-untyped-def]
    """Add what waits to the sums, with its weights; and let a covariance and shared information wait."""
    (m, n), weights = V.shape, smoothed.weights
    for i in range(n):
        for j in range(n):
            smoothed.present[i, j] += weights[0] * smoothed.covariance[i, j]
            smoothed.lagged[i, j] += weights[1] * smoothed.covariance[i, j]
        for j in range(m):
            smoothed.shared[i, j] += weights[3] * smoothed.information[i, j]
            smoothed.information[i, j] = known[i, j]
    for i in range(m):
        for j in range(n):
            smoothed.past[i, j] += weights[2] * smoothed.covariance[i, j]
            smoothed.covariance[i, j] = V[i, j]
    weights[:4] = 0.0


@serial(fastmath=SUMS, nogil=True)
def backward(system, means, stored, smoothed, score, information, steady, first, start, stop, df):  # type: ignore[no-untyped-def]
    """Smooth times ``stop`` to ``start`` of a segment that begins at ``first``.

    ``score`` (C, pN) and ``information`` (pN, pN) are those of the state at time ``stop``, before its readings, and become
    those of time ``start``. ``steady`` says whether the information is that of one time later.
    """
    (T, C, n), m = system.y.shape, information.shape[0]
    moments, spreads = smoothed.present.size > 0, smoothed.var.size > 0
    derived = smoothed.by_Q.size > 0
    joint = moments or smoothed.W.size > 0
    informed = joint or spreads or df > 0 or derived
    p = system.diagonals.shape[0]
    crossed, variances, ahead = smoothed.latest[:p], smoothed.latest[p:], np.zeros(n)
    buffer, behind, spare = np.empty(n, np.int64), np.zeros((m, m)), np.empty((m, m))
    columns, known, half, V = np.empty((m, n)), np.zeros((m, n)), np.zeros((m, n)), np.empty((m, n))
    left, right, lagging, whole = np.zeros((m, n)), np.empty((m, m - n)), np.empty((n, m - n)), np.empty((n, m))
    weights = smoothed.weights
    for t in range(stop - 1, start - 1, -1):
        stations = buffer[: _observed(system, t, buffer)]
        place = stored.places[t - first]
        shares = t + 1 < min(T, first + stored.places.size) and place == stored.places[t - first + 1]
        repeats = shares and steady[0]
        P = stored.covariances[place]
        for i in range(n):
            ahead[i] = score[0, i]
        _mean_before(system, score)
        for c in range(C):
            for j in range(m):
                smoothed.states[t, c, j] = means.states[t, c, j]
            for i in range(m):
                for j in range(m):
                    smoothed.states[t, c, j] += score[c, i] * P[i, j]
        _score_readings(means, stored, t, place, stations, score, smoothed.by_r)
        if not informed:  # means alone
            continue
        if repeats:
            if spreads:
                for i in range(n):
                    smoothed.var[t, i] = smoothed.var[t + 1, i]
            for k in range(smoothed.W.shape[0]):
                smoothed.point_variances[t, k] = smoothed.point_variances[t + 1, k]
        else:
            earlier = spare if shares else information  # in its place, unless the two are compared
            if t + 1 < T:
                _before(system, information, behind)
                first_columns = behind
                if m > n:
                    first_columns = left
                    for i in range(m):
                        for j in range(n):
                            left[i, j] = behind[i, j]
                _beside(system, behind, first_columns, earlier)
            top = P
            if m > n:
                top = columns
                for i in range(m):
                    for j in range(n):
                        top[i, j] = P[i, j]
            if derived:
                for k in range(p):
                    crossed[k] = 0.0
                    for j in range(m):
                        for i in range(n):
                            crossed[k] += behind[j, i] * P[j, k * n + i]
            # information that is shared with this field: by the next state, where it is wanted, and by this one
            if moments:
                _times(behind.T, top, known)
                _before(system, known, half)
            elif joint:
                _times(earlier, top, half)
            if joint:
                _covariances(P, smoothed, t, top, half, V)
            elif spreads:
                _other_variances(system, P, earlier, smoothed, t)
            if moments:
                for i in range(m):
                    for j in range(m - n):
                        right[i, j] = P[i, n + j]
                _times(left.T, right, lagging)
                for i in range(n):
                    for j in range(m):
                        whole[i, j] = known[i, j] if j < n else lagging[i, j - n]
                _add(smoothed, V, whole)
                if t == 0:
                    _times(earlier, P, behind)
                    _times(P, behind, smoothed.first)
                    for i in range(m):
                        for j in range(i + 1):
                            change = 0.5 * (smoothed.first[i, j] + smoothed.first[j, i])
                            smoothed.first[i, j] = smoothed.first[j, i] = P[i, j] - change
            _inform(stored.gains[place], stored.inverses[place], stations, earlier, variances)
            for i in stations if spreads and not joint else stations[:0]:
                if system.r[t, i] <= MUCH_NOISE * P[i, i]:
                    smoothed.var[t, i] = system.r[t, i] - system.r[t, i] ** 2 * variances[i]
            steady[0] = shares and _same(earlier, information)
            if not steady[0]:
                if shares:
                    for i in range(m):
                        for j in range(m):
                            information[i, j] = earlier[i, j]
                weights[4] = 0.0
                for i in range(n):
                    for j in range(n):
                        weights[4] += information[i, j] * system.Q[i, j]
        if derived:
            for i in stations:
                smoothed.by_r[i] -= variances[i]
            for k in range(p if t + 1 < T else 0):
                smoothed.by_a[k] -= crossed[k]
                for i in range(n):
                    smoothed.by_a[k] += ahead[i] * smoothed.states[t, 0, k * n + i]
            for i in range(n if t > 0 else 0):
                for j in range(n):
                    smoothed.by_Q[i, j] += system.scale[t] * (score[0, i] * score[0, j] - information[i, j])
        if t + 1 < T:
            weights[2] += 1.0 / smoothed.scale[t + 1]
            weights[3] += system.scale[t + 1] / smoothed.scale[t + 1]
        if t + 2 < T:
            weights[1] += 1.0 / smoothed.scale[t + 2]
        if t > 0:
            if df > 0:
                s, quadratic = system.scale[t], _quadratic(system.Q, score[0])
                smoothed.scale[t] = (s * n + s**2 * (quadratic - weights[4]) + df) / (n + df + 2)
            weights[0] += 1.0 / smoothed.scale[t]
