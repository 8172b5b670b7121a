"""Make ``nareg/datasets/bundled/natural_earth.npz`` from the npm package world-atlas 2.0.2 (see the NOTICE beside it).

Usage: ``npm pack world-atlas@2.0.2 && tar xzf world-atlas-2.0.2.tgz && python data/natural_earth.py package natural_earth.npz``
"""

from __future__ import annotations

import json
import sys
from collections import Counter
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

#: Steps per degree: 370 m.
SCALE = 300
#: Longest step of one part of a line, so that steps fit 16 bits.
LONGEST = 30_000


def topology(path: Path) -> tuple[dict[str, Any], list[np.ndarray]]:
    """The objects of a TopoJSON file, and its arcs in degrees."""
    content = json.loads(path.read_text())
    scale, origin = (np.array(content["transform"][key]) for key in ("scale", "translate"))
    return content["objects"], [np.cumsum(np.array(arc), axis=0) * scale + origin for arc in content["arcs"]]


def rings(geometries: list[dict[str, Any]]) -> list[list[int]]:
    """Lists of arcs, one per ring; ``~k`` is arc k backwards."""
    shapes = [g["arcs"] if g["type"] == "MultiPolygon" else [g["arcs"]] for g in geometries if g.get("arcs")]
    return [ring for polygons in shapes for polygon in polygons for ring in polygon]


def joined(ring: list[int], arcs: list[np.ndarray]) -> np.ndarray:
    """The points of a ring; each arc begins where the one before ends."""
    parts = [arcs[k] if k >= 0 else arcs[~k][::-1] for k in ring]
    return np.concatenate([parts[0], *(part[1:] for part in parts[1:])])


def packed(lines: list[np.ndarray], fewest: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """First points, steps between points, and numbers of points."""
    kept = []
    for line in lines:
        points = np.rint(line * SCALE).astype(np.int64)
        points = points[np.r_[True, (np.diff(points, axis=0) != 0).any(axis=1)]]
        if len(points) < fewest:
            continue
        whole = [points[0]]
        for a, b in pairwise(points):
            count = max(int(np.ceil(np.abs(b - a).max() / LONGEST)), 1)
            whole += [np.rint(a + (b - a) * (k + 1) / count).astype(np.int64) for k in range(count)]
        kept.append(np.array(whole))
    steps = np.concatenate([np.diff(points, axis=0) for points in kept])
    return np.array([points[0] for points in kept], np.int32), steps.astype(np.int16), np.array(list(map(len, kept)), np.int32)


def main(folder: Path, out: Path) -> None:
    """Write land rings of 1:10 million and borders of 1:50 million."""
    objects, arcs = topology(folder / "land-10m.json")
    land = packed([joined(ring, arcs) for ring in rings(objects["land"]["geometries"])], 3)
    objects, arcs = topology(folder / "countries-50m.json")
    uses = Counter(k if k >= 0 else ~k for ring in rings(objects["countries"]["geometries"]) for k in ring)
    borders = packed([arcs[k] for k, count in uses.items() if count > 1], 2)
    parts = ("starts", "steps", "lengths")
    arrays = {
        f"{name}_{part}": array
        for name, layer in (("land", land), ("borders", borders))
        for part, array in zip(parts, layer, strict=True)
    }
    np.savez_compressed(out, allow_pickle=False, scale=np.array(SCALE), **arrays)


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
