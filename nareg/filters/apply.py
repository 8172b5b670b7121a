"""Apply a designed filter once: ``denoise``, ``interpolate``, and the ``uncertainty`` of what they return."""

from __future__ import annotations

import os
from typing import cast

import numpy as np

from nareg._core import checks
from nareg._core.arrays import eagerly
from nareg._solvers.backends import BackendLike, StoredLike, denoise_stored, is_stored
from nareg._solvers.engines import METHODS as METHODS
from nareg._solvers.engines import Method, quick_solve
from nareg._solvers.system import build, data_term, filter_matrix, penalty
from nareg.errors import InputError, SolverError
from nareg.filters._amplification import LARGEST_AMPLIFICATION as LARGEST_AMPLIFICATION
from nareg.filters.prepared import as_callback, build_denoiser
from nareg.io import takes_tables
from nareg.progress import ProgressCallback
from nareg.results import Solution
from nareg.typing import ArrayLike, GraphLike, WeightsLike


@eagerly
@takes_tables("y", like="y")
def denoise(
    graph: GraphLike | StoredLike,
    weights: WeightsLike | str | os.PathLike[str],
    y: ArrayLike | str | os.PathLike[str],
    *,
    data_weight: ArrayLike | str | os.PathLike[str] | None = None,
    method: Method = "auto",
    backend: BackendLike = "auto",
    tol: float = 1e-8,
    max_iterations: int | None = None,
    progress: ProgressCallback | None = None,
    out: str | os.PathLike[str] | None = None,
) -> Solution:
    """Denoise graph signals: solve ``(C + S) x = C y`` with ``S = diag(w) L diag(w)`` and ``C = diag(data_weight)``.

    With ``data_weight=None`` this is the node-adaptive Tikhonov estimate ``(I + S)^-1 y``, equation (10).

    Parameters
    ----------
    graph : Graph, (N, N) symmetric PSD operator, or folder
        Supplies L. A folder that ``nareg convert`` or :meth:`nareg.Graph.save` wrote (its path, or a
        :class:`nareg.io.StoredGraph`) is read in parts: neither the graph nor the signals have to fit into memory.
        ``weights``, ``y`` and ``data_weight`` are then ``.npy`` files or arrays, methods ``"auto"`` and ``"cg"``.
    weights : (N,) array, number, WeightDesign or (N, N) sparse S
        Node weights w. A number is one weight for all nodes (the Tikhonov parameter is its square).
    y : (N,) or (N, T) array or tensor
        Readings, finite. float32 in, float32 out (computed in float64). A torch tensor gives a tensor on the same device. A
        frame of pandas or polars, or an xarray array, has a row per time and a column per station, in any order where the
        graph has names; x is then such a table.
    data_weight : (N,) array, optional
        Data-term weights c >= 0; ``1 / variance`` for readings of unequal quality, 0 for an unobserved
        node. Default: a design's own, else ones.
    method : {"auto", "direct", "cg", "multigrid", "jacobi", "chebyshev", "recursion"}
        ``"auto"`` factorizes meshes up to 5,000 nodes. Above, it runs Jacobi-preconditioned CG, and turns to a factor or to
        multigrid where that promises to cost less; ``Solution.method`` says why. The last three are distributed recursions;
        ``"recursion"`` is equation (19) and refuses weights for which it diverges.
    backend : {"auto", "scipy", "torch", "petsc"} or Torch
        The library that solves. ``"auto"`` is torch where y, weights or data_weight are torch tensors, else SciPy with our
        compiled loops. :class:`nareg.filters.Torch` sets device and precision. Torch differentiates the filter by y, by weights
        that are a number or (N,), and by ``data_weight``. With ``"petsc"`` all ranks of MPI call with the same arguments, and
        each gets all of x; methods are ``"auto"`` (CG, then GAMG where that is slow), ``"direct"``, ``"cg"`` and
        ``"multigrid"``. Of a folder each rank reads and writes its rows. :class:`~nareg.filters.Petsc` and
        :class:`~nareg.filters.Disk` have a partition and a memory of your choice.
    tol : float
        Relative residual ``||c y - K x|| / ||c y||`` of every signal at which iterative methods stop, and which
        ``CONVERGED`` guarantees. Where weights are so large that rounding x to float64 would exceed it, ``"direct"`` solves in
        twice the precision. The residual is then that of the solution before rounding.
    max_iterations : int, optional
        Default: 10,000 for CG, 500 for multigrid, 200,000 rounds for the distributed recursions.
    progress : callable, optional
        Called with a :class:`nareg.progress.Progress` per iteration; its values have the largest relative ``"residual"``.
    out : path, optional
        ``.npy`` file for the estimate, where ``graph`` is a folder. It appears whole or not at all.

    Returns
    -------
    Solution
        For a folder x is the file ``out``, memory-mapped for reading.

    Raises
    ------
    InputError
        For input that cannot work; :class:`~nareg.errors.SingularSystemError` names a part of the graph
        without data, :class:`~nareg.errors.DivergentMethodError` a recursion that would diverge.

    References
    ----------
    Yang, Coutino, Leus, Isufi, "Node-Adaptive Regularization for Graph Signal Reconstruction", IEEE OJSP
    2021, equations (9), (10), (18), (19).

    Examples
    --------
    >>> import numpy as np, nareg
    >>> g = nareg.graphs.grid((2, 2))
    >>> solution = nareg.filters.denoise(g, 1.0, np.array([1.0, 0.0, 0.0, 1.0]))
    >>> solution.x.round(3)
    array([0.6, 0.4, 0.4, 0.6])
    >>> solution.status.name
    'CONVERGED'
    """
    if is_stored(graph):
        return denoise_stored(
            cast(StoredLike, graph), weights, y, out, data_weight=data_weight, method=method, backend=backend, tol=tol,
            max_iterations=max_iterations, callback=as_callback(progress),
        )  # fmt: skip
    if out is not None:
        raise InputError(f"out is {str(out)!r}, but the graph is in memory: omit out, and save the result's x.")
    denoiser = build_denoiser(
        cast(GraphLike, graph), cast(WeightsLike, weights), cast("ArrayLike | None", data_weight), method, tol, max_iterations,
        backend, many=False,
    )  # fmt: skip
    return denoiser.denoise(cast(ArrayLike, y), progress=progress)


@eagerly
@takes_tables("y", "observed", observed="observed", like="y")
def interpolate(
    graph: GraphLike,
    weights: WeightsLike,
    y: ArrayLike,
    observed: ArrayLike | None = None,
    *,
    data_weight: ArrayLike | None = None,
    method: Method = "auto",
    backend: BackendLike = "auto",
    tol: float = 1e-8,
    max_iterations: int | None = None,
    progress: ProgressCallback | None = None,
) -> Solution:
    """Denoise observed readings and fill in the others: the data-term weight is zero where ``observed`` is False.

    Parameters
    ----------
    graph, weights, data_weight, method, backend, tol, max_iterations, progress
        As in :func:`denoise`; ``data_weight`` holds for the observed nodes.
    y : (N,) or (N, T) array
        Readings; any value, NaN included, where not observed.
    observed : bool array, (N,) or the shape of y, optional
        True where a reading was taken. Default: where y is finite. Signals that share a mask are solved together.

    Returns
    -------
    Solution

    Raises
    ------
    SingularSystemError
        If a connected part of the graph (over edges whose weights are not zero) has no observed node; the
        message names its nodes. Or if a matrix S, as that of an edge design, makes ``C + S`` indefinite without the missing
        readings.

    Warns
    -----
    AmplificationWarning
        If the estimate at an unobserved node could exceed twice the largest reading. With ``u = w x`` that estimate is the
        mean of the neighbors' u, divided by the node's own w: a weight near zero inflates it. Such an estimate is not
        returned. In those signals unobserved nodes take the mean of their neighbors' ``|w|`` instead, which leaves the
        estimates of observed nodes unchanged. Where that is not enough, all nodes take one weight, the geometric mean.
        ``method`` says in how many signals. To avoid it, design with ``data_weight`` zero at nodes that will not be observed.

        A matrix S, as that of an edge design, has another limit, four times the largest reading. Fields that are much larger
        at some nodes need such estimates, and they are returned. In signals where a change of S by 1e-5 of itself would
        change the estimate entirely, all nodes take one weight instead. Designs with ``criterion="likelihood"`` avoid that.
        Above 250 nodes suspect rows of the filter are looked for, and one may be missed.

    Examples
    --------
    >>> import numpy as np, nareg
    >>> path = nareg.graphs.grid((3,))
    >>> y = np.array([1.0, np.nan, 3.0])
    >>> nareg.filters.interpolate(path, 0.01, y, np.isfinite(y)).x.round(3)
    array([1., 2., 3.])
    """
    denoiser = build_denoiser(graph, weights, data_weight, method, tol, max_iterations, backend, many=False)
    return denoiser.interpolate(y, observed, progress=progress, stacklevel=5)


@takes_tables()
def uncertainty(
    graph: GraphLike,
    weights: WeightsLike,
    *,
    data_weight: ArrayLike | None = None,
    noise: ArrayLike,
    n_probes: int = 200,
    rng: np.random.Generator | None = None,
) -> np.ndarray:
    """Standard deviation of each denoised reading that the noise causes: ``sqrt(diag(H Sigma H^T))``.

    The bias, which depends on the unknown signal, is not in it (see :func:`nareg.design.risk`).

    Parameters
    ----------
    graph, weights, data_weight
        As in :func:`denoise`.
    noise : number, (N,) or (N, N)
        Noise variance, variances or covariance.
    n_probes : int
        Above 3,000 nodes the diagonal is estimated from this many random probes; the relative standard
        error is about ``1 / sqrt(2 n_probes)``.
    rng : numpy.random.Generator, optional
        For the probes.

    Returns
    -------
    (N,) array, in the unit of the readings

    Examples
    --------
    >>> import nareg
    >>> nareg.filters.uncertainty(nareg.graphs.grid((3,)), 1.0, noise=0.04).round(3)
    array([0.137, 0.122, 0.137])
    """
    base = penalty(graph)
    system = build(base, weights, data_term(data_weight, weights, base.n_nodes))
    n = base.n_nodes
    covariance = checks.noise("noise", noise, n)
    if n <= checks.DENSE_LIMIT:
        H = filter_matrix(system, what="uncertainty")
        spread = H * covariance if covariance.ndim == 1 else H @ covariance
        return np.sqrt(np.maximum(np.einsum("ij,ij->i", spread, H), 0.0))  # rounding of a singular covariance
    if covariance.ndim == 2:
        checks.dense_size("uncertainty with a noise matrix", n, alternative="pass variances, (N,)")
    n_probes = checks.integer("n_probes", n_probes, low=1)
    signs = checks.generator(rng).choice([-1.0, 1.0], size=(n, n_probes))
    probes = (system.c * np.sqrt(covariance))[:, None] * signs
    answer = quick_solve(system, probes, 1e-6)
    if not answer.status.ok:
        raise SolverError(f"uncertainty: the solves for the probes ended with {answer.status.name}: pass smaller weights.")
    return np.sqrt(np.mean(answer.x**2, axis=1))
