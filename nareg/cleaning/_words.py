"""Numbers, counts and units for sentences."""

from __future__ import annotations

import math
import re


def number(value: float, digits: int = 2) -> str:
    """A number with ``digits`` significant digits, at least three from ten on; a hyphen for NaN and infinity.

    Examples
    --------
    >>> number(1.654), number(1.654, 3), number(0.0412), number(23.456), number(1234.5), number(float("nan"))
    ('1.7', '1.65', '0.041', '23.5', '1230', '-')
    """
    if not math.isfinite(value):
        return "-"
    if value == 0:
        return "0"
    rounded = float(f"{value:.{digits - 1}e}")
    if abs(rounded) >= 10 and digits < 3:
        digits = 3
        rounded = float(f"{value:.2e}")
    if abs(rounded) < 1e-4 or abs(rounded) >= 1e6:
        return f"{value:.{digits - 1}e}"
    return f"{rounded:.{max(digits - 1 - math.floor(math.log10(abs(rounded))), 0)}f}"


def readable(label: str, date: str) -> str:
    """A time as its table writes it, or its date in UTC where the table has numbers that nobody reads as one.

    Examples
    --------
    >>> readable("1706745600", "2024-02-01"), readable("202402010000", "2024-02-01"), readable("1.2.24", "2024-02-01")
    ('2024-02-01 UTC', '202402010000', '1.2.24')
    """
    counted = re.fullmatch(r"\d{9,}(\.\d+)?", label) is not None and not label.startswith(date[:4])
    return f"{date} UTC" if counted else label


def plural(count: int, noun: str) -> str:
    """``no suspects``, ``1 suspect``, ``2 suspects``.

    Examples
    --------
    >>> plural(0, "gap"), plural(1, "gap"), plural(1200, "gap")
    ('no gaps', '1 gap', '1,200 gaps')
    """
    return f"no {noun}s" if count == 0 else f"{count:,} {noun}" + ("" if count == 1 else "s")


def same_unit(one: str, other: str) -> bool:
    """Whether two texts name one unit, by common spellings of degrees.

    Examples
    --------
    >>> same_unit("degree_Celsius", "°C"), same_unit("degC", "C"), same_unit("K", "°C"), same_unit("hPa", "hpa ")
    (True, True, False, True)
    """
    return _plain_unit(one) == _plain_unit(other)


def of_temperature(unit: str | None) -> bool:
    """Whether a unit is one of temperatures.

    Examples
    --------
    >>> of_temperature("degC"), of_temperature("K"), of_temperature("µg/m³"), of_temperature(None)
    (True, True, False, False)
    """
    return unit is not None and _plain_unit(unit) in ("c", "f", "k")


def _plain_unit(unit: str) -> str:
    plain = re.sub(r"degrees?|deg|°|[\s_]", "", unit.lower())
    return {"celsius": "c", "fahrenheit": "f", "kelvin": "k"}.get(plain, plain)
