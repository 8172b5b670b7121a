"""The space-time system ``(P + C) x = C y``: conjugate gradients with cosines in time and sparse factors in space.

``P = T (x) Theta / variance`` is the precision of the field: T that of a stationary autoregression of first order, Theta
that of the field in space. ``C`` holds ``1 / r`` where there is a reading. The preconditioner is the same system with every
station's mean of C over time, and with the ends of T as a cosine transform has them: then each frequency in time is a sparse
system in space, and neighboring frequencies share a factor.

The log-likelihood takes determinants from the preconditioner's factors, and the rest by stochastic quadrature:
``log det (P + C) = log det M + log det M^-1 (P + C)`` with M the preconditioner, whose determinant its factors give. The second
term is small and averaged over probes: the steps of conjugate gradients from a probe with covariance M give the quadrature of
Golub and Meurant for the logarithm, as Ubaru, Chen and Saad (SIMAX 2017) use it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial

import numpy as np
import scipy.fft
import scipy.sparse as sp
from scipy.linalg import LinAlgError, cho_solve_banded, cholesky_banded, eigh_tridiagonal, solveh_banded

from nareg._solvers import cg
from nareg._solvers.factorization import Factor, factorize
from nareg._solvers.iterate import Monitor
from nareg._solvers.passes import ProductPasses
from nareg.errors import SolverError
from nareg.results import Status, symmetric_from_entries
from nareg.spacetime._sparse.field import GraphField, eliminated

#: Frequencies whose eigenvalues differ by less than this factor share a sparse factor.
SPREAD = 2.0
#: Correction of the stations, as a share of the longest step that converges.
DAMPING = 0.75
#: Columns that a factor solves at once: larger blocks leave the cache.
COLUMNS = 64
#: Steps of conjugate gradients with the plain preconditioner, where a good one takes 10 to 30, and with the reinforced one.
PLAIN, LONGEST = 40, 500
#: Arrays of ``width`` numbers, one per item: (items, width). Ranks that work together share the items.
Share = Callable[[Callable[[float], np.ndarray], Sequence[float], int], np.ndarray]
TOO_SMALL = "the space-time system is singular in float64: the noise or the field's variance is too small."


@dataclass(frozen=True, eq=False)
class Process:
    """A stationary autoregression of first order with a field in space and noise at the stations."""

    field: GraphField
    rho: float
    variance: float
    noise: np.ndarray  # (N,)

    def eigenvalues(self, T: int) -> np.ndarray:
        """Of the precision in time of a unit process, with the ends of a cosine transform; increasing where rho > 0."""
        waves = np.cos(np.pi * np.arange(T) / T)
        return (1 + self.rho**2 - 2 * self.rho * waves) / (1 - self.rho**2)

    def through_time(self, X: np.ndarray) -> np.ndarray:
        """Product with T, for X (..., T)."""
        rho = self.rho
        if X.shape[-1] == 1:
            return X.copy()
        out = (1 + rho**2) * X
        out[..., 0] = X[..., 0]
        out[..., -1] = X[..., -1]
        out[..., 1:] -= rho * X[..., :-1]
        out[..., :-1] -= rho * X[..., 1:]
        out /= 1 - rho**2
        return out

    def prior_noise(self, shape: tuple[int, ...], rng: np.random.Generator) -> np.ndarray:
        """Random (N, ..., T) with P as covariance."""
        white = self.field.root_noise(shape, rng) / np.sqrt(self.variance)
        spread = np.sqrt(1 - self.rho**2)
        out = white / spread
        out[..., 0] = white[..., 0]
        # T = B' B with rows (x_t - rho x_{t-1}) / spread: here its transpose
        out[..., :-1] -= self.rho / spread * white[..., 1:]
        return out

    def draw(self, T: int, rng: np.random.Generator) -> np.ndarray:
        """A field (N, T) of the process."""
        return self.prior_solve(self.prior_noise((1, T), rng))[:, 0]

    def prior_solve(self, B: np.ndarray) -> np.ndarray:
        """``P^-1 B`` for B (N, S, T): of a draw with covariance P a draw of the field."""
        _, S, T = B.shape
        out = np.empty_like(B)
        bands = np.zeros((2, T))
        bands[0, 1:] = -self.rho
        bands[1] = 1 + self.rho**2
        bands[1, [0, -1]] = 1.0
        for s in range(S):
            through_space = self.variance * self.field.factor.solve(np.asfortranarray(B[:, s]))
            through_time = solveh_banded(bands, through_space.T).T * (1 - self.rho**2) if T > 1 else through_space
            out[:, s] = through_time
        return out


def one_by_one(work: Callable[[float], np.ndarray], items: Sequence[float], width: int) -> np.ndarray:
    """``Share`` of a process that works alone."""
    return np.array([work(item) for item in items]).reshape(len(items), width)


def frequency_groups(values: np.ndarray) -> list[tuple[np.ndarray, float]]:
    """Frequencies that share a factor, and the precision in time that it has, from the smallest on."""
    order = np.argsort(values, kind="stable")
    bins = np.floor(np.log(values[order] / values[order[0]]) / np.log(SPREAD)).astype(int)
    groups = [order[bins == k] for k in np.unique(bins)]
    return [(np.sort(members), float(np.exp(np.log(values[members]).mean()))) for members in groups]


class TimePreconditioner:
    """``M^-1`` as the module's docstring has it, for C of one coverage."""

    def __init__(self, process: Process, coverage: np.ndarray, T: int):
        self.process, self.coverage, self.T = process, coverage, T
        self.groups = frequency_groups(process.eigenvalues(T) / process.variance)
        self.parts = self._factors(self._columns())

    def _columns(self) -> np.ndarray:
        """Frequencies that this process solves for."""
        return np.arange(self.T)

    def _factors(self, columns: np.ndarray) -> list[tuple[np.ndarray, Factor]]:
        """Factors of the frequencies in ``columns``, and the columns' positions that each is for."""
        parts, family = [], self.process.field.family
        for members, precision in self.groups:
            places = np.flatnonzero(np.isin(columns, members))
            if places.size == 0:
                continue
            entries = self.process.field.informed(precision, self.coverage)
            matrix = symmetric_from_entries(entries, family.i, family.j)
            factor = factorize(sp.csc_array(matrix), definite=False)
            if factor is None:
                raise SolverError(TOO_SMALL)
            parts.append((places, factor))
        return parts

    def solve(self, R: np.ndarray, pool: ThreadPoolExecutor | None = None) -> np.ndarray:
        """``M^-1 R`` for R (N, S, T)."""
        waves = scipy.fft.dct(R, axis=-1, norm="ortho")
        self._solve_in_space(waves, pool)
        return scipy.fft.idct(waves, axis=-1, norm="ortho", overwrite_x=True)

    def _solve_in_space(self, waves: np.ndarray, pool: ThreadPoolExecutor | None) -> None:
        """Solve for all frequencies of the factors, (N, S, frequencies), in place."""
        n, S, _ = waves.shape
        tasks = []
        for members, factor in self.parts:
            block = max(1, COLUMNS // S)
            tasks += [(members[k : k + block], factor) for k in range(0, members.size, block)]

        def work(task: tuple[np.ndarray, Factor]) -> None:
            members, factor = task
            columns = np.asfortranarray(waves[:, :, members].reshape(n, -1))
            waves[:, :, members] = factor.solve(columns).reshape(n, S, members.size)

        for _ in (pool.map if pool is not None else map)(work, tasks):
            pass

    def log_det(self, share: Share = one_by_one) -> float:
        """Of M."""

        def of(precision: float) -> np.ndarray:
            spatial = self.process.field
            return np.array([eliminated(spatial.family.elimination, spatial.informed(precision, self.coverage), TOO_SMALL)[0]])

        logs = share(of, [precision for _, precision in self.groups], 1)[:, 0]
        return float(sum(members.size * log for (members, _), log in zip(self.groups, logs, strict=True)))

    def noise(self, S: int, rng: np.random.Generator) -> np.ndarray:
        """Random (N, S, T) with M as covariance."""
        n = self.process.field.n
        spread = np.empty(self.T)
        for members, precision in self.groups:
            spread[members] = np.sqrt(precision)
        waves = self.process.field.root_noise((S, self.T), rng) * spread
        waves += np.sqrt(self.coverage)[:, None, None] * rng.standard_normal((n, S, self.T))
        return scipy.fft.idct(waves, axis=-1, norm="ortho", overwrite_x=True)


class SpaceTimeSystem:
    """``P + C`` for the readings of one window."""

    rows = slice(None)  # stations that are here
    hard = False  # whether the plain preconditioner takes more than PLAIN steps

    def __init__(self, process: Process, observed: np.ndarray, preconditioner: TimePreconditioner | None = None):
        """``observed``: (N, T) bool."""
        self.process, self.observed = process, observed
        self.precision = process.field.precision()
        self.weights = observed / process.noise[:, None]
        T = observed.shape[1]
        self.preconditioner = preconditioner or TimePreconditioner(process, self.weights.mean(axis=1), T)

    def product(self, X: np.ndarray) -> np.ndarray:
        """``(P + C) X`` for X (N, S, T)."""
        n, S, T = X.shape
        spatial = (self.precision @ X.reshape(n, S * T)).reshape(n, S, T)
        out = self.process.through_time(spatial)
        out /= self.process.variance
        out += self.weights[:, None, :] * X
        return out

    def right_side(self, y: np.ndarray) -> np.ndarray:
        """``C y`` for readings (N, T), NaN where missing."""
        return self.weights * np.where(self.observed, y, 0.0)

    def perturbation(self, S: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
        """Two random (N, S, T): of the noise, and of the prior. The system is the covariance of their sum.

        The sum's solution is a draw of the field's error; ``P^-1`` times the second is a draw of the field, which it resembles
        the more, the less the readings tell.
        """
        n, T = self.observed.shape
        white = rng.standard_normal((n, S, T))
        return np.sqrt(self.weights)[:, None, :] * white, self.process.prior_noise((S, T), rng)

    def solve(
        self, B: np.ndarray, tol: float, start: np.ndarray | None = None, pool: ThreadPoolExecutor | None = None
    ) -> tuple[np.ndarray, int]:
        """Solutions for B (N, S, T), to a residual of ``tol`` in the norm of the preconditioner, and the steps taken."""
        X = np.zeros_like(B) if start is None else start.copy()
        passes, taken = _SpaceTimePasses(self), 0
        for limit in (LONGEST,) if self.hard else (PLAIN, LONGEST):
            if limit == LONGEST:
                self.hard, precondition = True, Reinforced(self, pool).solve
            else:
                precondition = partial(self.preconditioner.solve, pool=pool)
            from_zero = start is None and not taken
            R = B.copy() if from_zero else B - self.product(X)
            monitor = Monitor(None if from_zero else passes.inner(B, precondition(B))[None] ** 0.5, tol)
            cg.descend(
                passes, X, R, np.zeros_like(B), np.empty_like(B), monitor, max_iterations=limit, precondition=precondition,
                natural=True, inner=passes.inner,
            )  # fmt: skip
            taken += monitor.iterations
            if monitor.status is Status.CONVERGED:
                return X, taken
        raise SolverError(
            f"conjugate gradients did not reach a residual of {tol:g} in {LONGEST} steps: the noise of some stations is far "
            "below that of others."
        )

    def summed(self, values: np.ndarray) -> np.ndarray:
        """Sums over the stations that are here, over all stations."""
        return values

    def dots(self, A: np.ndarray, B: np.ndarray) -> np.ndarray:
        """(S,) inner products of (N, S, T) arrays."""
        return np.einsum("ist,ist->s", A, B)


class Reinforced:
    """``M^-1`` for one system, whose own preconditioner it contains: for readings of very unlike noise with gaps.

    There cosines in time with mean weights need hundreds of steps. What they miss is of two kinds, each solved for before and
    after them (a symmetric multiplicative Schwarz method): what varies from station to station, by a tridiagonal system in time
    at each of them; and what all stations share, such as hours in which none reads, by the system on the smoothest modes of the
    graph, which is banded in time.
    """

    def __init__(self, system: SpaceTimeSystem, pool: ThreadPoolExecutor | None = None) -> None:
        process, T = system.process, system.observed.shape[1]
        self._system, self._pool = system, pool
        unit = 1 / (1 - process.rho**2) if T > 1 else 1.0
        in_time = np.full(T, (1 + process.rho**2) * unit)
        in_time[[0, -1]] = unit
        own = process.field.entries[: process.field.n][system.rows] / process.variance
        self._diagonal = own[:, None] * in_time + system.weights
        self._beside = -process.rho * unit * own
        self._damping = 2 * DAMPING / max(process.field.relative_radius, 1.0)
        self._modes, energies = process.field.modes
        self._modes = np.ascontiguousarray(self._modes[system.rows])
        self._band = self._factor(in_time, -process.rho * unit, energies / process.variance)

    def _factor(self, in_time: np.ndarray, beside: float, energies: np.ndarray) -> np.ndarray:
        """Of the system on the modes, those of a time after each other, as SciPy has bands."""
        V, k, T = self._modes, energies.size, in_time.size
        blocks = self._system.summed(np.array([(V * w[:, None]).T @ V for w in self._system.weights.T]))
        blocks[:, range(k), range(k)] += in_time[:, None] * energies
        band = np.zeros((k + 1, T, k))
        for apart in range(k):
            band[k - apart, :, apart:] = np.diagonal(blocks, apart, 1, 2)
        band[0, 1:] = beside * energies
        try:
            return np.asarray(cholesky_banded(band.reshape(k + 1, T * k), overwrite_ab=True))
        except LinAlgError:
            raise SolverError("the space-time system is not positive definite in float64: the noise is too small.") from None

    def _shared(self, R: np.ndarray) -> np.ndarray:
        """What the smooth modes explain of R (N, S, T)."""
        n, S, T = R.shape
        right = self._system.summed(self._modes.T @ R.reshape(n, S * T)).reshape(-1, S, T)
        X = cho_solve_banded((self._band, False), right.transpose(2, 0, 1).reshape(-1, S), overwrite_b=True)
        return (self._modes @ X.reshape(T, -1, S).transpose(1, 2, 0).reshape(-1, S * T)).reshape(n, S, T)

    def _apart(self, R: np.ndarray) -> np.ndarray:
        """Each station by itself."""
        from nareg.spacetime._sparse import kernels  # numba: imported when first needed

        X: np.ndarray = kernels.solve_in_time(self._diagonal, self._beside, R)
        X *= self._damping
        return X

    def solve(self, R: np.ndarray) -> np.ndarray:
        """``M^-1 R`` for R (N, S, T)."""
        system = self._system
        X = self._apart(R)
        for stage in (self._shared, lambda rest: system.preconditioner.solve(rest, self._pool), self._shared, self._apart):
            X += stage(R - system.product(X))
        return X


class _SpaceTimePasses(ProductPasses):
    """Over (N, S, T) arrays, whose columns are the S; numbers of a column are (S, 1), and no squares are needed."""

    def __init__(self, system: SpaceTimeSystem) -> None:
        self._system = system

    def squares(self, V: np.ndarray) -> None:
        return None

    def inner(self, A: np.ndarray, B: np.ndarray) -> np.ndarray:
        """The inner products of columns."""
        return self._system.dots(A, B)[:, None]

    def product(self, P: np.ndarray, Q: np.ndarray) -> np.ndarray:
        Q[...] = self._system.product(P)
        return self.inner(P, Q)

    def step(self, X: np.ndarray, R: np.ndarray, P: np.ndarray, Q: np.ndarray, alpha: np.ndarray) -> None:
        X += alpha * P
        Q *= alpha
        R -= Q


#: Probes of the determinant: as many as make this many cells, within limits; and the most steps from each.
CELLS, PROBES, STEPS = 1_000_000, (1, 16), 20
#: Quadrature is done when the residual has fallen by so much.
SMALL = 1e-3


def log_likelihood(
    y: np.ndarray, x: np.ndarray, process: Process, pool: ThreadPoolExecutor | None = None,
    system: SpaceTimeSystem | None = None, share: Share = one_by_one,
) -> float:  # fmt: skip
    """Log-likelihood of readings (N, T), NaN where missing, whose posterior mean is ``x``; ``system`` is theirs, if made."""
    observed = np.isfinite(y)
    if not observed.any():
        return 0.0
    system = system or SpaceTimeSystem(process, observed)
    n, T = y.shape
    known = np.where(observed, y, 0.0)
    right = known / process.noise[:, None]
    fit = float(np.sum(right * known) - np.sum(right * x))
    prior = T * process.field.log_det - n * T * np.log(process.variance) - n * (T - 1) * np.log(1 - process.rho**2)
    noise = float(observed.sum(axis=1) @ np.log(process.noise))
    probes = int(np.clip(CELLS // observed.size, *PROBES))
    relative = _relative(system, probes, np.random.default_rng(0), pool)
    determinant = system.preconditioner.log_det(share) + relative - prior + noise
    return -0.5 * (fit + determinant + observed.sum() * np.log(2 * np.pi))


def _relative(system: SpaceTimeSystem, probes: int, rng: np.random.Generator, pool: ThreadPoolExecutor | None) -> float:
    """``log det M^-1 (P + C)``, averaged over probes."""
    R = system.preconditioner.noise(probes, rng)
    Z = system.preconditioner.solve(R, pool)
    size = rz = system.dots(R, Z)
    P = Z.copy()
    alphas, betas = [], []
    for _ in range(STEPS):
        Q = system.product(P)
        alpha = rz / system.dots(P, Q)
        R -= alpha[:, None] * Q
        Z = system.preconditioner.solve(R, pool)
        new = system.dots(R, Z)
        alphas.append(alpha)
        betas.append(new / rz)
        P = Z + betas[-1][:, None] * P
        rz = new
        if (rz <= SMALL**2 * size).all():
            break
    total = 0.0
    for s in range(probes):
        a, b = np.array(alphas)[:, s], np.array(betas)[:, s]
        diagonal = 1 / a
        diagonal[1:] += b[:-1] / a[:-1]
        values, vectors = eigh_tridiagonal(diagonal, np.sqrt(b[:-1]) / a[:-1])
        total += float(size[s] * (vectors[0] ** 2 @ np.log(np.maximum(values, 1e-300)))) / probes
    return total
