"""``nareg reproduce``: run figures, write picture, CSV and verdicts, and one page over all."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import nareg
from experiments import _dask, _engine
from experiments._figure import Figure, Row, Verdict, claims
from nareg.errors import InputError, MissingDependencyError, NaregError
from nareg.results import atomic_write

#: In the order of the page.
NODE_ADAPTIVE = ("fig1", "fig2", "fig3", "fig4", "fig5", "fig6", "example", "choices", "beyond", "theory")
GNN = (
    "gnn-clean", "gnn-rows", "gnn-noise", "gnn-noise-signed", "gnn-dependent", "gnn-tuned", "gnn-flips", "gnn-depth",
    "gnn-attack", "gnn-heterophily", "gnn-heterophily-long", "gnn-coauthor", "gnn-products", "gnn-filters",
    "gnn-interpolation", "gnn-adaptive",
)  # fmt: skip
HERTA = (
    "herta-loss", "herta-large", "herta-accuracy", "herta-decay", "herta-effects", "herta-sparsifier", "herta-cost",
    "herta-solver",
)  # fmt: skip
UNLEARNING = (
    "unlearning-edges",
    "unlearning-requests",
    "unlearning-bounds",
    "unlearning-cost",
    "unlearning-efficacy",
    "unlearning-large",
    "unlearning-residues",
    "unlearning-deep",
    "unlearning-last-layer",
    "unlearning-benchmark",
)
#: The field's benchmarks from noisy readings alone. "time" and "time-all" stand for all of them.
TIME = (
    "time-graphtrss", "time-snapshots", "time-forecast", "time-aqi36", "time-tsi", "time-us", "time-noaa", "time-learning",
    "time-stream", "time-edges",
)  # fmt: skip
FIGURES = NODE_ADAPTIVE + GNN + HERTA + UNLEARNING + TIME
#: Those that compute in NumPy and compiled loops alone: a torch device changes nothing. unlearning-last-layer and the peers of
#: unlearning-benchmark have torch on the CPU alone, and seconds are compared.
WITHOUT_DEVICE = (
    *NODE_ADAPTIVE, "herta-sparsifier", "unlearning-bounds", "unlearning-cost", "unlearning-last-layer", "unlearning-benchmark",
    *TIME,
)  # fmt: skip
#: Names that stand for several.
GROUPS = {
    "all": FIGURES, "node-adaptive": NODE_ADAPTIVE, "gnn": GNN, "herta": HERTA, "unlearning": UNLEARNING, "time": TIME,
    "time-all": TIME,
}  # fmt: skip
#: ``progress(figure, points done, points in all)``
Progress = Callable[[str, int, int], None]


@dataclass(frozen=True)
class Done:
    """A figure that has been run."""

    figure: Figure
    settings: Any
    quick: bool
    rows: list[Row]
    verdicts: list[Verdict]
    picture: Path
    table: Path


def wanted(names: Sequence[str]) -> list[str]:
    """Experiments by name; those of GROUPS stand for several."""
    named = [one for name in names for one in GROUPS.get(name, (name,))]
    unknown = [name for name in named if name not in FIGURES]
    if unknown:
        raise InputError(f"{unknown[0]!r} is not an experiment: choose from {', '.join((*FIGURES, *GROUPS))}.")
    return [name for name in FIGURES if name in named]


def assigned(assignments: Sequence[str], chosen: Sequence[str]) -> dict[str, list[str]]:
    """Experiment -> its assignments. One of several experiments is named: "time-us.draws=3"."""
    result: dict[str, list[str]] = {name: [] for name in chosen}
    for text in assignments:
        figure, dot, _ = text.partition("=")[0].partition(".")
        if dot and figure not in result:
            raise InputError(f"--set {text!r} is for {figure!r}, which is not run: choose from {', '.join(chosen)}.")
        if not dot and len(chosen) > 1:
            raise InputError(f"--set {text!r} does not say of which experiment: write --set {chosen[0]}.{text}.")
        result[figure if dot else chosen[0]].append(text.removeprefix(f"{figure}.") if dot else text)
    return result


def changed(settings: Any, assignments: Sequence[str]) -> Any:
    """Settings with "name=value" put in; a list is written with commas."""
    values: dict[str, Any] = {}
    known = [name for name in asdict(settings) if name != "device"]  # which has an option of its own
    for text in assignments:
        name, equals, value = text.partition("=")
        if not equals or name not in known:
            raise InputError(f"--set {text!r} is not name=value with one of the names {', '.join(known)}.")
        old = getattr(settings, name)
        kind = type(old[0] if isinstance(old, tuple) else old)
        try:
            read = [_as(kind, part) for part in value.split(",")] if isinstance(old, tuple) else _as(kind, value)
        except ValueError as error:
            raise InputError(f"--set {text!r}: {name} is {'a list of ' * isinstance(old, tuple)}{kind.__name__}.") from error
        values[name] = tuple(read) if isinstance(read, list) else read
    return replace(settings, **values)


def _as(kind: type, text: str) -> Any:
    """A setting from its text. No figure has an empty list; "true" and "false" are the only truth values."""
    word = text.strip()
    if kind is bool:
        if word not in ("true", "false"):
            raise ValueError(word)
        return word == "true"
    return kind(word)


def reproduce(
    names: Sequence[str],
    out: Path,
    *,
    quick: bool = False,
    jobs: int = 1,
    device: str | None = None,
    dask: str | None = None,
    assignments: Sequence[str] = (),
    progress: Progress | None = None,
) -> tuple[list[Done], dict[str, NaregError]]:
    """Run figures; results lie in ``out/<figure>.csv``, ``.png`` and ``.json`` as each is done, points in ``out/cache``.

    ``device`` is the torch device of those figures that have one. ``assignments`` change settings: "name=value" of the only
    figure, "figure.name=value" of one of several. ``dask`` is the address of a scheduler, or "local" (see _dask). Of several
    figures those that cannot be run here (a data set or an extra is missing) are left out; why, is the second part of what is
    returned.
    """
    chosen = wanted(names)
    changes = assigned(assignments, chosen)
    if device is not None:
        check_device(device)
    with nullcontext() if dask is None else _dask.cluster(dask, jobs) as cluster:
        return _run(chosen, out, quick, jobs, device, cluster, changes, progress)


def _run(
    chosen: Sequence[str],
    out: Path,
    quick: bool,
    jobs: int,
    device: str | None,
    cluster: _dask.Cluster | None,
    changes: dict[str, list[str]],
    progress: Progress | None,
) -> tuple[list[Done], dict[str, NaregError]]:
    out.mkdir(parents=True, exist_ok=True)
    done: list[Done] = []
    failed: dict[str, NaregError] = {}
    figures = {name: _engine.load(name) for name in chosen}
    # before anything is run: a mistake in the last one's settings must not cost the hours of the others
    settings_of = {name: changed(f.quick if quick else f.full, changes[name]) for name, f in figures.items()}
    for name, figure in figures.items():
        settings = settings_of[name]
        if device is not None and name not in WITHOUT_DEVICE:
            settings = replace(settings, device=device)
        report = None if progress is None else (lambda k, n, name=name: progress(name, k, n))
        try:
            rows = _engine.run(figure, settings, out / "cache", jobs=jobs, cluster=cluster, progress=report)
        except NaregError as error:
            if len(chosen) == 1:
                raise
            failed[name] = error
        else:
            done.append(_written(figure, settings, rows, out, quick))
    return done, failed


def check_device(name: str) -> None:
    """Refuse a torch device that is not on this machine."""
    try:
        from nareg._solvers._torch._device import resolve
    except ModuleNotFoundError as missing:
        raise MissingDependencyError(f"--device {name} needs torch ({missing}): pip install 'nareg[torch]'.") from missing
    resolve(name)


def _written(figure: Figure, settings: Any, rows: list[Row], out: Path, quick: bool) -> Done:
    import matplotlib.pyplot as plt

    stem = f"{figure.name}-quick" if quick else figure.name
    table, picture = out / f"{stem}.csv", out / f"{stem}.png"
    _engine.write_csv(rows, table)
    drawing = figure.draw(settings, rows)
    with atomic_write(picture) as handle:
        drawing.savefig(handle, format="png", dpi=130)
    plt.close(drawing)
    verdicts = figure.judge(settings, rows)
    published = claims(figure.name)
    unknown = {v.claim for v in verdicts} ^ set(published)
    if unknown:
        raise AssertionError(f"{figure.name}: claims and verdicts differ in {sorted(unknown)}")
    record = {
        "figure": figure.name,
        "title": figure.title,
        "quick": quick,
        "settings": asdict(settings),
        "fingerprint": _engine.fingerprint(figure, settings),
        "versions": _engine.versions(figure),
        "commit": commit(),
        "verdicts": [{**asdict(v), **published[v.claim]} for v in verdicts],
    }
    with atomic_write(out / f"{stem}.json") as handle:
        handle.write((json.dumps(record, indent=1) + "\n").encode())
    return Done(figure, settings, quick, rows, verdicts, picture, table)


def commit() -> str:
    """The commit that the experiments are run at, "-dirty" where files were changed since; empty outside a checkout."""
    command = ["git", "describe", "--always", "--dirty", "--abbrev=12", "--exclude=*"]
    try:
        answer = subprocess.run(command, cwd=Path(__file__).parent, capture_output=True, text=True, check=False)
    except OSError:  # no git
        return ""
    return answer.stdout.strip()


def page(done: Sequence[Done], failed: dict[str, NaregError], out: Path) -> Path:
    """One HTML page with every picture, claim and verdict, and what could not be run; readable without any other file."""
    import base64

    import jinja2

    environment = jinja2.Environment(loader=jinja2.FileSystemLoader(Path(__file__).parent), autoescape=True, trim_blocks=True)
    sections = [
        {
            "name": d.figure.name,
            "title": d.figure.title,
            "claims": claims(d.figure.name),
            "verdicts": d.verdicts,
            "picture": base64.b64encode(d.picture.read_bytes()).decode(),
            "table": d.table.name,
            "settings": asdict(d.settings),
        }
        for d in done
    ]
    text = environment.get_template("page.html.j2").render(
        sections=sections, failed=failed, version=nareg.__version__, quick=any(d.quick for d in done)
    )
    path = out / "reproduction.html"
    with atomic_write(path) as handle:
        handle.write(text.encode())
    return path
