"""``nareg design``."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np
import typer
from rich.markup import escape
from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

from nareg import progress as progress_report
from nareg.cli import inputs
from nareg.cli.inputs import (
    NEIGHBORS,
    Centering,
    Columns,
    Neighbors,
    ReadingsFile,
    StationsFile,
    Strict,
    console,
    errors,
    grouped,
)  # fmt: skip
from nareg.errors import InputError

#: Relative projected gradient at which designs call a descent converged.
TARGET = 1e-4


@grouped
def design(
    stations: StationsFile,
    readings: ReadingsFile,
    out: Annotated[Path, typer.Option(help="weights.csv (station, weight) or design.npz (all of it).")] = Path("design.npz"),
    method: Annotated[
        Literal["blind", "exact", "edge", "relaxation", "prony", "minmax", "gcv", "sure", "oracle", "chen-liu"],
        typer.Option(help="blind, gcv and sure design from noisy readings; the others from a clean history."),
    ] = "blind",
    noise: Annotated[
        str | None, typer.Option(help="Noise variance: a number, or a CSV with columns station, variance.")
    ] = None,
    noise_std: Annotated[
        str | None,
        typer.Option("--noise-std", help="Noise standard deviation instead: a number, or a CSV with columns station, std."),
    ] = None,
    noise_weighted: Annotated[
        bool,
        typer.Option("--noise-weighted", help="Weight each station's readings by 1 / variance (unequal sensors)."),
    ] = False,
    neighbors: Neighbors = NEIGHBORS,
    center: Centering = "global",
    *,
    columns: Columns,
    strict: Strict = False,
) -> None:
    """Design one weight per station from readings.

    Readings may have gaps. A station without readings is left out; `nareg interpolate` estimates it from its neighbors. Methods
    blind and sure estimate the noise variance per station if --noise is not given. Methods that design from a clean history
    need --noise, because a clean history contains no noise.
    """
    from nareg import design as designs
    from nareg import io
    from nareg.cli import plausibility

    used = tuple(Path(value) for value in (noise, noise_std) if value is not None and inputs.is_file(value))
    inputs.output(out, (".csv", ".npz"), stations, readings, *used, *columns.files)
    from_noisy = method in ("blind", "gcv", "sure")
    if noise is None and noise_std is None and not from_noisy:
        raise InputError(
            f"--method {method} designs from a clean history, which contains no noise: pass the noise variance as --noise (or "
            "--noise-std), or use --method blind with noisy readings."
        )
    if method == "edge" and out.suffix.lower() == ".csv":
        raise InputError(
            f"--out {out}: an edge design has one weight per edge, and a CSV file has one per station; write an .npz file."
        )
    graph, names, table, all_names = inputs.network(stations, readings, neighbors, strict=strict, recipe=columns.of_one())
    seen = table.observed
    if not seen.any():
        raise InputError(f"{readings} contains no reading: pass a file with readings.")
    plausibility.check_readings(readings, names, table.values, seen)
    mean = inputs.mean(table.values, center)
    X = np.where(seen, table.values - mean, 0.0)
    variance = inputs.noise_variance(noise, noise_std, names, all_names)
    if variance is not None:
        plausibility.noise_line(variance, "given")
        if from_noisy:
            plausibility.refuse_more_noise_than_readings(variance, table.values, seen)
    elif method != "gcv":
        variance = designs.estimate_noise(graph, X, observed=seen)
        plausibility.noise_line(variance, "estimated")
    data_weight = "noise" if noise_weighted else None
    data: dict[str, Any] = {"measurements": X, "observed": seen, "noise": variance, "data_weight": data_weight}
    rule: Any = method
    with _steps(f"{method} design") as progress:

        def from_clean(graph: Any, signals: np.ndarray, noise: Any) -> Any:
            data: dict[str, Any] = {"noise": noise, "data_weight": data_weight}
            if method == "minmax":
                return designs.minmax(
                    graph, signal_low=signals.min(axis=1), signal_high=signals.max(axis=1), **data, progress=progress
                )
            if method in ("oracle", "chen-liu"):
                return designs.node_invariant(graph, rule=rule, signals=signals, **data)
            return getattr(designs, method)(graph, signals=signals, **data, progress=progress)

        if method == "blind":
            result = designs.blind(graph, **data, progress=progress)
        elif from_noisy:
            result = designs.node_invariant(graph, rule=rule, **data)
        else:
            result = plausibility.from_history(from_clean, graph, X, seen, variance, names, per_edge=method == "edge")
    result.settings.update(center=center, mean=np.ravel(mean).tolist(), names=list(names), neighbors=neighbors)
    result.settings.update(readings=plausibility.facts(table.values, seen))
    console.print(escape(result.summary()))
    if out.suffix.lower() == ".csv":
        io.write_weights(out, names, result.weights, result.data_weight)
        console.print("a CSV file stores neither mean nor graph: apply it with the same -k and --center, or write an .npz file")
    else:
        result.save(out)
    console.print(f"written: {escape(str(out))}", soft_wrap=True)


@contextmanager
def _steps(title: str) -> Iterator[Any]:
    """A spinner with step, objective, gradient norm and time left; Ctrl-C in the design keeps the best weights so far."""
    left = TimeLeft()
    columns = (SpinnerColumn(), TextColumn("{task.description}"), TimeElapsedColumn())
    with Progress(*columns, console=errors, transient=True, disable=not errors.is_terminal) as bar:
        line = bar.add_task(title, total=None)

        def progress(now: progress_report.Progress) -> None:
            objective, gradient = now.values["objective"], now.values["gradient_norm"]
            state = f"step {now.step}, objective {objective:.6g}, gradient {gradient:.1e}, {duration(left.step(gradient))}"
            bar.update(line, description=f"{title}: {state}")

        yield progress


class TimeLeft:
    """Estimates the seconds left from the last steps' gradient norms (a straight line through their logarithms)."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._steps: deque[tuple[float, float]] = deque(maxlen=20)

    def step(self, gradient: float) -> float | None:
        """Record a step; seconds left, or None while the gradient does not shrink."""
        self._steps.append((self._clock(), float(np.log(max(gradient, 1e-300)))))
        if len(self._steps) < 4:
            return None
        seconds, logs = np.array(self._steps).T
        spread = seconds - seconds.mean()
        if not spread.any():
            return None
        slope = float(spread @ logs / (spread @ spread))
        ahead = float(logs[-1] - np.log(TARGET))
        if ahead <= 0:
            return 0.0
        return None if slope >= 0 else -ahead / slope


def duration(seconds: float | None) -> str:
    """The time left as text: ``about 3 min left``."""
    if seconds is None:
        return "time left unknown"
    if seconds < 90:
        return f"about {max(seconds, 1):.0f} s left"
    return f"about {seconds / 60:.0f} min left" if seconds < 5400 else f"about {seconds / 3600:.0f} h left"
