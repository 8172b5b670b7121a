"""Land around a network."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import nareg
from nareg.datasets._coast import LEAP, _lines, clip, coast


def is_land(longitude: float, latitude: float, rings: list[list[float]]) -> bool:
    """Whether a point lies in an odd number of rings."""
    inside = False
    for ring in rings:
        x, y = np.array(ring).reshape(-1, 2).T
        x2, y2 = np.roll(x, -1), np.roll(y, -1)
        crosses = (y > latitude) != (y2 > latitude)
        at = x[crosses] + (latitude - y[crosses]) / (y2 - y)[crosses] * (x2 - x)[crosses]
        inside ^= bool((at > longitude).sum() % 2)
    return inside


def test_land_and_sea_of_two_networks():
    us = coast(nareg.datasets.load("us-weather").coordinates)
    assert is_land(-98.0, 39.0, us["land"])  # Kansas
    assert is_land(-81.5, 28.0, us["land"])  # Florida
    assert not is_land(-75.0, 31.0, us["land"])  # Atlantic
    assert not is_land(-90.0, 27.0, us["land"])  # Gulf of Mexico
    assert us["borders"]
    brittany = coast(np.array([[47.6, -5.1], [48.9, -1.5]]))["land"]
    assert is_land(-3.0, 48.2, brittany)
    assert not is_land(-4.5, 47.6, brittany)


@pytest.mark.slow
def test_most_stations_stand_on_land():
    network = nareg.datasets.load("us-weather")
    land = coast(network.coordinates)["land"]
    assert np.mean([is_land(lon, lat, land) for lat, lon in network.coordinates]) > 0.95


def test_far_from_land_and_around_the_globe():
    assert coast(np.array([[-40.0, -130.0], [-38.0, -128.0]])) == {"land": [], "borders": []}
    assert coast(np.array([[10.0, -175.0], [12.0, 178.0]])) == {"land": [], "borders": []}


@pytest.mark.parametrize("place", [(48.0, -3.0), (-89.9, 0.0), (0.0, 179.9)])
def test_stations_at_one_place_have_a_map(place):
    rings = coast(np.array([place, place]))["land"]
    assert all(np.isfinite(ring).all() for ring in rings)


@pytest.mark.slow
@given(st.integers(3, 12), st.integers(0, 2**31))
def test_clipping_keeps_what_is_inside(corners, seed):
    """Area of a clipped convex polygon against random points."""
    rng = np.random.default_rng(seed)
    angles = np.sort(rng.uniform(0, 2 * np.pi, corners))
    ring = np.column_stack([np.cos(angles), np.sin(angles)])
    box = np.array([[-0.5, -0.4], [0.6, 0.7]])
    part = clip(ring, box)
    assert ((part >= box[0] - 1e-12) & (part <= box[1] + 1e-12)).all()
    for x, y in rng.uniform(-1, 1, (30, 2)):
        inside = bool(((box[0] < (x, y)) & ((x, y) < box[1])).all())
        flat = [part.ravel().tolist()] if len(part) else []
        assert is_land(x, y, flat) == (inside and is_land(x, y, [ring.ravel().tolist()]))


@pytest.mark.parametrize(
    ("places", "land", "sea"),
    [
        ([[-59.5, -163.5], [8.5, -90.5]], (-179.95, -16.8), (-130.0, -16.5)),  # Fiji's islands lie on the date line
        ([[-17.5, 177.0], [-16.5, 179.9]], (180.02, -16.85), (178.9, -16.0)),
        ([[62.0, 10.0], [70.0, 30.0]], (15.0, 65.06), (5.0, 65.06)),  # Eurasia goes over it at 65.06 degrees
        ([[51.0, 172.0], [68.0, 179.9]], (175.0, 67.0), (172.0, 58.0)),
        ([[62.0, -179.0], [68.0, -168.0]], (-175.0, 66.8), (-178.0, 63.0)),  # its other end
    ],
)
def test_land_across_the_date_line_is_in_one_piece(places, land, sea):
    rings = coast(np.array(places))["land"]
    assert is_land(*land, rings)
    assert not is_land(*sea, rings)


def test_only_the_land_around_the_pole_goes_around_the_globe():
    """Rings across the date line were drawn through all maps at their latitude."""
    wide = [line for line in _lines("land")[0] if np.abs(np.diff(line[:, 0])).max() > LEAP]
    assert len(wide) == 1
    assert wide[0][:, 1].max() < -60
