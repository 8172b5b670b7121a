"""Clean, design, write the page."""

from __future__ import annotations

import base64
import hashlib
import json
import os
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from markupsafe import Markup

from nareg.cleaning import Cleaned, portion
from nareg.cleaning import render as render_template
from nareg.errors import InputError, TooLargeError
from nareg.explorer._payload import design_grid, payload
from nareg.explorer._source import Scene, scene
from nareg.progress import Progress, ProgressCallback
from nareg.quality import Flag
from nareg.results import atomic_write

if TYPE_CHECKING:
    from nareg.cleaning import ReadingsLike, StationsLike
    from nareg.datasets import SensorNetwork, SimulatedNetwork

#: The scripts in the order in which they need each other.
SCRIPTS = (
    "unpack", "random", "solve", "state", "model", "colors", "draw", "map", "chart", "suspects", "advice", "export", "controls",
    "main",
)  # fmt: skip
#: What the browser lets the page do: run this script, and load nothing.
POLICY = "default-src 'none'; style-src 'unsafe-inline'; script-src 'sha256-{digest}'; img-src data: blob:; base-uri 'none'"
#: Largest page in bytes.
LARGEST = 5_000_000

#: Share of the work that cleaning takes.
CLEANED = 0.7
#: Noise of readings is at least this share of the signal power, so that designs exist.
LEAST_NOISE = 1e-4


def explore(
    source: ReadingsLike | SensorNetwork | SimulatedNetwork | Cleaned, stations: StationsLike | None = None, *,
    path: str | os.PathLike[str] = "explore.html", unit: str | None = None, strict: bool = False, neighbors: int = 7,
    rng: np.random.Generator | None = None, progress: ProgressCallback | None = None,
) -> Path:  # fmt: skip
    """Write one HTML page to explore a network: map, series, suspect stations, other methods, noise and gaps.

    The page works without a network. It solves the denoiser itself, so that you can silence a station, add noise or hide
    readings, and see what the estimate becomes.

    Parameters
    ----------
    source : DataFrame, path, Readings, str, SensorNetwork, SimulatedNetwork or Cleaned
        Readings as :func:`nareg.clean` takes them, with their ``stations``; or the name of a sensor network of
        :mod:`nareg.datasets` such as ``"us-weather"``; or a network; or the result of :func:`nareg.clean`, which is not
        cleaned again.
    stations : DataFrame, path, Stations or Graph, optional
        A row per station: station, latitude and longitude, or x and y. Not for sources that have their own.
    path : path
        The HTML file to write.
    unit : str, optional
        Unit of the readings, such as ``"°C"``.
    strict : bool
        Raise an error where the format of a table is ambiguous.
    neighbors : int
        Nearest neighbors per station; not used for sources with a graph of their own.
    rng : numpy.random.Generator, optional
        Chooses the readings that :func:`nareg.clean` hides. Default: ``numpy.random.default_rng(0)``.
    progress : callable, optional
        Called with a :class:`~nareg.progress.Progress` per step.

    Returns
    -------
    pathlib.Path
        The file.

    Raises
    ------
    InputError
        If a table cannot be read, or the network has one station, no edges or constant readings.
    TooLargeError
        Above 500 stations or 400,000 readings.

    Notes
    -----
    The estimate and its bands come from :func:`nareg.clean`. Weights of three designs at eight noise levels come from
    :mod:`nareg.design`, learned from every other tenth of the times. Everything else is computed in the page.

    Examples
    --------
    >>> import tempfile, numpy as np, nareg
    >>> network = nareg.datasets.simulated(6, 60, faults=(), rng=np.random.default_rng(0))
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     page = nareg.explore(network, path=f"{folder}/explore.html")
    ...     print(page.name, page.stat().st_size < 5_000_000)
    explore.html True
    """
    report: ProgressCallback = progress or (lambda _: None)
    seen = scene(
        source, stations, unit=unit, strict=strict, neighbors=neighbors, rng=rng, progress=portion(report, 0.0, CLEANED)
    )
    return write_page(seen, Path(path), portion(report, CLEANED, 1.0))


def write_page(seen: Scene, path: Path, progress: ProgressCallback) -> Path:
    """Design the filters of the page, and write it."""
    field, own_noise = basis(seen)
    graph = seen.cleaned.network.graph
    grid = design_grid(graph, field, own_noise, lambda stage, part: progress(Progress(stage, fraction=part)))
    written = write(payload(seen, grid), path)
    progress(Progress("done", fraction=1.0))
    return written


def basis(seen: Scene) -> tuple[np.ndarray, float]:
    """The field (N, T) without gaps that designs learn from, and the variance of the readings' own noise.

    A data set's record is its own field; noisy readings are replaced by their estimate. A record counts as noise-free.
    """
    cleaned = seen.cleaned
    y, x = cleaned.network.readings.values, cleaned.x.to_numpy().T
    good = np.isfinite(y) & (cleaned.flags.to_numpy().T != Flag.BAD)
    field = np.where(good, y, x) if seen.record else x
    power = float(np.mean((field - field.mean(axis=1, keepdims=True)) ** 2))
    if power <= 1e-24 * float(np.mean(field**2)) or power == 0:
        raise InputError("readings are constant: there is nothing to explore.")
    own = cleaned.reading_error**2
    if seen.record:
        own = 0.0
    elif not np.isfinite(own):
        own = float(np.median((y - x)[good] ** 2)) if good.any() else 0.0
    return field, max(own, LEAST_NOISE * power)


def write(data: dict[str, Any], path: Path) -> Path:
    """Write the page, whole or not at all."""
    page = render(data).encode()
    if len(page) > LARGEST:
        raise TooLargeError(
            f"the page would have {len(page) / 1e6:.1f} MB, more than {LARGEST / 1e6:g}: pass fewer times or stations."
        )
    with atomic_write(path) as handle:
        handle.write(page)
    return path


def render(data: dict[str, Any]) -> str:
    """The page as text."""
    folder = files("nareg") / "templates" / "explore"
    script = "\n".join((folder / f"{name}.js").read_text(encoding="utf-8") for name in SCRIPTS)
    script = f'"use strict";\n(() => {{\n{script}\n}})();'
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    return render_template(
        "explore/page.html.j2",
        style=Markup((folder / "style.css").read_text(encoding="utf-8")),
        script=Markup(script),
        policy=POLICY.format(digest=digest),
        data=Markup(as_json(data)),
        title=data["title"],
        n_stations=len(data["names"]),
        n_times=len(data["times"]),
        version=data["version"],
    )


def as_json(data: dict[str, Any]) -> str:
    """JSON that no text inside can break out of: in a script element, ``<``, ``>`` and ``&`` are escaped."""
    text = json.dumps(data, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    for character in "<>&\u2028\u2029":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return text
