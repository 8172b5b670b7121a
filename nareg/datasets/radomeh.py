"""Météo-France's RADOMEH archive: one text file per station, hourly rows, ``mq`` for a missing value.

The archive is read member by member in memory and never unpacked to disk, so that no path in it can point
anywhere. Its own checksum is not published; what is parsed is checked against a digest of the temperatures.
"""

from __future__ import annotations

import hashlib
import tarfile
from pathlib import Path

import numpy as np

from nareg.datasets.registry import BUNDLED
from nareg.errors import UNREADABLE, DatasetCorruptError, brief
from nareg.io import read_rows, rows

#: sha256 of the 37 complete temperature series, stations by id, in hundredths of a kelvin, little-endian int32.
CONTENT_SHA256 = "93730f03782f58ac180723669286f5e884bb0d8f6e9dacb73f2a346a369b2e7f"
FIRST_HOUR, N_HOURS = np.datetime64("2014-01-01T00", "h"), 744
#: A station's month is about 0.1 MB; anything far larger is not this archive.
MEMBER_LIMIT, TOTAL_LIMIT = 20 * 2**20, 200 * 2**20
MISSING = ("mq", "")


def stations() -> list[tuple[str, str, float, float]]:
    """Id, name, latitude and longitude of the 37 stations with a complete series, in the prepared file's order."""
    (_, header), *listed = read_rows(BUNDLED / "molene_temperature_stations.csv")
    columns = [header.index(name) for name in ("station_id", "name", "lat_deg", "lon_deg")]
    cells = ([row[column] for column in columns] for _, row in listed)
    return [(station, name, float(latitude), float(longitude)) for station, name, latitude, longitude in cells]


def read(path: Path) -> tuple[np.ndarray, dict[str, np.ndarray]]:
    """Times (744,) and the temperature in kelvin of every station id in the archive, NaN where missing.

    Raises
    ------
    DatasetCorruptError
        If it is no such archive, or the 37 complete series differ from the known ones.
    """
    series: dict[str, np.ndarray] = {}
    total = 0
    try:
        with tarfile.open(path, "r:gz") as archive:
            for member in archive:
                total += member.size  # of members that are passed over too: they are decompressed all the same
                if member.size > MEMBER_LIMIT or total > TOTAL_LIMIT:
                    raise DatasetCorruptError(f"{path}: member {member.name!r} is too large for this archive: get it again.")
                if not member.isfile() or not member.name.lower().endswith((".txt", ".csv")):
                    continue
                handle = archive.extractfile(member)
                if handle is not None:
                    _parse(member.name, handle.read().decode("latin-1").splitlines(), series)
    except (tarfile.TarError, *UNREADABLE) as error:
        raise DatasetCorruptError(f"{path} is not a readable tar.gz archive ({brief(error)}): download it again.") from None
    actual = content_digest(series)
    if actual != CONTENT_SHA256:
        raise DatasetCorruptError(
            f"{path}: the temperatures in it have digest {actual[:12]}..., expected {CONTENT_SHA256[:12]}...: get it again."
        )
    hours = FIRST_HOUR + np.arange(N_HOURS)
    return np.datetime_as_string(hours, unit="m"), series


def content_digest(series: dict[str, np.ndarray]) -> str:
    """Digest of the 37 listed stations; ``"missing <id>"`` if one is absent or incomplete."""
    rows = []
    for station in sorted(s[0] for s in stations()):
        values = series.get(station)
        if values is None or not np.isfinite(values).all():
            return f"missing {station}"
        rows.append(np.round(values * 100).astype("<i4"))
    return hashlib.sha256(np.stack(rows).tobytes()).hexdigest()


def _parse(source: str, lines: list[str], series: dict[str, np.ndarray]) -> None:
    """Add the temperatures of one station file; other files of the archive (a readme) are skipped."""
    header = lines[0] if lines else ""
    delimiter = ";" if header.count(";") > header.count(",") else ","
    columns = [column.strip().lower() for column in header.split(delimiter)]
    if not {"numer_sta", "date", "t"} <= set(columns):
        return
    station, date, temperature = columns.index("numer_sta"), columns.index("date"), columns.index("t")
    for _, row in rows(source, lines[1:], delimiter, first=2):
        if len(row) <= max(station, date, temperature):
            continue  # the files end with a line that is no record
        digits = "".join(ch for ch in row[date] if ch.isdigit())
        if len(digits) < 10:
            continue
        hour = np.datetime64(f"{digits[:4]}-{digits[4:6]}-{digits[6:8]}T{digits[8:10]}", "h")
        index = int((hour - FIRST_HOUR).astype(int))
        if 0 <= index < N_HOURS:
            values = series.setdefault(row[station].strip(), np.full(N_HOURS, np.nan))
            cell = row[temperature].strip()
            if cell.lower() not in MISSING:
                values[index] = float(cell)
