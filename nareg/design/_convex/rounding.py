"""From the SDP matrix Omega to weights: rank-one step, feasibility restored, local refinement.

The relaxations drop ``rank(Omega) = 1``. When the optimum is not rank one, its leading eigenvector times the
root of the eigenvalue violates ``w_i^2 >= lower`` (on Molene: 0.51 against 1), so the weights are moved to the
nearest feasible ones and then descend on the method's own objective at rank one.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from nareg.design._risk.descent import DescentResult, ValueAndGradient, descend, feasible
from nareg.progress import ProgressCallback


def rank_one(omega: np.ndarray) -> tuple[np.ndarray, float]:
    """Leading eigenvector times the root of its eigenvalue, and the share of the trace that it carries."""
    values, vectors = np.linalg.eigh(omega)
    w = np.sqrt(max(values[-1], 0.0)) * vectors[:, -1]
    w *= np.sign(w[np.argmax(np.abs(w))]) or 1.0
    return w, float(values[-1] / max(values.clip(0).sum(), 1e-300))


def round_and_refine(
    omega: np.ndarray,
    objective: ValueAndGradient,
    lower: np.ndarray,
    upper: np.ndarray,
    *,
    also: dict[str, np.ndarray] | None = None,
    progress: ProgressCallback | None = None,
) -> tuple[DescentResult, dict[str, Any]]:
    """Weights from Omega refined by descent, or from another start (``also``) if that ends lower.

    Returns the descent, and the objective of the rounded weights and of every start's end.
    """
    w, share = rank_one(omega)
    starts = {"rounded": feasible(w, lower, upper), **(also or {})}
    reached = {name: descend(objective, start, lower, upper, progress=progress) for name, start in starts.items()}
    details = {
        "rank_one_share": share,
        "rounded_objective": float(objective(starts["rounded"])[0]),
        "starts": {name: d.value for name, d in reached.items()},
    }
    return min(reached.values(), key=lambda d: d.value), details
