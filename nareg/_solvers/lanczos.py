"""Lanczos' and Arnoldi's processes on arrays and on tensors, which stay on their device.

Only the small matrix of many steps comes to the host. Where a process keeps three vectors and does not reorthogonalize, that
repeats eigenvalues that have converged, and leaves them right (Paige 1980).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import scipy.linalg

from nareg._solvers import eigenvalues

#: ``product(v)`` is the operator times a column (N, 1) or an array of any shape.
Product = Callable[[Any], Any]
#: Steps between looks at what has converged, and steps at most.
LOOK, STEPS = 16, 512
#: Vectors of an Arnoldi process before it starts again from its best one, and how often it does.
VECTORS, RESTARTS = 24, 20
#: A residual below this share of the operator's size is rounding: the space is invariant.
INVARIANT = {"torch.float32": 1e-6, "torch.float64": 1e-13}


def ritz_values(product: Product, v: Any, steps: int, *, metric: Product | None = None) -> np.ndarray:
    """Ritz values, in rising order, of ``product(metric(.))`` from the start v, reorthogonalized: all lie inside the spectrum.

    The operator is self-adjoint in the inner product ``<u, metric(v)>`` of arrays or tensors; default: the Euclidean one.
    """
    alphas, betas, basis = [], [], []
    image = v if metric is None else metric(v)
    beta = ((v * image).sum()) ** 0.5
    for _ in range(steps):
        scale = beta + (beta == 0)
        v, image = v / scale, image / scale
        basis.append((v, image))
        u = product(image)
        alphas.append((u * image).sum())
        for b, dual in basis * 2:  # twice, against rounding
            u = u - (u * dual).sum() * b
        v, image = u, u if metric is None else metric(u)
        beta = abs((v * image).sum()) ** 0.5
        betas.append(beta)
    numbers = np.array([alphas, betas]) if isinstance(v, np.ndarray) else _stacked(alphas, betas)
    # what follows a vanishing one is noise: the space of the first vectors is invariant
    vanishing = np.flatnonzero(numbers[1] <= 1e-10 * abs(numbers[0, 0]))
    n = vanishing[0] + 1 if vanishing.size else steps
    return scipy.linalg.eigvalsh_tridiagonal(numbers[0, :n], numbers[1, : n - 1])


def _stacked(alphas: list[Any], betas: list[Any]) -> np.ndarray:
    """Numbers off their device at once."""
    import torch

    return torch.stack((torch.stack(alphas), torch.stack(betas))).cpu().numpy()


def extreme_eigenvalue(product: Product, like: Any, which: str, *, tol: float) -> float:
    """Smallest ("SA"), largest ("LA") or in size largest ("LM") eigenvalue of a symmetric M, to a residual of ``tol`` times it.

    ``like`` is a tensor of the dtype and on the device of M, and so are the columns that ``product`` gets.
    """
    import torch

    v = _start(like)
    before, beta = torch.zeros_like(v), v.new_zeros(())
    alphas: list[Any] = []
    betas: list[Any] = []
    best = 0.0
    for step in range(1, min(STEPS, v.shape[0]) + 1):
        u = product(v.to(like.dtype)).to(v.dtype)
        alphas.append((u * v).sum())
        u = u - alphas[-1] * v - beta * before
        beta = u.norm()
        betas.append(beta)
        before, v = v, u / beta.clamp(min=torch.finfo(u.dtype).tiny)
        if step % LOOK and step < min(STEPS, v.shape[0]):
            continue
        diagonal, beside = _stacked(alphas, betas).tolist()
        best, residual = _ritz(diagonal, beside, which, INVARIANT[str(like.dtype)])
        if residual <= tol * abs(best):
            break
    return best


def _ritz(alphas: list[float], betas: list[float], which: str, invariant: float) -> tuple[float, float]:
    """The Ritz value at an end and the length of its residual, of the steps before the space was invariant."""
    size = max(abs(a) + b for a, b in zip(alphas, betas, strict=True))
    small = [b <= invariant * size for b in betas]
    n = small.index(True) + 1 if True in small else len(alphas)
    values, vectors = scipy.linalg.eigh_tridiagonal(alphas[:n], betas[: n - 1])
    k = {"SA": 0, "LA": n - 1, "LM": int(np.abs(values).argmax())}[which]
    return float(values[k]), float(betas[n - 1] * abs(vectors[-1, k]))


def radius(product: Product, like: Any, *, tol: float) -> float:
    """Spectral radius of M, which need not be symmetric, by Arnoldi's process; at least that of the last Ritz value."""
    import torch

    v = _start(like)
    n = v.shape[0]
    best = 0.0
    for _ in range(RESTARTS):
        basis = torch.zeros((n, min(VECTORS, n) + 1), dtype=v.dtype, device=v.device)
        H = torch.zeros((basis.shape[1], basis.shape[1] - 1), dtype=v.dtype, device=v.device)
        basis[:, 0] = v[:, 0] / v.norm()
        for j in range(H.shape[1]):
            u = product(basis[:, j : j + 1].to(like.dtype).contiguous()).to(v.dtype)
            for _again in range(2):  # classical Gram-Schmidt, twice
                h = basis[:, : j + 1].T @ u
                u = u - basis[:, : j + 1] @ h
                H[: j + 1, j] += h[:, 0]
            H[j + 1, j] = u.norm()
            basis[:, j + 1] = u[:, 0] / H[j + 1, j].clamp(min=torch.finfo(u.dtype).tiny)
        small = H.cpu().numpy()
        off = small.diagonal(-1)
        ends = np.flatnonzero(off <= INVARIANT[str(like.dtype)] * np.abs(small).max())
        m = int(ends[0]) + 1 if ends.size else H.shape[1]
        values, vectors = np.linalg.eig(small[:m, :m])
        k = int(np.abs(values).argmax())
        best = float(np.abs(values[k]))
        if off[m - 1] * abs(vectors[-1, k]) <= tol * best or m < H.shape[1]:
            break
        # a complex pair is spanned by real and imaginary part
        mixture = torch.as_tensor(vectors[:, k].real + vectors[:, k].imag, dtype=v.dtype, device=v.device)
        v = basis[:, :m] @ mixture[:, None]
    return best


def _start(like: Any) -> Any:
    """The same start every time, of length one, in double precision."""
    import torch

    v = torch.as_tensor(eigenvalues.start_vector(like.shape[0])[:, None], dtype=torch.float64, device=like.device)
    return v / v.norm()
