"""Clean directions: as unit vectors, whose two components are cleaned as numbers, judged around the circle."""

from __future__ import annotations

from dataclasses import dataclass, replace
from time import perf_counter
from typing import TYPE_CHECKING

import numpy as np
from scipy.special import ndtri

from nareg.cleaning import _compare
from nareg.cleaning._cleaned import Cleaned
from nareg.cleaning._compare import Hidden
from nareg.cleaning._kinds import UNKNOWN, Wind, components, of_component, to_degrees, turn, turn_std
from nareg.cleaning._learn import Job, learn, portion
from nareg.cleaning._methods import MODEL, SpaceTimeMethod
from nareg.cleaning._steps import COMPARED, FITTED, Compared, choose, compare, frame, rule_notes, screen, size_of
from nareg.quality import Flag
from nareg.spacetime import LEVELS, Bounds, DirectionModels, SpaceTimeModel, SparseSpaceTimeModel, hide

if TYPE_CHECKING:
    import pandas as pd

#: Bounds of a component, over its largest reading, that no estimate reaches: readings of 1 are no limit of what it follows.
BEYOND = 2.0
SAID = (
    "The readings are taken for directions: they are cleaned as unit vectors, and errors and bands go around the circle. "
    "If they are numbers, pass kind='number'."
)


@dataclass(frozen=True, eq=False)
class _Component:
    """East or north, with what every method predicts of it."""

    job: Job
    compared: Compared

    @classmethod
    def of(
        cls, job: Job, values: np.ndarray, part: tuple[float, float], screened: np.ndarray, chosen: np.ndarray
    ) -> _Component:
        """Values (N, T) of the component; it takes ``part`` of the progress."""
        network = replace(job.network, readings=replace(job.network.readings, values=values, unit=None))
        most = BEYOND * max(1.0, float(np.nanmax(np.abs(values))))
        settings = replace(job.settings, transform=None, unit=None, bounds=(-most, most))
        own = replace(
            job, network=network, settings=settings, rules=of_component(job.rules),
            notes=list(network.notes), report=portion(job.report, *part),
        )  # fmt: skip
        usable = np.where(screened, np.nan, values)
        model, quality, without, _ = learn(own, chosen | job.beyond, FITTED)
        return cls(own, compare(own, model, quality, screened | without, chosen, np.where(chosen, np.nan, usable)))

    def estimated(self, name: str) -> tuple[np.ndarray, np.ndarray]:
        """Estimate and standard deviation by a method."""
        method = self.compared.methods[name]
        x = method.estimate(self.compared.good, portion(self.job.report, COMPARED, 1.0))
        return x, method.band(self.job.y, self.compared.hidden)

    def model(self) -> SpaceTimeModel | SparseSpaceTimeModel | None:
        """The model with all good readings; None without one."""
        method = self.compared.methods.get(MODEL)
        if not isinstance(method, SpaceTimeMethod):
            return None
        good = self.compared.good
        return replace(method.model, readings=good, excluded=np.zeros(good.shape, dtype=bool), bounds=self.compared.ends)

    def reading_std(self) -> np.ndarray | None:
        """Standard deviation that the model expects of predicted readings; None without a model."""
        method = self.compared.methods.get(MODEL)
        if not isinstance(method, SpaceTimeMethod):
            return None
        low, high = method.prediction.interval(_compare.ONE_SIGMA, of="reading", calibrated=False)
        return (high - low) / 2 * method.prediction.factors()


def run(job: Job) -> Cleaned:
    """Clean directions that are in memory."""
    marks = [perf_counter()]
    network, settings, y = job.network, replace(job.settings, unit=job.settings.unit or "degrees"), job.y
    signed = bool(np.nanmin(y) < 0)
    job.note(SAID if settings.kind == "auto" else None)
    job.note("Directions are not corrected." if job.rules.correct else None)
    job.note("Directions are not compared with a reference." if job.rules.reference else None)
    parts = components(y)
    own: np.ndarray | None = None
    median = 1.0
    if isinstance(settings.kind, Wind):
        length, own, median = settings.kind.lengths(network)
        parts = (parts[0] * length, parts[1] * length)
    screened = screen(y % 360, job.spared) | job.beyond
    chosen = hide(np.where(screened, np.nan, y % 360).T, job.share, job.rng).T
    halves = [
        _Component.of(job, values, part, screened, chosen) for values, part in zip(parts, ((0.0, 0.5), (0.5, 1.0)), strict=True)
    ]
    marks.append(perf_counter())
    east, north = (half.compared for half in halves)
    predicted = {
        name: y + turn(to_degrees(method.predicted, north.methods[name].predicted, signed=signed), y)
        for name, method in east.methods.items()
        if name in north.methods
    }
    flags = np.maximum(east.flags, north.flags)
    hidden = Hidden.of(chosen, y, east.bad | north.bad)
    errors = _compare.table(y, predicted if hidden.enough else {}, hidden)
    name, why = choose(y, predicted, hidden)
    coverage, stretch = _coverage(y, halves, predicted.get(MODEL), hidden)
    marks.append(perf_counter())
    (x_east, std_east), (x_north, std_north) = (half.estimated(name) for half in halves)
    x, std = to_degrees(x_east, x_north, signed=signed), turn_std(x_east, x_north, (std_east, std_north))
    std = np.minimum(std * (stretch if name == MODEL else 1.0), UNKNOWN)
    for what, half in zip(("east", "north"), halves, strict=True):
        for note in half.job.notes[len(network.notes) :]:
            job.note(f"The part to the {what}: {note}")
    judged = [half.compared.quality for half in halves if half.compared.quality is not None]
    dismissed = tuple(s for quality in judged for s in quality.dismissed)
    shown = replace(judged[0], suspects=(), dismissed=dismissed) if judged else None
    job.notes.extend(rule_notes(job, shown, ()))
    vectors = "vectors as long as the speed" if isinstance(settings.kind, Wind) else "unit vectors"
    reasons = [
        ("network", size_of(network.readings)),
        ("kind", f"directions, cleaned as {vectors}"),
        ("method", f"{name}; {why}"),
    ]
    for what, part in (("east", east), ("north", north)):
        method = part.methods.get(MODEL)
        if isinstance(method, SpaceTimeMethod):
            reasons.append((f"model of the part to the {what}", method.model.details.chosen))
            reasons += [(f"covariates of the part to the {what}", line) for line in method.model.covariate_lines]
    models = tuple(half.model() for half in halves)
    directed = None
    if models[0] is not None and models[1] is not None:
        directed = DirectionModels(models[0], models[1], signed, stretch, own, median)
    job.tick("done", 1.0)
    marks.append(perf_counter())
    healthy = ~(flags == Flag.BAD).all(axis=1)
    _, clean_error = _compare.typical_errors(None, std, np.isfinite(y), flags == Flag.BAD, healthy)
    return Cleaned(
        x=frame(network.readings, x), std=frame(network.readings, std), flags=frame(network.readings, flags), model=None,
        edges=None, quality=None, errors=errors, method=name, notes=tuple(job.notes), reading_error=np.nan,
        clean_error=clean_error, coverage=coverage, unit=settings.unit, network=network, hidden=hidden.mask, smoothed=None,
        drift=np.zeros(y.shape), bounds=Bounds(-np.inf, np.inf), replaced=np.zeros(y.shape, dtype=bool),
        reasons=tuple(reasons), kind="direction", rules=job.rules, directed=directed,
        timings=dict(zip(("fit", "compare", "smooth"), np.diff(marks).tolist(), strict=True)) | {"total": marks[-1] - marks[0]},
    )  # fmt: skip


def _coverage(
    y: np.ndarray, halves: list[_Component], predicted: np.ndarray | None, hidden: Hidden
) -> tuple[pd.DataFrame, float]:
    """Shares of the hidden readings inside bands around the circle, and a factor for the standard deviations."""
    import pandas as pd

    stds = [half.reading_std() for half in halves]
    if predicted is None or not hidden.enough or stds[0] is None or stds[1] is None:
        return pd.DataFrame({"nominal": [], "observed": []}, dtype=float), 1.0
    east, north = (half.compared.methods[MODEL].predicted for half in halves)
    std = turn_std(east, north, (stds[0], stds[1]))[hidden.mask]
    off = np.abs(predicted - y)[hidden.mask]
    # a component knows the noise across a direction and along it, which is less, in the mean of both alone
    ratio = float(np.sqrt(np.mean(off**2) / np.mean(std**2)))
    stretch = ratio if ratio > 1 + _compare.TOLERATED else 1.0
    shares = [float(np.mean(off <= ndtri(0.5 + level / 2) * stretch * std)) for level in LEVELS]
    return pd.DataFrame({"nominal": LEVELS, "observed": shares}), stretch
