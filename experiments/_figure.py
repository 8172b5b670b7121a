"""A figure: points that are computed one by one, a picture of them, and a verdict on every claim."""

from __future__ import annotations

import itertools
import tomllib
from collections.abc import Callable
from dataclasses import dataclass, replace
from enum import StrEnum
from pathlib import Path
from typing import Any

from nareg.errors import InputError

#: One line of the CSV.
Row = dict[str, Any]
#: What a point is computed from, beside the settings; JSON values only.
Point = dict[str, Any]


class Finding(StrEnum):
    """What became of a claim."""

    REPRODUCED = "reproduced"
    IN_PART = "reproduced in part"
    NOT = "not reproduced"
    NOT_RUN = "not run"
    #: Of an aim that this project sets itself.
    MET = "met"
    MET_IN_PART = "met in part"
    NOT_MET = "not met"


@dataclass(frozen=True)
class Verdict:
    """A claim of ``published.toml`` by its name, what was found, the measured numbers in a sentence, and why.

    ``on`` is a part of the verdict wherever it is shown: what it was found on, where that is not the data of the paper.
    """

    claim: str
    finding: Finding
    measured: str
    why: str = ""
    on: str = ""

    @property
    def stated(self) -> str:
        """The finding, and on what."""
        return f"{self.finding} {self.on}".rstrip()


@dataclass(frozen=True)
class Figure:
    """An experiment.

    ``full`` and ``quick`` are frozen dataclasses of settings. ``points(settings)`` lists what is to be computed;
    ``compute(settings, point)`` is a function of its arguments alone, so that a point gives the same rows in whatever
    process, order or run it is computed. ``draw(settings, rows)`` returns a matplotlib figure.
    """

    name: str
    title: str
    full: Any
    quick: Any
    points: Callable[[Any], list[Point]]
    compute: Callable[[Any, Point], list[Row]]
    draw: Callable[[Any, list[Row]], Any]
    judge: Callable[[Any, list[Row]], list[Verdict]]
    #: Modules of this package that the points are computed with, and parts of the library that they are not computed with:
    #: a change there leaves the results as they are.
    helpers: tuple[str, ...] = ("_methods", "_stations")
    apart_from: tuple[str, ...] = ("gnn",)
    #: Packages beside numpy and scipy whose versions are part of a result.
    versions: tuple[str, ...] = ()

    @property
    def module(self) -> str:
        """Its module: the name with underscores."""
        return self.name.replace("-", "_")


def claims(figure: str) -> dict[str, dict[str, str]]:
    """The published claims of a figure: name -> text, paper, section, figure."""
    with (Path(__file__).parent / "published.toml").open("rb") as handle:
        published: dict[str, dict[str, str]] = tomllib.load(handle).get(figure, {})
    return published


def check_snr(snr_db: tuple[float, ...]) -> None:
    """Figures against SNR judge what happens below 0 dB, from there up, and at the last step."""
    rising = all(a < b for a, b in itertools.pairwise(snr_db))
    if not rising or len(snr_db) < 2 or snr_db[0] >= 0 or snr_db[-1] < 0:
        raise InputError(f"snr_db is {snr_db}: give two or more in rising order, the first below 0 dB and the last not.")


def grade(holds: Any, *, aim: bool = False) -> Finding:
    """Reproduced (an ``aim`` met) where all of the parts hold, in part where any does; not run where there are none."""
    parts = [bool(part) for part in holds]
    if not parts:
        return Finding.NOT_RUN
    whole, in_part, none = (
        (Finding.MET, Finding.MET_IN_PART, Finding.NOT_MET) if aim else (Finding.REPRODUCED, Finding.IN_PART, Finding.NOT)
    )
    return whole if all(parts) else in_part if any(parts) else none


def instead(verdict: Verdict, on: str) -> Verdict:
    """The verdict on a claim about named data, found on others (``on``; empty: on these): reproduced in part at most."""
    if not on or verdict.finding is Finding.NOT_RUN:
        return verdict
    return replace(verdict, on=on, finding=Finding.IN_PART if verdict.finding is Finding.REPRODUCED else verdict.finding)


def elsewhere(verdicts: dict[str, list[Verdict]]) -> list[Verdict]:
    """Verdicts of the first setting, which is named, with what became of each claim in the others."""
    (name, first), *others = verdicts.items()
    verdicts_of_all = []
    for k, v in enumerate(first):
        others_say = "".join(f" {other[0].upper() + other[1:]}: {of[k].finding}." for other, of in others)
        verdicts_of_all.append(replace(v, measured=f"{name}: {v.measured}", why=(v.why + others_say).strip()))
    return verdicts_of_all


def mean_and_error(values: Any) -> tuple[float, float]:
    """Mean and its standard error."""
    import numpy as np

    array = np.asarray(values, dtype=float)
    error = float(array.std(ddof=1) / np.sqrt(array.size)) if array.size > 1 else float("nan")
    return float(array.mean()), error


def chosen(rows: list[Row], **keys: Any) -> list[Row]:
    """Rows with these values."""
    return [row for row in rows if all(row.get(key) == value for key, value in keys.items())]


def column(rows: list[Row], name: str, **keys: Any) -> list[float]:
    """Values of a column in the rows with these values."""
    return [row[name] for row in chosen(rows, **keys)]
