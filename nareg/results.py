"""Results of solvers and designs: the answer, how it was reached, and what was checked afterwards."""

from __future__ import annotations

import enum
import json
import os
from dataclasses import dataclass, field, replace
from typing import Any, TypedDict

import numpy as np
import scipy.sparse as sp

from nareg._core.arrays import briefly_shown
from nareg._storage.array_files import read_design
from nareg._storage.files import atomic_write as atomic_write
from nareg._storage.sparse_files import csr
from nareg.errors import UNREADABLE, DatasetCorruptError, InputError, brief
from nareg.graph import operator_hash

FORMAT = "nareg-design-1"


class Status(enum.Enum):
    """How a solve ended; the text says what to do about it."""

    CONVERGED = "converged: the stated tolerance was met, recomputed from the returned point"
    MAX_ITERATIONS = "not converged: the iteration limit was reached; raise max_iterations, loosen tol, or take another method"
    INDEFINITE = (
        "not converged: the system is not positive definite in float64, so the answer must not be used; check S and "
        "data_weight, or take smaller weights"
    )
    STALLED = (
        "not converged: rounding, or the accuracy of inner solves, stopped the progress before the tolerance was met; loosen "
        "tol, take smaller weights, float64 or a preconditioner"
    )
    INACCURATE = "inaccurate: the solver met only a looser tolerance; see the certificate for what was reached"
    UNPROVED = (
        "convergence not proven: the gradient is small, but no bound on the loss above its minimum is available; pass a "
        "preconditioner, or weight_decay"
    )
    DIVERGED = "diverged: the loss is no longer finite; take a smaller learning_rate"
    NO_IMPROVEMENT = "the best single weight is returned: no step lowered the held-out risk by more than its error"
    STOPPED_EARLY = "stopped early on held-out data, as intended: more steps would fit its noise"
    ZERO_WEIGHTS = "zero weights are optimal and filter nothing: pass noise, or a positive lower bound"
    ZERO_LOSS = "converged to zero loss: the outputs equal the targets to within tol, or the accuracy of inner solves"
    SEPARABLE = (
        "the classes are separable: the loss has no minimum, its lower limit is zero and the weights grow without end; add "
        "weight_decay, or stop early on validation nodes"
    )
    COMPLETED = "completed: all epochs were run, as asked for"
    TARGET_REACHED = "the loss reached stop_below, as asked for"
    INTERRUPTED = "interrupted: the best point reached so far is returned"

    @property
    def ok(self) -> bool:
        """Whether the computation ended as it should."""
        return self not in (
            Status.MAX_ITERATIONS,
            Status.INDEFINITE,
            Status.STALLED,
            Status.INACCURATE,
            Status.UNPROVED,
            Status.DIVERGED,
            Status.INTERRUPTED,
        )


@briefly_shown
@dataclass(frozen=True)
class Solution:
    """Result of applying a filter.

    Attributes
    ----------
    x : (N,) or (N, T) array
        The estimate, in the dtype of the readings.
    status : Status
    method : str
        The method that was used, and for ``method="auto"`` why.
    iterations : int
        Iterations (0 for a direct solve); the largest over signals and masks.
    residuals : (iterations + 1,) array
        Largest relative residual ``||c y - K x|| / ||c y||`` over the signals after each iteration.
    residual : float
        The same, recomputed in float64 from the solution (before a cast to float32 readings' dtype). The status
        also asks for ``||D^-1 (c y - K x)|| <= tol ||D^-1 c y||`` with D the diagonal of K: a residual that is
        small against the readings can be large against the row of an unobserved node with a small weight.
    rounds, messages : int or None
        For distributed methods: communication rounds, and numbers sent over edges in all rounds per signal.
    timings : dict of seconds
        ``"total"``: wall time.
    """

    x: np.ndarray
    status: Status
    method: str
    iterations: int
    residuals: np.ndarray
    residual: float
    rounds: int | None = None
    messages: int | None = None
    timings: dict[str, float] = field(default_factory=dict)


class DesignDetails(TypedDict, total=False):
    """Facts that belong to some designs: each reports those that it knows.

    Attributes
    ----------
    strength, at_search_bound
        One weight: its square, and whether the search for it ended at one of its bounds.
    degrees_of_freedom, effective_degrees_of_freedom
        Number of free weights, and of those that the data decide after shrinkage (None where it is not computed).
    starts
        Objective reached from every start.
    iterations, rounds, newton_steps, hessian_products, solves
        Work: of all starts, folds and penalties together.
    penalty, shrink, held_out_path
        What held-out data chose, and their risk for every penalty tried.
    held_out_risk, held_out_scalar_risk, held_out_gain, held_out_error
        Risk on held-out data of the design and of the best single weight, the difference, and its standard error.
    best_scalar, best_scalar_risk, best_two_parameter_likelihood
        The single weight that the design had to beat, and its risk or likelihood.
    noise_estimated, noise_power
        Whether the noise was estimated, and the sum of its variances.
    readings, missing, left_out
        Readings with gaps: how many there are and are not, and stations without any.
    rank_one_share, rank, rounded_objective, scale_factor, objective_before_scaling, constraint_violation
        The relaxation's matrix, how weights were made from it, and by how much they miss an added constraint at worst.
    low_rank_objective, dual_bound, gap, dual_proof, gradient_norm, symmetric_limit, sdp_status
        How well the relaxation was solved.
    worst_mse, worst_case_lower, worst_case_upper, box_worst_case_lower, box_worst_case_upper, worst_signal, corner_weights
        Min-max designs: the worst case, between two bounds; for a design of two corners also that of their box.
    n_probes, smallest_eigenvalue_K
        Random probes of the noise; the smallest eigenvalue of ``C + S``.
    jacobi_factor, jacobi_rounds
        Designs with a rate: a proven bound on the factor of a Jacobi round, and the rounds that are promised, by relative
        residual.
    """

    strength: float
    at_search_bound: bool
    degrees_of_freedom: int
    effective_degrees_of_freedom: float | None
    starts: dict[str, float]
    iterations: int
    rounds: int
    newton_steps: int
    hessian_products: int
    solves: dict[str, float]
    penalty: float
    shrink: float
    held_out_path: dict[str, float]
    held_out_risk: float | None
    held_out_scalar_risk: float | None
    held_out_gain: float
    held_out_error: float | None
    best_scalar: float
    best_scalar_risk: float
    best_two_parameter_likelihood: float
    noise_estimated: bool
    noise_power: float
    readings: int
    missing: int
    left_out: list[str]
    rank_one_share: float
    rank: int
    rounded_objective: float
    scale_factor: float
    objective_before_scaling: float
    constraint_violation: float
    low_rank_objective: float
    dual_bound: float | None
    gap: float | None
    dual_proof: str
    gradient_norm: float
    symmetric_limit: float
    sdp_status: str
    worst_mse: float
    worst_case_lower: float
    worst_case_upper: float
    box_worst_case_lower: float
    box_worst_case_upper: float
    worst_signal: list[float]
    corner_weights: list[float]
    n_probes: int
    smallest_eigenvalue_K: float
    jacobi_factor: float
    jacobi_rounds: dict[str, int]


@dataclass(frozen=True)
class DesignCertificate:
    """What was recomputed after a design was solved.

    Attributes
    ----------
    smallest_eigenvalue : float
        Of the SDP matrix (relaxations) or of ``S`` (the rest), relative to the largest.
    violation : float
        Largest violation of the bounds on ``w_i^2`` by the returned weights, relative to the bound.
    solver : str
        Name and version of the solver.
    solver_status : str
        How the solver ended, in its words.
    relaxed_objective : float or None
        Value of the convex relaxation at the solver's optimum: a lower bound on the objective up to the solver's
        tolerance, if there is one.
    gradient_norm : float or None
        Norm of the projected gradient at the returned weights over the objective, for local methods.
    details : DesignDetails
        A dict of facts that belong to one method (chosen scale, objective of each start, ...).
    """

    smallest_eigenvalue: float
    violation: float
    solver: str
    solver_status: str
    relaxed_objective: float | None = None
    gradient_norm: float | None = None
    details: DesignDetails = field(default_factory=DesignDetails)


@briefly_shown
@dataclass(frozen=True)
class WeightDesign:
    """Designed weights, with everything needed to use and to judge them.

    Attributes
    ----------
    weights : (N,) or (N + M,) array
        Node weights ``w``; the filter is ``(C + diag(w) L diag(w))^-1 C``. For an edge design the entries of
        ``S`` itself: the N diagonal ones, then those of the M edges (i < j) in row order.
    objective : float
        The method's objective at these weights, recomputed in float64 (in the coordinates ``C^1/2 x`` for the
        published designs inside a weighted data term).
    status : Status
    certificate : DesignCertificate
    method : str
    penalty : (N, N) CSR array
        The ``L`` that the weights were designed for.
    data_weight : (N,) array or None
        Data-term weights ``c`` of the design; ``denoise`` uses them unless ``data_weight`` is given.
    omega : (N, N) array or None
        The SDP matrix, if there is one.
    timings : dict of seconds
    settings : dict
        The arguments that shaped the design.
    graph_hash : str
        Hash of ``L``, checked when the design is applied.
    """

    weights: np.ndarray
    objective: float
    status: Status
    certificate: DesignCertificate
    method: str
    penalty: sp.csr_array
    data_weight: np.ndarray | None
    omega: np.ndarray | None
    timings: dict[str, float]
    settings: dict[str, Any]
    graph_hash: str
    version: str

    @property
    def n_nodes(self) -> int:
        """Number of nodes N."""
        return int(self.penalty.shape[0])

    @property
    def has_edge_weights(self) -> bool:
        """Whether every edge and node has a weight of its own (an edge design)."""
        return self.weights.size != self.n_nodes

    @property
    def matrix(self) -> sp.csr_array:
        """``S``, sparse: ``diag(w) L diag(w)``, or the entries of an edge design."""
        if self.has_edge_weights:
            return symmetric_from_entries(self.weights, *upper_edges(self.penalty))
        half = sp.diags_array(self.weights)
        return sp.csr_array(half @ self.penalty @ half)

    def summary(self) -> str:
        """A few lines for a person."""
        w, c = np.abs(self.weights), self.certificate
        lines = [
            f"{self.method}: {self.status.value}",
            f"  objective {self.objective:.6g}"
            + ("" if c.relaxed_objective is None else f" (relaxation {c.relaxed_objective:.6g})"),
            f"  {'|entry of S|' if self.has_edge_weights else '|w|'} from {w.min():.4g} to {w.max():.4g}, "
            f"median {np.median(w):.4g}, N = {self.n_nodes}",
            f"  smallest eigenvalue {c.smallest_eigenvalue:.2g}, bound violation {c.violation:.2g}",
            f"  {c.solver}: {c.solver_status}",
            "  " + ", ".join(f"{name} {seconds:.3g} s" for name, seconds in self.timings.items()),
        ]
        rounds = c.details.get("jacobi_rounds")
        if rounds is not None:
            shown = ", ".join(f"{count} to {accuracy}" for accuracy, count in rounds.items())
            lines.append(f"  Jacobi rounds, each with the factor {c.details['jacobi_factor']:.6g}: {shown}")
        silent = c.details.get("left_out")
        if silent:
            shown = ", ".join(map(str, silent[:5])) + (", ..." if len(silent) > 5 else "")
            lines.append(f"  no reading, left out of the design: {shown} ({len(silent)} of {self.n_nodes})")
        return "\n".join(lines)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write weights, data term, settings, version and graph hash to one ``.npz`` file, atomically."""
        meta = {
            "format": FORMAT,
            "method": self.method,
            "objective": self.objective,
            "status": self.status.name,
            "certificate": {k: v for k, v in self.certificate.__dict__.items()},
            "timings": self.timings,
            "settings": self.settings,
            "graph_hash": self.graph_hash,
            "version": self.version,
        }
        arrays = {"weights": self.weights, "meta": np.array(json.dumps(meta, default=_plain))}
        for part in ("data", "indices", "indptr"):
            arrays[f"penalty_{part}"] = getattr(self.penalty, part)
        for name in ("data_weight", "omega"):
            if getattr(self, name) is not None:
                arrays[name] = getattr(self, name)
        with atomic_write(path) as handle:
            np.savez_compressed(handle, allow_pickle=False, **arrays)

    def rescaled(self, factor: float) -> WeightDesign:
        """The same design with weights ``factor * w`` (objective and certificate are those of ``w``).

        The entries of an edge design are multiplied by ``factor^2``, so that S changes in the same way.
        """
        scale = factor**2 if self.has_edge_weights else factor
        return replace(self, weights=self.weights * scale, settings={**self.settings, "rescaled": factor})


def load_design(path: str | os.PathLike[str]) -> WeightDesign:
    """Read a design written by :meth:`WeightDesign.save`.

    Raises
    ------
    InputError
        If the file does not exist.
    DatasetCorruptError
        If it is not a nareg design.
    """
    try:
        arrays, meta = read_design(path, FORMAT)
        n = arrays["penalty_indptr"].size - 1
        parts = (arrays["penalty_data"], arrays["penalty_indices"], arrays["penalty_indptr"])
        penalty = csr(*parts, (n, n), what="the penalty stored in it")
        entries = n + upper_edges(penalty)[0].size
        for name, shapes in (("weights", [(n,), (entries,)]), ("data_weight", [(n,)]), ("omega", [(n, n)])):
            if name in arrays and (arrays[name].shape not in shapes or not np.isfinite(arrays[name]).all()):
                raise ValueError(f"{name} has shape {arrays[name].shape} or holds a value that is not finite")
        if operator_hash(penalty) != meta["graph_hash"]:
            raise ValueError("the penalty stored in it does not have its hash")
        return WeightDesign(
            weights=arrays["weights"],
            objective=meta["objective"],
            status=Status[meta["status"]],
            certificate=DesignCertificate(**meta["certificate"]),
            method=meta["method"],
            penalty=penalty,
            data_weight=arrays.get("data_weight"),
            omega=arrays.get("omega"),
            timings=meta["timings"],
            settings=meta["settings"],
            graph_hash=meta["graph_hash"],
            version=meta["version"],
        )
    except FileNotFoundError:
        raise InputError(f"path {os.fspath(path)!r} does not exist.") from None
    except UNREADABLE as error:
        raise DatasetCorruptError(
            f"path {os.fspath(path)!r} is not a design written by WeightDesign.save ({brief(error)}): design again."
        ) from None


def upper_edges(matrix: sp.csr_array) -> tuple[np.ndarray, np.ndarray]:
    """Ends (i, j), i < j, of the edges of a symmetric sparse matrix, in row order."""
    rows = np.repeat(np.arange(matrix.shape[0]), np.diff(matrix.indptr))
    upper = rows < matrix.indices
    return rows[upper], matrix.indices[upper].astype(np.int64)


def symmetric_from_entries(entries: np.ndarray, i: np.ndarray, j: np.ndarray) -> sp.csr_array:
    """The symmetric matrix with these N diagonal entries, followed by the entries of its edges (i, j)."""
    n = entries.size - i.size
    diagonal, edge = np.arange(n), entries[n:]
    rows, cols = np.concatenate([diagonal, i, j]), np.concatenate([diagonal, j, i])
    matrix = sp.csr_array((np.concatenate([entries[:n], edge, edge]), (rows, cols)), shape=(n, n))
    matrix.sort_indices()
    return matrix


def _plain(value: Any) -> Any:
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, np.ndarray):
        return value.tolist()
    raise TypeError(f"cannot store {type(value).__name__} in a design file")
