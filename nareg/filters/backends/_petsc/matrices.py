"""``K = C + S`` distributed by rows, and the diagonally dominant form that multigrid needs; no rank forms them whole.

With ``s = 1 / w`` the matrix ``M = diag(s) K diag(s) = diag(c / w^2) + L`` is an M-matrix (see
:mod:`nareg.filters.multigrid`). Nodes with ``w = 0`` are coupled to none: with ``s = 1 / sqrt(c)`` their
rows are those of the identity.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from nareg.errors import InputError, TooLargeError
from nareg.filters.backends._petsc.library import load

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
    """

    K: Any
    diagonal: Any
    scale: Any = None
    inner_diagonal: Any = None

    @property
    def n_nodes(self) -> int:
        return int(self.K.getSize()[0])

    @property
    def n_local(self) -> int:
        return int(self.K.getLocalSize()[0])

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

    def residuals(self, x: np.ndarray, rhs: np.ndarray) -> tuple[float, float]:
        """The largest ``||rhs - K x|| / ||rhs||`` over columns of the local rows (n, T), and the same scaled by D^-1."""
        left, right = self.K.createVecs()
        worst = [0.0, 0.0]
        for t in range(rhs.shape[1]):
            right.array[:], left.array[:] = x[:, t], 0.0
            product = self.K @ right
            left.array[:] = rhs[:, t]
            product.aypx(-1.0, left)
            for k in range(2):
                if k:
                    product.pointwiseMult(product, self.inverse_diagonal)
                    left.pointwiseMult(left, self.inverse_diagonal)
                below = left.norm()
                worst[k] = max(worst[k], product.norm() / below if below > 0 else 0.0)
        return worst[0], worst[1]

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
    return DistributedSystem(A, diagonal, scale, inner)


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
