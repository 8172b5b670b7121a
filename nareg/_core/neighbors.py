"""Nearest neighbors in the plane and on the sphere."""

from __future__ import annotations

import numpy as np

from nareg.errors import InputError

EARTH_RADIUS_KM = 6371.0088  # mean radius, IUGG


def great_circle_km(latitude: np.ndarray, longitude: np.ndarray) -> np.ndarray:
    """Great-circle distances in kilometers between all pairs of points given in degrees, (N, N)."""
    unit = unit_vectors(np.column_stack([latitude, longitude]))
    chord = np.linalg.norm(unit[:, None] - unit[None], axis=-1)
    return 2 * EARTH_RADIUS_KM * np.arcsin(np.clip(chord / 2, 0, 1))


def unit_vectors(degrees: np.ndarray) -> np.ndarray:
    """Points on the unit sphere (N, 3) of latitudes and longitudes (N, 2)."""
    lat, lon = np.radians(degrees).T
    return np.column_stack([np.cos(lat) * np.cos(lon), np.cos(lat) * np.sin(lon), np.sin(lat)])


def nearest(points: np.ndarray, k: int, metric: str) -> tuple[np.ndarray, np.ndarray]:
    """Indices and distances (N, k) of the k nearest other nodes."""
    from scipy.spatial import cKDTree  # imported here: it would slow `import nareg`

    if metric == "haversine":
        if points.shape[1] != 2:
            raise InputError(f"coordinates has shape {points.shape}; haversine needs (N, 2) latitude, longitude in degrees.")
        beyond = np.abs(points[:, 0]) > 90
        if beyond.any():
            i = int(np.flatnonzero(beyond)[0])
            raise InputError(
                f"coordinates[{i}, 0] is {points[i, 0]:g}, not a latitude in degrees: "
                "columns are latitude, longitude, in this order."
            )
        # the chord through the Earth grows with the arc: neighbors by chord are neighbors by arc
        tree_points = unit_vectors(points)
    else:
        tree_points = points
    distance, index = cKDTree(tree_points).query(tree_points, k=k + 1)
    # among coincident points the tree may list another one first: drop the node itself wherever it stands
    own = index == np.arange(len(points))[:, None]
    own[~own.any(axis=1), -1] = True
    index, distance = index[~own].reshape(-1, k), distance[~own].reshape(-1, k)
    if metric == "haversine":
        distance = 2 * EARTH_RADIUS_KM * np.arcsin(np.clip(distance / 2, 0, 1))
    return index, distance
