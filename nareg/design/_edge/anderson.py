"""Anderson's acceleration of a fixed-point iteration ``u <- G(u)``.

The next point mixes the last images so that their residuals ``G(u) - u`` are least in a diagonal metric (D. G. Anderson,
Iterative procedures for nonlinear integral equations, 1965; type II of Fang and Saad 2009).
"""

from __future__ import annotations

import numpy as np

#: Differences of images that are mixed: more of them leave the cone more often.
DEPTH = 3


class Anderson:
    """The points of one iteration and their images."""

    def __init__(self, metric: np.ndarray) -> None:
        self.root = np.sqrt(metric)
        self.points: list[np.ndarray] = []
        self.images: list[np.ndarray] = []

    def next(self, point: np.ndarray, image: np.ndarray) -> np.ndarray:
        """The point to go on from after ``image = G(point)``."""
        self.points, self.images = [*self.points[-DEPTH:], point], [*self.images[-DEPTH:], image]
        images = np.array(self.images)
        residuals = (images - np.array(self.points)) * self.root
        shares = np.linalg.lstsq(np.diff(residuals, axis=0).T, residuals[-1], rcond=1e-8)[0]
        mixed: np.ndarray = image - shares @ np.diff(images, axis=0)
        return mixed

    def restart(self) -> np.ndarray:
        """Forget all points, where the last mixture was no better: the last image."""
        image = self.images[-1]
        self.points, self.images = [], []
        return image
