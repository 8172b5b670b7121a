"""``K = C + S`` distributed by rows, and the diagonally dominant form that multigrid needs; no rank forms them whole.

With ``s = 1 / w`` the matrix ``M = diag(s) K diag(s) = diag(c / w^2) + L`` is an M-matrix (see
:mod:`nareg._solvers.multigrid`). Nodes with ``w = 0`` are coupled to none: with ``s = 1 / sqrt(c)`` their
rows are those of the identity.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from nareg._solvers._petsc.ranks import load
from nareg._solvers.system import EPSILON
from nareg.errors import InputError, TooLargeError

#: Rows whose diagonal is inserted at a time.
BLOCK = 2**18
#: Above this degree a graph is no mesh (as in ``FilterSystem.mesh_like``).
MESH_DEGREE = 200


def local_range(n: int) -> tuple[int, int]:
    """Rows of this rank where ``n`` are spread evenly in order."""
    return range_of(n, load().comm.rank)


def range_of(n: int, rank: int) -> tuple[int, int]:
    """Those of any rank."""
    small, more = divmod(n, load().comm.size)
    first = rank * small + min(rank, more)
    return first, first + small + (rank < more)


def from_rows(n: int, indptr: np.ndarray, indices: np.ndarray, values: np.ndarray) -> Any:
    """A square matrix of size n from the rows of this rank (those of :func:`local_range`)."""
    library = load()
    kind = library.PETSc.IntType
    limit = np.iinfo(kind).max
    if max(n, library.comm.allreduce(int(indptr[-1]), op=library.MPI.MAX)) > limit:
        raise TooLargeError(f"the graph has more than {limit} nodes, or entries per rank: take more ranks, or a 64-bit PETSc.")
    library.PETSc.garbage_cleanup(library.comm)  # what Python has forgotten PETSc keeps until all ranks ask at once
    rows = indptr.size - 1
    csr = tuple(part.astype(t, copy=False) for part, t in zip((indptr, indices, values), (kind, kind, np.float64), strict=True))
    matrix = library.PETSc.Mat().createAIJ(size=((rows, n), (rows, n)), csr=csr, comm=library.comm)
    matrix.setOption(library.PETSc.Mat.Option.SYMMETRIC, True)
    matrix.setOption(library.PETSc.Mat.Option.SYMMETRY_ETERNAL, True)
    return matrix


def with_diagonal(
    first: int, indptr: np.ndarray, indices: np.ndarray, values: np.ndarray | None
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Rows from ``first`` on with a zero inserted on the diagonal, as CSR; ``values`` None stands for ones."""
    kind = load().PETSc.IntType
    n_rows = indptr.size - 1
    starts = indptr + np.arange(n_rows + 1)
    columns, numbers = np.empty(starts[-1], kind), np.ones(starts[-1])
    for begin in range(0, n_rows, BLOCK):
        end = min(begin + BLOCK, n_rows)
        part = slice(indptr[begin], indptr[end])
        row = np.repeat(np.arange(begin, end), np.diff(indptr[begin : end + 1]))
        before = indices[part] < row + first
        place = np.arange(part.start, part.stop) + row + ~before
        columns[place] = indices[part]
        if values is not None:
            numbers[place] = values[part]
        own = starts[begin:end] + np.bincount(row - begin, weights=before, minlength=end - begin).astype(np.int64)
        columns[own], numbers[own] = np.arange(begin, end) + first, 0.0
    return starts, columns, numbers


@dataclass(frozen=True)
class Parts:
    """What K is made of, of this rank's rows: weights (ones for a user's own S), data term, and row sums of L (or S).

    Neighbors without a weight count in the row sums alone.
    """

    w: np.ndarray
    c: np.ndarray
    sums: np.ndarray
    sums_low: np.ndarray


@dataclass
class DistributedSystem:
    """K with its diagonal, and where it has a dominant form M what scales K to it.

    Attributes
    ----------
    K : Mat
    diagonal : Vec
        Of K.
    scale, inner_diagonal : Vec or None
        ``s`` with ``M = diag(s) K diag(s)``, and the diagonal of M; None where K has no such form.
    parts : Parts or None
        For residuals; None where none is asked for.
    """

    K: Any
    diagonal: Any
    scale: Any = None
    inner_diagonal: Any = None
    parts: Parts | None = None

    @property
    def n_nodes(self) -> int:
        return int(self.K.getSize()[0])

    @property
    def dominant(self) -> bool:
        """Whether multigrid's form M exists."""
        return self.scale is not None

    @cached_property
    def positive(self) -> bool:
        """Whether the diagonal of K is, without which K is not definite."""
        return bool(self.diagonal.min()[1] > 0)

    @cached_property
    def inverse_diagonal(self) -> Any:
        inverse = self.diagonal.copy()
        inverse.reciprocal()
        return inverse

    def inner(self) -> Any:
        """M; the caller keeps it."""
        M = self.K.copy()
        M.diagonalScale(self.scale, self.scale)
        M.setDiagonal(self.inner_diagonal)  # exact where the product of factors would round c / w^2 away
        return M

    def residuals(self, x: np.ndarray, rhs: np.ndarray, level: float) -> tuple[float, float]:
        """The largest ``||rhs - K x|| / ||rhs||`` over columns of the local rows (n, T), and the same scaled by D^-1.

        As :meth:`nareg._solvers.system.FilterSystem.residuals`: from the parts of K where its rounding might decide.
        """
        library = load()
        peak = np.max(library.comm.allgather(np.abs(x).max(axis=0, initial=0.0)), axis=0)
        below = self._norms(rhs)
        if (self._rounding[:, None] * peak > 0.1 * level * below).any():
            left = self._residual_of_parts(x, rhs)
        else:
            source, product = self.K.createVecs()
            left = np.empty_like(rhs)
            for t in range(rhs.shape[1]):
                source.array[:] = x[:, t]
                self.K.mult(source, product)
                left[:, t] = rhs[:, t] - product.array
        worst = np.divide(self._norms(left), below, out=np.zeros_like(below), where=below > 0).max(axis=1)
        return float(worst[0]), float(worst[1])

    def _norms(self, rows: np.ndarray) -> np.ndarray:
        """Of the columns, and of these over the diagonal, (2, T)."""
        scaled = rows * self.inverse_diagonal.array[:, None]
        squares = np.array([np.einsum("it,it->t", v, v) for v in (rows, scaled)])
        return np.sqrt(np.sum(load().comm.allgather(squares), axis=0))

    @cached_property
    def _rounding(self) -> np.ndarray:
        """As that of :class:`nareg._solvers.system.FilterSystem`."""
        indptr, _, values = self.K.getValuesCSR()
        absolute = np.add.reduceat(np.abs(values), indptr[:-1]) if len(indptr) > 1 else np.zeros(0)
        return self._norms((EPSILON * (3 * np.diff(indptr) + 10) * absolute)[:, None])[:, 0]

    @cached_property
    def _coupling(self) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray, Any, Any]:
        """Local rows of L (or S) off the diagonal, whose columns are this rank's rows and then others'; all their weights;
        and what brings numbers of the others.
        """
        assert self.parts is not None
        library = load()
        indptr, columns, values = self.K.getValuesCSR()
        first, last = self.K.getOwnershipRange()
        elsewhere = (columns < first) | (columns >= last)
        others = np.unique(columns[elsewhere])
        received = library.PETSc.Vec().createSeq(others.size, comm=library.MPI.COMM_SELF)
        chosen = library.PETSc.IS().createGeneral(others, comm=library.MPI.COMM_SELF)
        scatter = library.PETSc.Scatter().create(self.diagonal, chosen, received, None)
        local = np.where(elsewhere, last - first + np.searchsorted(others, columns), columns - first)
        w = self._with_others(self.parts.w[:, None], scatter, received)[:, 0]
        rows = np.repeat(np.arange(last - first), np.diff(indptr))
        divisor = w[rows] * w[local]
        coupling = np.divide(values, divisor, out=np.zeros_like(values), where=(divisor != 0) & (local != rows))
        return indptr, local, coupling, w, scatter, received

    def _with_others(self, rows: np.ndarray, scatter: Any, received: Any) -> np.ndarray:
        """The local rows, and below them those of other ranks that they are coupled to."""
        source = self.diagonal.duplicate()
        out = np.empty((len(rows) + received.getSize(), rows.shape[1]))
        out[: len(rows)] = rows
        for t in range(rows.shape[1]):
            source.array[:] = rows[:, t]
            scatter.scatter(source, received, mode="forward")
            out[len(rows) :, t] = received.array
        return out

    def _residual_of_parts(self, x: np.ndarray, rhs: np.ndarray) -> np.ndarray:
        from nareg._solvers import twofold  # numba: imported when first needed

        assert self.parts is not None
        indptr, columns, coupling, w, scatter, received = self._coupling
        X = self._with_others(x, scatter, received)
        U, V = np.empty_like(X), np.empty_like(X)
        twofold.scale(w, X, U, V)
        R, zero = np.empty(rhs.shape), np.zeros(x.shape)
        sums, low = self.parts.sums, self.parts.sums_low
        B, X = np.ascontiguousarray(rhs), np.ascontiguousarray(x)
        twofold.residual(indptr, columns, coupling, sums, low, w, self.parts.c, B, X, zero, U, V, R)
        return R

    @cached_property
    def mesh_like(self) -> bool:
        """Whether balls grow as in a mesh, as ``FilterSystem.mesh_like`` says it; a collective search of some levels."""
        comm, n = load().comm, self.n_nodes
        if n < 2000:
            return True
        degrees = np.diff(self.K.getValuesCSR()[0])
        largest, owner = max(comm.allgather((int(degrees.max(initial=0)), -comm.rank)))
        if largest > MESH_DEGREE + 1:
            return False
        reached, product = self.K.createVecs()
        if comm.rank == -owner:
            reached.array[int(degrees.argmax())] = 1.0
        enough, levels, count = 0.5 * n ** (1 / 3), 0, 1
        while levels < enough:
            self.K.mult(reached, product)
            reached.array[:] = (product.array != 0) | (reached.array > 0)
            now = round(reached.sum())
            if now == count:
                return bool(levels >= 0.5 * count ** (1 / 3))
            levels, count = levels + 1, now
        return True


def from_adjacency(A: Any, w: Any, c: Any) -> DistributedSystem:
    """K and its dominant form from an adjacency with a stored zero diagonal, node weights and data term; A becomes K."""
    degrees = A.getRowSum()
    zero = w.copy()
    zero.array[:] = w.array == 0
    parts = Parts(w.array.copy(), c.array.copy(), (A @ zero).array.copy(), np.zeros(w.getLocalSize()))
    scale = inverse_weights(w, c.array)
    inner = degrees.copy()
    inner.array[:] = np.where(w.array == 0, 1.0, degrees.array + c.array * scale.array**2)
    diagonal = degrees
    with np.errstate(over="ignore"):
        diagonal.array[:] = degrees.array * w.array**2 + c.array
    _refuse_overflow(diagonal, w)
    A.diagonalScale(w, w)
    A.scale(-1.0)
    A.setDiagonal(diagonal)
    return DistributedSystem(A, diagonal, scale, inner, parts)


def with_dominant_form(K: Any, diagonal: Any, w: np.ndarray, c: np.ndarray, L_diagonal: np.ndarray) -> DistributedSystem:
    """K and its dominant form from the local weights, data term and diagonal of L."""
    scale, inner = diagonal.copy(), diagonal.copy()
    scale.array[:] = w
    scale = inverse_weights(scale, diagonal.array)
    inner.array[:] = np.where(w == 0, 1.0, L_diagonal + c * scale.array**2)
    return DistributedSystem(K, diagonal, scale, inner)


def inverse_weights(w: Any, diagonal: np.ndarray) -> Any:
    """``s``: 1 / w, and ``1 / sqrt(K_ii)`` where w is zero."""
    scale = w.copy()
    zero = w.array == 0
    scale.array[:] = 1.0 / np.where(zero, np.sqrt(diagonal), w.array)
    return scale


def _refuse_overflow(diagonal: Any, w: Any) -> None:
    if not np.isfinite(diagonal.norm(load().PETSc.NormType.NORM_1)):
        largest = w.norm(load().PETSc.NormType.NORM_INFINITY)
        raise InputError(
            f"weights has an entry of size {largest:g}, too large: w^2 times the degree overflows; take smaller weights."
        )
