"""The report of a cleaned network: one self-contained HTML page."""

from __future__ import annotations

import base64
import io
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from jinja2 import Environment, PackageLoader, StrictUndefined, select_autoescape

from nareg import __version__
from nareg.cleaning import _pictures
from nareg.cleaning._words import number, plural
from nareg.quality._results import events
from nareg.results import atomic_write

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from nareg.cleaning._results import Cleaned

#: Rows of the table of suspects; the page says how many more there are.
MAX_SUSPECTS = 40


def write(cleaned: Cleaned, path: Path) -> Path:
    """Write the page, whole or not at all."""
    environment = Environment(
        loader=PackageLoader("nareg"), autoescape=select_autoescape(default=True), undefined=StrictUndefined, trim_blocks=True,
        lstrip_blocks=True,
    )  # fmt: skip
    environment.filters["number"] = number
    page = environment.get_template("clean.html.j2").render(_facts(cleaned))
    with atomic_write(path) as handle:
        handle.write(page.encode())
    return path


def _facts(cleaned: Cleaned) -> dict[str, Any]:
    table = cleaned.network.readings
    stations, times = table.values.shape
    suspects = events(cleaned.quality.suspects) if cleaned.quality is not None else ()
    return {
        "cleaned": cleaned,
        "headline": cleaned.headline()[0].upper() + cleaned.headline()[1:],
        "unit": f" {cleaned.unit}" if cleaned.unit else "",
        "stations": plural(stations, "station"),
        "times": plural(times, "time"),
        "missing": 100 * float(np.isnan(table.values).mean()),
        "span": f"{table.times[0]} to {table.times[-1]}",
        "counts": _flag_counts(cleaned),
        "suspects": [
            {
                "name": s.name, "kind": s.kind, "score": "-" if not np.isfinite(s.score) else f"{s.score:.1f}",
                "start": _label(cleaned, s.start), "stop": _label(cleaned, s.stop), "evidence": s.evidence,
            }
            for s in suspects[:MAX_SUSPECTS]
        ],
        "more_suspects": max(len(suspects) - MAX_SUSPECTS, 0),
        "errors": list(cleaned.errors.iterrows()),
        "coverage": list(cleaned.coverage.itertuples(index=False)),
        "pictures": {name: _encoded(figure) for name, figure in _pictures.draw(cleaned).items()},
        "choices": _choices(cleaned),
        "version": __version__,
    }  # fmt: skip


def _label(cleaned: Cleaned, time: np.datetime64 | float) -> str:
    """A time as the table writes it."""
    stamps = cleaned.network.readings.timestamps
    if stamps is None:
        return str(time)
    place = np.flatnonzero(stamps == time)
    return cleaned.network.readings.times[int(place[0])] if place.size else str(time)


def _flag_counts(cleaned: Cleaned) -> list[tuple[str, int]]:
    flags = cleaned.flags.to_numpy()
    names = ((1, "good"), (2, "not evaluated"), (3, "suspect"), (4, "bad"), (9, "missing"))
    return [(f"{name} ({code})", int((flags == code).sum())) for code, name in names if (flags == code).any()]


def _choices(cleaned: Cleaned) -> list[tuple[str, str]]:
    """What the fit tried: a log-likelihood, or a gain at readings that it hid, with its standard error."""
    if cleaned.model is None:
        return []
    rows = []
    for name, value, error in cleaned.model.details.choices:
        text = f"log-likelihood {value:.6g}" if np.isnan(error) else f"error {-100 * value:+.1f} ± {100 * error:.1f} %"
        rows.append((str(name), text))
    return rows


def _encoded(figure: Figure) -> str:
    handle = io.BytesIO()
    figure.savefig(handle, format="png", bbox_inches="tight", dpi=130)
    return base64.b64encode(handle.getvalue()).decode()
