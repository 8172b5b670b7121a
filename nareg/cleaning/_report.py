"""What a cleaning writes: one self-contained HTML page, its tables and its model, each file whole or not at all.

CSV has labels as in the input and a column per station, Parquet typed times. netCDF is one file with the stations' places.
"""

from __future__ import annotations

import base64
import io
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from nareg import __version__
from nareg.cleaning._results import CleanedTables, decimals
from nareg.cleaning._station_table import silence, station_table
from nareg.cleaning._words import number, plural, readable
from nareg.io import Readings, write_bytes, write_rows
from nareg.quality import Flag, events
from nareg.quality import time as written
from nareg.results import atomic_write

if TYPE_CHECKING:
    import pandas as pd
    import xarray
    from matplotlib.figure import Figure

#: Rows of the table of suspects; the page says how many more there are.
MAX_SUSPECTS = 40
#: Rows of the table of stations.
MAX_STATIONS = 200
#: Pixels per inch of the pictures.
DPI = 130
TABLES = ("clean", "std", "flags")
#: Columns of a tidy table before its values.
TIDY = ("time", "station")
REPORT = "report.html"
MODEL = "model.npz"
CORRECTIONS, OWN_TIMES = "corrections.csv", "own_times.csv"
FORMATS = ("csv", "parquet", "netcdf")


def render(template: str, **facts: Any) -> str:
    """A page as text."""
    from jinja2 import Environment, PackageLoader, StrictUndefined, select_autoescape  # imported when first needed

    templates = Environment(
        loader=PackageLoader("nareg"), autoescape=select_autoescape(default=True), undefined=StrictUndefined, trim_blocks=True,
        lstrip_blocks=True,
    )  # fmt: skip
    templates.filters["number"] = number
    return templates.get_template(template).render(facts)


def write_page(path: Path, template: str, **facts: Any) -> None:
    """Write a page, whole or not at all."""
    page = render(template, **facts)
    with atomic_write(path) as handle:
        handle.write(page.encode())


def write(cleaned: CleanedTables, path: Path) -> Path:
    """Write the page of a cleaned network."""
    write_page(path, "clean.html.j2", **_facts(cleaned))
    return path


def _facts(cleaned: CleanedTables) -> dict[str, Any]:
    from nareg.cleaning._pictures import draw  # matplotlib: imported when first needed

    table = cleaned.network.readings
    stations, times = table.values.shape
    ends = table.timestamps
    suspects = events(cleaned.quality.suspects) if cleaned.quality is not None else ()
    table_of = station_table(cleaned)
    table_of = table_of.iloc[np.argsort(table_of["faults"] == "", kind="stable")]  # suspects first
    return {
        "cleaned": cleaned,
        "headline": cleaned.headline()[0].upper() + cleaned.headline()[1:],
        "unit": f" {cleaned.unit}" if cleaned.unit else "",
        "stations": plural(stations, "station"),
        "times": plural(times, "time"),
        "missing": 100 * float(np.isnan(table.values).mean()),
        "span": " to ".join(table.times[t] if ends is None else _label(cleaned, ends[t]) for t in (0, -1)),
        "counts": _flag_counts(cleaned),
        "suspects": [
            {
                "name": s.name, "kind": s.kind, "score": "-" if not np.isfinite(s.score) else f"{s.score:.1f}",
                "start": _label(cleaned, s.start), "stop": _label(cleaned, s.stop), "evidence": s.evidence,
            }
            for s in suspects[:MAX_SUSPECTS]
        ],
        "dismissed": events(cleaned.quality.dismissed) if cleaned.quality is not None else (),
        "more_suspects": max(len(suspects) - MAX_SUSPECTS, 0),
        "rows": list(table_of.head(MAX_STATIONS).iterrows()), "more_rows": max(len(table_of) - MAX_STATIONS, 0),
        "silence": silence(cleaned),
        "errors": list(cleaned.errors.iterrows()),
        "coverage": list(cleaned.coverage.itertuples(index=False)),
        "pictures": {name: _encoded(figure, cropped=name == "map") for name, figure in draw(cleaned).items()},
        "choices": _choices(cleaned),
        "version": __version__,
    }  # fmt: skip


def _label(cleaned: CleanedTables, time: np.datetime64 | float) -> str:
    """A time as the table writes it, if that can be read."""
    stamps = cleaned.network.readings.timestamps
    if stamps is None:
        return str(time)
    place = np.flatnonzero(stamps == time)
    return readable(cleaned.network.readings.times[int(place[0])], written(time)) if place.size else str(time)


def _flag_counts(cleaned: CleanedTables) -> list[tuple[str, int]]:
    flags = cleaned.flags.to_numpy()
    names = {flag: flag.name.lower() for flag in Flag} | {Flag.UNKNOWN: "not evaluated"}
    return [(f"{name} ({flag:d})", int((flags == flag).sum())) for flag, name in names.items() if (flags == flag).any()]


def _choices(cleaned: CleanedTables) -> list[tuple[str, str]]:
    """What the fit tried: a log-likelihood, or a gain at readings that it hid, with its standard error."""
    if cleaned.model is None:
        return []
    rows = []
    for name, value, error in cleaned.model.details.choices:
        text = f"log-likelihood {value:.6g}" if np.isnan(error) else f"error {-100 * value:+.1f} ± {100 * error:.1f} %"
        rows.append((str(name), text))
    return rows


def _encoded(figure: Figure, *, cropped: bool) -> str:
    from matplotlib.backends.backend_agg import FigureCanvasAgg  # imported when first needed

    handle = io.BytesIO()  # to look for margins, which only a map has, takes longer than to draw
    if cropped:
        figure.savefig(handle, format="png", bbox_inches="tight", dpi=DPI)
    else:  # savefig draws twice, the first time for the layout, which drawing does by itself
        figure.set_dpi(DPI)
        FigureCanvasAgg(figure).print_png(handle)
    return base64.b64encode(handle.getvalue()).decode()


def files(form: str) -> tuple[str, ...]:
    """Names of the files of one of :data:`FORMATS`."""
    tables = ("clean.nc",) if form == "netcdf" else (f"{name}.{form}" for name in TABLES)
    return (*tables, CORRECTIONS, OWN_TIMES, REPORT, MODEL)


def parts(cleaned: CleanedTables, form: str) -> dict[str, Callable[[Path], object]]:
    """Name of each of the :func:`files`, and the function that writes it; without a model there is no file of it."""
    tables = _tables(cleaned, form) | {REPORT: partial(write, cleaned)}
    tables |= {name: partial(_rows, getattr(cleaned, name.split(".")[0]), cleaned) for name in (CORRECTIONS, OWN_TIMES)}
    model = cleaned.model
    if model is None:  # that of an earlier run goes
        return tables | {MODEL: partial(Path.unlink, missing_ok=True) if cleaned.directed is None else cleaned.directed.save}
    good = np.where(cleaned.flags.to_numpy().T == Flag.BAD, np.nan, cleaned.readings)
    whole = replace(model, readings=good, excluded=np.zeros(good.shape, dtype=bool))  # some were hidden from the fit
    return tables | {MODEL: whole.save}


def _tables(cleaned: CleanedTables, form: str) -> dict[str, Callable[[Path], object]]:
    if form == "netcdf":
        return {"clean.nc": partial(write_dataset, make=cleaned.to_xarray)}
    if form == "parquet":
        frames = zip(files(form), (cleaned.x, cleaned.std, cleaned.written_flags), strict=False)
        return {name: partial(write_frame, frame=_tidy(cleaned.network.readings, frame)) for name, frame in frames}

    def csv(path: Path, values: np.ndarray) -> None:
        write_rows(path, *laid_out(cleaned.network.readings, values))

    return {name: partial(csv, values=values) for name, values in zip(files(form), cleaned.written, strict=False)}


def _rows(table: pd.DataFrame, cleaned: CleanedTables, path: Path) -> None:
    """Write a table of single readings; without any, remove that of an earlier run."""
    if table.empty:
        path.unlink(missing_ok=True)
        return
    write_rows(path, list(table.columns), single_rows(table, cleaned.std))


def single_rows(table: pd.DataFrame, std: pd.DataFrame) -> list[list[Any]]:
    """Rows of single readings, rounded as estimates with these standard deviations are."""
    places = dict.fromkeys(("corrected", "estimate", "std"), decimals(std))
    return table.round(places).astype(object).where(table.notna(), "").to_numpy().tolist()


def write_frame(path: Path, frame: pd.DataFrame) -> None:
    """Write a frame as Parquet, whole or not at all."""
    write_bytes(path, frame.to_parquet, "pandas", "pyarrow")


def write_dataset(path: Path, make: Callable[[], xarray.Dataset]) -> None:
    """Write what ``make`` gives as netCDF, such as :meth:`Cleaned.to_xarray`, compressed; whole or not at all."""
    packed = {"zlib": True, "complevel": 4}

    def write(draft: Path) -> None:
        dataset = make()
        dataset.to_netcdf(draft, engine="h5netcdf", encoding={str(name): packed for name in dataset.data_vars})

    write_bytes(path, write, "xarray", "h5netcdf")


def laid_out(readings: Readings, values: np.ndarray) -> tuple[list[str], list[list[Any]]]:
    """Header and rows of a table of values (T, N), in the shape that the readings had: NaN is an empty cell."""
    cells = [["" if value != value else value for value in row] for row in values.tolist()]
    timed = list(zip(readings.times, cells, strict=True))
    if not readings.tidy:
        return ["time", *readings.names], [[time, *row] for time, row in timed]
    rows = [[time, name, cell] for time, row in timed for name, cell in zip(readings.names, row, strict=True)]
    return [*TIDY, readings.quantity or "value"], rows


def _tidy(readings: Readings, frame: pd.DataFrame) -> pd.DataFrame:
    """A frame of results in the shape that the readings had."""
    if not readings.tidy:
        return frame
    series = frame.rename_axis(index=TIDY[0], columns=TIDY[1]).stack(future_stack=True)
    return series.rename(readings.quantity or "value").reset_index()
