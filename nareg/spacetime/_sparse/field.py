"""Gaussian fields on a graph with a sparse precision: ``(L / mean degree + reach^-2 I)^smoothness``, scaled to unit variances.

With smoothness 2 this is the dense model's family "graph", a Matern field (Lindgren, Rue, Lindstrom 2011, on a graph).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse as sp
from scipy.sparse.csgraph import breadth_first_order, connected_components
from scipy.sparse.linalg import eigsh

from nareg._solvers.eigenvalues import DENSE, extreme_eigenvalue, start_vector
from nareg._solvers.factorization import Factor, factorize
from nareg.errors import SolverError
from nareg.results import symmetric_from_entries, upper_edges

if TYPE_CHECKING:
    from nareg.design import Elimination

#: Powers of the operator that a field may have.
SMOOTHNESS = (1, 2)
#: Smooth modes of the graph that hard systems are solved on by themselves.
MODES = 64

#: What is said of a field without a factor.
NOT_DEFINITE = "a field that reaches {:.3g} edges is not positive definite in float64."


class FieldFamily:
    """All fields of one smoothness on a graph. What their precisions share, the pattern and its elimination, is found once."""

    def __init__(self, adjacency: sp.csr_array, smoothness: int):
        degrees = np.asarray(adjacency.sum(axis=1)).ravel()
        self.n, self.smoothness = degrees.size, smoothness
        self.L = sp.csr_array((sp.diags_array(degrees) - adjacency) / (degrees.mean() or 1.0))
        power = self.L if smoothness == 1 else sp.csr_array(self.L @ self.L)
        self.i, self.j = upper_edges(sp.csr_array(abs(power) + abs(self.L)))
        self._entries = [self._on_pattern(matrix) for matrix in (self.L, power)[:smoothness]]

    @cached_property
    def modes(self) -> tuple[np.ndarray, np.ndarray]:
        """Smoothest eigenvectors of the Laplacian, (N, modes), and their eigenvalues."""
        count = min(MODES, self.n)
        if self.n <= DENSE:
            values, vectors = np.linalg.eigh(self.L.toarray())
            return vectors[:, :count], np.maximum(values[:count], 0.0)
        # the shift is below all eigenvalues, so that the factor exists
        values, vectors = eigsh(sp.csc_array(self.L), count, sigma=-1e-3, v0=start_vector(self.n))
        return vectors, np.maximum(values, 0.0)

    def of(self, stations: np.ndarray) -> FieldFamily:
        """The family on the graph of some stations. A field reaches as far as on the whole but for the part's margin."""
        part = self.L[stations][:, stations]
        return FieldFamily(sp.csr_array(sp.diags_array(part.diagonal()) - part), self.smoothness)

    @cached_property
    def elimination(self) -> Elimination:
        from nareg.design import Elimination

        return Elimination(self.n, self.i, self.j)

    def _on_pattern(self, matrix: sp.csr_array) -> np.ndarray:
        """Diagonal, then the entries at (i, j)."""
        matrix = sp.csr_array(matrix)
        matrix.sort_indices()
        rows = np.repeat(np.arange(self.n), np.diff(matrix.indptr))
        key, wanted = rows * self.n + matrix.indices, self.i * self.n + self.j
        place = np.minimum(np.searchsorted(key, wanted), max(key.size - 1, 0))
        present = key[place] == wanted if key.size else np.zeros(wanted.size, dtype=bool)
        values = np.where(present, matrix.data[place] if key.size else 0.0, 0.0)
        return np.concatenate([matrix.diagonal(), values])

    def entries(self, reach: float) -> np.ndarray:
        """``(L + reach^-2 I)^smoothness`` on the pattern: N diagonal entries, then those at (i, j)."""
        shift = reach**-2.0
        if self.smoothness == 1:
            result = self._entries[0].copy()
            result[: self.n] += shift
            return result
        result = self._entries[1] + 2 * shift * self._entries[0]
        result[: self.n] += shift**2
        return result

    def scaled(self, entries: np.ndarray, scale: np.ndarray) -> np.ndarray:
        """Entries of ``diag(scale) K diag(scale)``."""
        return entries * np.concatenate([scale**2, scale[self.i] * scale[self.j]])

    def at(self, reach: float) -> GraphField:
        """The field of one reach, in edges."""
        entries = self.entries(reach)
        log_det, data = eliminated(self.elimination, entries, NOT_DEFINITE.format(reach))
        covariance = self.elimination.inverse_entries(data)
        scale = np.sqrt(np.maximum(covariance[: self.n], 1e-300))
        log_det += 2 * float(np.log(scale).sum())
        return GraphField(self, reach, scale, self.scaled(entries, scale), self.scaled(covariance, 1 / scale), log_det)


@dataclass(frozen=True, eq=False)
class GraphField:
    """A field with unit variances."""

    family: FieldFamily
    reach: float
    scale: np.ndarray  # (N,) standard deviations before they were scaled to 1
    entries: np.ndarray  # of the precision, on the family's pattern
    covariance: np.ndarray  # the covariance's entries there
    log_det: float  # of the precision

    def __getstate__(self) -> dict[str, Any]:
        """Without the factor, which a library holds: it is made again where the field is used."""
        return {name: value for name, value in vars(self).items() if name != "factor"}

    @property
    def n(self) -> int:
        return self.family.n

    @property
    def modes(self) -> tuple[np.ndarray, np.ndarray]:
        """(N, modes) smooth fields whose Gram matrix in the precision is diagonal, and that diagonal."""
        vectors, values = self.family.modes
        return vectors / self.scale[:, None], (values + self.reach**-2.0) ** self.family.smoothness

    @cached_property
    def relative_radius(self) -> float:
        """Largest eigenvalue of the precision over its diagonal."""
        root = sp.diags_array(1 / np.sqrt(self.entries[: self.n]))
        largest = extreme_eigenvalue(sp.csr_array(root @ self.precision() @ root), "LA", tol=1e-2)
        assert largest is not None
        return 1.02 * largest  # Lanczos comes from below

    def informed(self, precision: float, coverage: np.ndarray) -> np.ndarray:
        """Entries of ``precision Theta + diag(coverage)``, for the precision Theta of the field and a coverage (N,)."""
        entries = precision * self.entries
        entries[: self.n] += coverage
        return entries

    def precision(self) -> sp.csr_array:
        return symmetric_from_entries(self.entries, self.family.i, self.family.j)

    @cached_property
    def factor(self) -> Factor:
        """Of the precision."""
        factor = factorize(sp.csc_array(self.precision()))
        if factor is None:
            raise SolverError(NOT_DEFINITE.format(self.reach))
        return factor

    def root_noise(self, shape: tuple[int, ...], rng: np.random.Generator) -> np.ndarray:
        """Random (N, ...) with the precision as covariance."""
        shift, scale = self.reach**-2.0, self.scale.reshape(-1, *[1] * len(shape))
        if self.family.smoothness == 2:
            white = rng.standard_normal((self.n, *shape)).reshape(self.n, -1)
            return (self.family.L @ white + shift * white).reshape(self.n, *shape) * scale
        edges = sp.coo_array(sp.triu(-self.family.L, k=1))
        weights = np.sqrt(edges.data)
        count = weights.size
        ends = np.concatenate(edges.coords), np.tile(np.arange(count), 2)
        incidence = sp.csr_array((np.concatenate([weights, -weights]), ends), shape=(self.n, count))
        noise = incidence @ rng.standard_normal((count, int(np.prod(shape))))
        noise += np.sqrt(shift) * rng.standard_normal(noise.shape)
        return noise.reshape(self.n, *shape) * scale


def eliminated(how: Elimination, entries: np.ndarray, otherwise: str) -> tuple[float, np.ndarray]:
    """Log determinant of a precision with these entries, and its factor; an error says ``otherwise``."""
    done = how.factor(entries)
    if done is None:
        raise SolverError(otherwise)
    return done


def neighborhood(graph: sp.csr_array, counts: np.ndarray, size: int) -> np.ndarray:
    """``size`` stations around the one with most readings (``counts``, (N,)), by breadth-first search.

    It begins in the part of the graph that has most readings, and goes on to others where that is too small.
    """
    parts, label = connected_components(graph, directed=False)
    chosen: list[np.ndarray] = []
    for part in np.argsort(-np.bincount(label, weights=counts, minlength=parts), kind="stable"):
        center = int(np.argmax(np.where(label == part, counts, -1)))
        chosen.append(breadth_first_order(graph, center, directed=False, return_predecessors=False))
        if sum(map(len, chosen)) >= size:
            break
    return np.sort(np.concatenate(chosen)[:size])
