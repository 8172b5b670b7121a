"""Run a figure point by point. Every point is stored: a killed run continues where it stopped.

Every point is written to a file of its own, in a folder named by a hash of the figure's name, its settings, its source and
that of the library: a point is computed again if, and only if, one of these changed. Points are computed in one thread each,
so that the rounding of sums does not depend on the number of workers, and the CSV is put together in the order of the points.
"""

from __future__ import annotations

import csv
import hashlib
import importlib
import io
import json
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

from joblib import Parallel, delayed
from threadpoolctl import threadpool_limits

import nareg
from experiments._figure import Figure, Point, Row
from nareg._core.imports import load_package
from nareg.errors import NaregError
from nareg.results import atomic_write

if TYPE_CHECKING:
    from experiments._dask import Cluster

#: ``progress(points done, points in all)``
Progress = Callable[[int, int], None]
#: Modules of the library that no row comes from: command line and display.
NOT_COMPUTING = ("__main__.py", "cli", "demo", "plotting.py")
#: Packages that few experiments compute with -> how the names of these start.
OF_THEIR_OWN = {"herta": "herta", "unlearning": "unlearning", "cleaning": "time-aqi36"}
#: Digits of a number in the CSV.
DIGITS = 12


def load(name: str) -> Figure:
    """The figure that a module of this package defines."""
    figure: Figure = importlib.import_module(f"experiments.{name.replace('-', '_')}").FIGURE
    return figure


@cache
def sources() -> dict[str, str]:
    """File -> hash of its text, of the library and the experiments, as they were when this process first asked."""
    package, here = Path(nareg.__file__).parent, Path(__file__).parent
    library = [file for file in package.rglob("*.py") if file.relative_to(package).parts[0] not in NOT_COMPUTING]
    files = {f"nareg/{file.relative_to(package)}": file for file in library} | {file.stem: file for file in here.glob("*.py")}
    return {name: hashlib.sha256(file.read_bytes()).hexdigest() for name, file in sorted(files.items())}


def versions(figure: Figure) -> dict[str, str]:
    """Versions of what shapes the rows, beside the sources."""
    return {"nareg": nareg.__version__, **{name: version(name) for name in ("numpy", "scipy", *figure.versions)}}


def fingerprint(figure: Figure, settings: Any, under: dict[str, str] | None = None) -> str:
    """Hash of all that shapes the rows: settings, the source of the figure, its helpers and the library, and versions.

    ``under``: versions of another machine, in the place of those here.
    """
    own = (figure.module, "_figure", *figure.helpers)
    others = tuple(part for part, start in OF_THEIR_OWN.items() if not figure.name.startswith(start))
    apart = tuple(f"nareg/{part}/" for part in (*figure.apart_from, *others))
    facts = {
        "figure": figure.name,
        "settings": asdict(settings),
        "source": {
            name: text
            for name, text in sources().items()
            if name in own or (name.startswith("nareg/") and not name.startswith(apart))
        },
        "versions": list((under or versions(figure)).values()),
    }
    return hashlib.sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()[:16]


def run(
    figure: Figure,
    settings: Any,
    folder: Path,
    *,
    jobs: int = 1,
    cluster: Cluster | None = None,
    progress: Progress | None = None,
) -> list[Row]:
    """All rows of a figure, computing the points that are not in the cache.

    Parameters
    ----------
    figure : Figure
    settings : dataclass
        ``figure.full``, ``figure.quick`` or one's own.
    folder : path
        Cache folder for the points of all figures.
    jobs : int
        Worker processes. The rows do not depend on it.
    cluster : Cluster, optional
        Workers of a dask scheduler in the place of these processes.
    progress : callable, optional
        ``progress(points done, points in all)``.
    """
    points = figure.points(settings)
    mark = fingerprint(figure, settings)
    folder = folder / figure.name / mark
    folder.mkdir(parents=True, exist_ok=True)
    with atomic_write(folder / "settings.json", own=True) as handle:
        handle.write((json.dumps(asdict(settings), indent=1) + "\n").encode())
    files = [folder / f"{i:05d}.json" for i in range(len(points))]
    missing = [i for i, file in enumerate(files) if not file.is_file()]
    done = len(points) - len(missing)
    if progress is not None:
        progress(done, len(points))
    if cluster is None:
        finished = _processes(figure.name, settings, {i: points[i] for i in missing}, files, mark, jobs)
    else:
        finished = _workers(cluster, figure.name, settings, {i: points[i] for i in missing}, files, mark)
    for _ in finished:
        done += 1
        if progress is not None:
            progress(done, len(points))
    return [row for file in files for row in json.loads(file.read_text())]


def _processes(name: str, settings: Any, points: dict[int, Point], files: list[Path], mark: str, jobs: int) -> Iterator[None]:
    """Compute points in processes of this machine."""
    work = (delayed(_compute)(name, settings, point, files[i], mark) for i, point in points.items())
    workers = Parallel(
        n_jobs=min(jobs, max(len(points), 1)), return_as="generator_unordered", backend="loky",
        initializer=load_package, initargs=("experiments", Path(__file__).parent),
    )  # fmt: skip
    yield from workers(work)


def _workers(
    cluster: Cluster, name: str, settings: Any, points: dict[int, Point], files: list[Path], mark: str
) -> Iterator[None]:
    """Compute points on a cluster, whose workers need not see this folder."""
    for i, rows in cluster.compute(name, settings, points, mark):
        _write(rows, files[i])
        yield


def _compute(name: str, settings: Any, point: Point, file: Path, mark: str) -> None:
    """One point, written whole or not at all."""
    _write(computed(name, settings, point, mark), file)


def computed(name: str, settings: Any, point: Point, mark: str) -> list[Row]:
    """Rows of one point, if the source here is the one that was asked for."""
    figure = load(name)
    if fingerprint(figure, settings) != mark:
        raise NaregError(
            f"the source changed while {name} was running, or a worker has another one (or other versions): start it again."
        )
    with threadpool_limits(limits=1), _uninterrupted():
        rows = figure.compute(settings, point)
    return [{**point, **row} for row in rows]


def _write(rows: list[Row], file: Path) -> None:
    with atomic_write(file, own=True) as handle:
        handle.write(json.dumps(rows).encode())


@contextmanager
def _uninterrupted() -> Iterator[None]:
    """Ctrl-C ends the run even where a design kept its best point and went on: such a point must not be kept."""
    if threading.current_thread() is not threading.main_thread():  # signals are not delivered here
        yield
        return
    pressed = False

    def note(*_: Any) -> None:
        nonlocal pressed
        pressed = True
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGINT, note)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
    if pressed:
        raise KeyboardInterrupt


def write_csv(rows: list[Row], path: Path) -> None:
    """Rows as a CSV, whole or not at all; numbers with twelve digits."""
    text = io.StringIO()
    writer = csv.DictWriter(text, list(dict.fromkeys(key for row in rows for key in row)), lineterminator="\n")
    writer.writeheader()
    writer.writerows({key: f"{v:.{DIGITS}g}" if isinstance(v, float) else v for key, v in row.items()} for row in rows)
    with atomic_write(path) as handle:
        handle.write(text.getvalue().encode())
