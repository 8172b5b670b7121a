"""The small files of ``shared/cases``: what must hold for each, with the values of its README.

Each function yields pairs: a sentence with the value seen, and whether it is as it must be. A case is right if all hold.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import numpy as np

from _strangers.seen import RefusedError, Seen, clean
from nareg.quality import Flag

Checks = Iterator[tuple[str, bool]]
GOOD, UNKNOWN, SUSPECT, BAD, MISSING = Flag.GOOD, Flag.UNKNOWN, Flag.SUSPECT, Flag.BAD, Flag.MISSING
CASES: dict[str, tuple[str, Callable[[Path], Checks]]] = {}


def case(number: str, title: str) -> Callable[[Callable[[Path], Checks]], Callable[[Path], Checks]]:
    def register(function: Callable[[Path], Checks]) -> Callable[[Path], Checks]:
        CASES[number] = (title, function)
        return function

    return register


def judge(number: str, folder: Path) -> list[tuple[str, bool]]:
    """All checks of a case; a refusal where cleaning was right is a wrong of its own."""
    checks: list[tuple[str, bool]] = []
    try:
        checks.extend((text, bool(right)) for text, right in CASES[number][1](folder))
    except RefusedError as error:
        checks.append((f"refused: {error}", False))
    return checks


def few_bad(seen: Seen, right: np.ndarray, what: str = "right readings", most: float = 0.01) -> tuple[str, bool]:
    share = seen.share((BAD,), right & seen.observed)
    return f"{what} flagged bad: {share:.2%}, at most {most:.0%}", share <= most


def flagged(seen: Seen, where: np.ndarray, what: str, least: float = 0.9) -> tuple[str, bool]:
    share = seen.share((SUSPECT, BAD), where & seen.observed)
    return f"{what} flagged suspect or bad: {share:.0%}, at least {least:.0%}", share >= least


def only(seen: Seen, *expected: str) -> tuple[str, bool]:
    return f"suspects: {', '.join(seen.suspects) or 'none'}; right: {', '.join(expected) or 'none'}", set(seen.suspects) == set(
        expected
    )


def inside(seen: Seen, low: float, high: float) -> tuple[str, bool]:
    ends = min(seen.x.min(), seen.band[0].min()), max(seen.x.max(), seen.band[1].max())
    text = (
        f"estimate {seen.x.min():.4g} to {seen.x.max():.4g}, bands {ends[0]:.4g} to {ends[1]:.4g}; bounds {low:g} to {high:g}"
    )
    slack = 1e-6 * max(abs(low), abs(high) if np.isfinite(high) else 1.0)
    return text, low - slack <= ends[0] and ends[1] <= high + slack


def as_good_as_readings(seen: Seen, factor: float = 1.0) -> tuple[str, bool]:
    raw, now = seen.rmse(seen.y, seen.observed), seen.rmse(seen.x, seen.observed)
    limit = "" if factor == 1 else f" times {factor:g}"
    return f"RMSE at readings {now:.4g}; the readings' {raw:.4g}{limit}", now <= factor * raw


def shape(seen: Seen, times: int, stations: int) -> tuple[str, bool]:
    return f"{seen.cleaned.x.shape[0]} times, {seen.cleaned.x.shape[1]} stations; right: {times}, {stations}", (
        seen.cleaned.x.shape == (times, stations)
    )


def calm(seen: Seen) -> tuple[str, bool]:
    """Few bad flags, where the file has no truth and no fault."""
    share = float((seen.cleaned.flags == BAD).to_numpy().mean())
    return f"readings flagged bad: {share:.2%}, at most 1 %", share <= 0.01


def spoken(seen: Seen, pattern: str, what: str) -> tuple[str, bool]:
    text = seen.says(pattern)
    return (f"{what}: {text}", True) if text is not None else (f"no sentence names {what}", False)


def refusal(seen: Seen, what: str, *patterns: str, without: str = "leave it empty|correct the line") -> tuple[str, bool]:
    """A refusal that names the true remedy."""
    right = all(seen.says(pattern) for pattern in patterns) and not seen.says(without)
    return f"refused; the remedy must be {what}: {seen.error}", right


@case("02", "directions in degrees")
def directions(folder: Path) -> Checks:
    seen = clean(folder)
    if seen.result is None:
        yield refusal(seen, "a sentence about directions", "direction")
        return
    gaps = ~seen.observed
    off = (seen.x - seen.t + 180) % 360 - 180
    error = float(np.sqrt(np.mean(off[gaps] ** 2)))
    yield f"not refused, RMSE on the circle in gaps {error:.3g}, at most 13.7 of a line in sines and cosines", error <= 13.7
    yield few_bad(seen, seen.observed)


@case("05", "TOACI1 and TOA5 of a data logger")
def logger(folder: Path) -> Checks:
    for name in ("readings.dat", "readings_toa5.dat"):
        seen = clean(folder, readings=name)
        if seen.result is None:
            yield refusal(seen, "the format's name", "TOACI1|TOA5", without="correct the line|first column is")
        else:
            yield shape(seen, 300, 6)
            yield calm(seen)


@case("07", "degrees with minutes; UTM")
def minutes(folder: Path) -> Checks:
    seen = clean(folder, "stations_dm.csv", hidden=0)
    if seen.result is None:
        yield refusal(seen, "minutes / 60", "minute", "60", without="write the number alone")
    else:
        right = clean(folder, hidden=0).cleaned.network.graph.coordinates
        off = float(np.abs(seen.cleaned.network.graph.coordinates - right).max())
        yield f"places off by {off:.4f} degrees, at most 0.01", off <= 0.01
    seen = clean(folder, "stations_utm.csv", hidden=0)
    if seen.result is None:
        yield refusal(seen, "renaming easting and northing", "easting", "rename")
    else:
        yield few_bad(seen, seen.observed)


@case("08", "a station 4,000 km from all others, or with the wrong sign")
def far(folder: Path) -> Checks:
    for name, station in (("stations.csv", "K04"), ("stations_sign.csv", "K06")):
        seen = clean(folder, name)
        yield spoken(seen, rf"{station}.*\b(far|km|away|distan)|\b(far|km|away|distan).*{station}", f"{station} far from all")
        yield as_good_as_readings(seen)
        yield few_bad(seen, seen.observed)
    text = clean(folder, "stations_right.csv").says(r"K0\d.*\bfar\b|\bfar\b.*K0\d")
    yield f"at the right places no such note: {text or 'none'}", text is None


@case("11", "two sensors at one place, one of them broken")
def twins(folder: Path) -> Checks:
    seen = clean(folder)
    yield only(seen, "K06-B", "K03-A")  # K03-A reads 0 at all times, where its twin reads 10
    broken = seen.at("K06-B", 150)
    yield flagged(seen, broken, "K06-B from its fault on", 0.95)
    yield flagged(seen, seen.at("K03-A"), "the dead K03-A", 0.95)
    yield few_bad(seen, ~broken & ~seen.at("K03-A"))
    error = seen.rmse(seen.x, broken)
    yield f"RMSE at K06-B from then on {error:.3g}, at most 3 (its twin's is 0.76)", error <= 3


@case("12", "daily rain, a dry season, a clogged gauge")
def rain(folder: Path) -> Checks:
    yield from clogged(clean(folder))


def clogged(seen: Seen) -> Checks:
    gauge = seen.at("K07", 124)
    right = ~gauge & (np.abs(seen.y - seen.t) < 100)
    yield few_bad(seen, right & (seen.y == 0), "dry days")
    yield few_bad(seen, right & (seen.y > 0), "rainy days")
    # days that are dry indeed may be good
    yield flagged(seen, seen.at("K07", 200) & (seen.t > 0), "K07, clogged")
    others = set(seen.suspects) - {"K07"} - set(np.array(list(seen.truth))[(np.abs(seen.y - seen.t) > 1000).any(axis=0)])
    yield (
        f"K07 is suspect, of the healthy at most one: {', '.join(seen.suspects) or 'none'}",
        ("K07" in seen.suspects and len(others) <= 1),
    )
    yield inside(seen, 0, np.inf)


def humid(folder: Path, factor: float = 1.0) -> Checks:
    seen = clean(folder)
    yield few_bad(seen, seen.observed)
    yield only(seen)
    yield inside(seen, 0, 100)
    yield as_good_as_readings(seen, factor)


case("13", "humidity at 100 in fog")(humid)
# four stations and 100 times have little to share: an estimate about as good as the readings is right
case("13m", "humidity at 100 in fog, four stations")(partial(humid, factor=1.05))


@case("15", "local time without a zone: the hour that October repeats")
def october(folder: Path) -> Checks:
    seen = clean(folder)
    if seen.result is None:
        yield refusal(seen, "daylight saving time", "daylight|summer time", without="average")
        return
    yield spoken(seen, "daylight|summer time", "daylight saving time")
    yield shape(seen, 240, 8)
    if seen.cleaned.x.shape == seen.t.shape:
        yield as_good_as_readings(seen)
        yield few_bad(seen, seen.observed)


@case("18", "a dead station at 2,956 m")
def summit(folder: Path) -> Checks:
    seen = clean(folder)
    error = float(np.mean((seen.x - seen.t)[seen.at("K05")]))
    note = seen.says("elevation|altitude|lapse")
    # the station is 2,956 m high and the others 1,100 m: 12 degrees by the lapse rate
    yield f"K05 filled {error:+.3g} degrees off (at most 3), or a note: {note or 'none'}", abs(error) <= 3 or note is not None
    yield few_bad(seen, seen.observed)


@case("20", "a trace of rain: T")
def trace(folder: Path) -> Checks:
    seen = clean(folder)
    if seen.result is None:
        yield refusal(seen, "T is a trace: write 0", "trace", r"\b0\b")
        return
    yield shape(seen, 365, 15)
    yield spoken(seen, "trace", "the trace")
    missing = int((seen.cleaned.flags == MISSING).to_numpy().sum())
    cells = (folder / "readings.csv").read_text().replace("\n", ",\n").split(",")[16:]
    empty = sum(cell == "" for cell in cells)
    yield f"missing readings {missing}; empty cells {empty}", missing == empty


@case("21", "RDB of USGS: site_no, dec_lat_va, tz_cd")
def rdb(folder: Path) -> Checks:
    seen = clean(folder, readings="readings.rdb")
    yield shape(seen, 240, 6)
    yield calm(seen)
    times = seen.cleaned.network.readings.timestamps
    steps = np.unique(np.diff(times)).astype("timedelta64[m]").astype(int).tolist()
    yield f"minutes between times, EST and EDT: {steps}, or a sentence on tz_cd", steps == [60] or bool(seen.says("tz_cd"))


@case("22", "below the limit of detection: <2")
def censored(folder: Path) -> Checks:
    seen = clean(folder)
    if seen.result is None:
        yield refusal(seen, "the limit of detection", "detect|limit|censor")
        return
    below = ~seen.observed & (seen.t < 3)
    share = seen.share((BAD,), below)
    yield f"readings below the limit flagged bad: {share:.2%}, at most 1 %", share <= 0.01
    yield only(seen)
    high = float(np.quantile(seen.x[below], 0.95))
    yield f"estimate below the limit of 2: 95 % are under {high:.3g}, at most 2.6", high <= 2.6


@case("22b", "below the limit of detection: written as 2.0")
def at_limit(folder: Path) -> Checks:
    seen = clean(folder)
    yield few_bad(seen, seen.y == 2.0, "readings at the limit")
    yield few_bad(seen, seen.y > 2.0, "readings above the limit")
    yield only(seen)
    raw, now = (seen.rmse(values, seen.y > 2.0) for values in (seen.y, seen.x))
    yield f"RMSE at readings above the limit {now:.3g}; the readings' {raw:.3g} times 1.2", now <= 1.2 * raw


@case("25", "an isolated station that drifts")
def isolated(folder: Path) -> Checks:
    seen = clean(folder)
    station = seen.at("FAR")
    good = seen.share((GOOD,), station)
    yield f"FAR flagged good, where nothing could be compared: {good:.1%}, at most 5 %", good <= 0.05
    others = seen.share((GOOD,), ~station & seen.observed)
    yield f"the others flagged good: {others:.1%}, at least 95 %", others >= 0.95
    yield flagged(seen, seen.at("FAR", 200, 201), "the jump of 15.6 at FAR")
    yield f"suspects: {', '.join(seen.suspects) or 'none'}; none but FAR", set(seen.suspects) <= {"FAR"}


@case("31", "four flood waves at seven gauges")
def flood(folder: Path) -> Checks:
    seen = clean(folder)
    upper = seen.t >= np.quantile(seen.t, 0.8, axis=0)
    yield few_bad(seen, upper, "the upper fifth of the readings")
    yield few_bad(seen, seen.observed)
    peak = float(seen.x.max())
    yield f"highest estimate {peak:.3f} m; true 3.203 within 5 %", abs(peak / 3.203 - 1) <= 0.05
    raw, now = (seen.rmse(values, upper & seen.observed) for values in (seen.y, seen.x))
    yield f"RMSE in the upper fifth {now:.4f} m; the readings' {raw:.4f} times 1.5", now <= 1.5 * raw
    yield only(seen)


def irradiance(folder: Path) -> Checks:
    seen = clean(folder)
    night = seen.t == 0
    yield few_bad(seen, night, "night zeros")
    yield few_bad(seen, seen.observed)
    yield only(seen)
    yield inside(seen, 0, 1.2 * float(np.nanmax(seen.y)))
    yield as_good_as_readings(seen, 1.2)
    dark = seen.rmse(seen.x, night)
    yield f"RMSE at night {dark:.3g} W/m², at most 3", dark <= 3


case("33", "irradiance, night zeros")(irradiance)
case("33m", "irradiance, night zeros, four stations")(irradiance)


@case("34", "tenths from a day on")
def tenths(folder: Path) -> Checks:
    seen = clean(folder)
    yield only(seen, "K04")
    yield flagged(seen, seen.at("K04", 400), "K04 from that day on", 0.95)
    share = seen.share((SUSPECT, BAD), seen.at("K04", 0, 400) & seen.observed)
    yield f"K04 before, flagged suspect or bad: {share:.1%}, at most 2 %", share <= 0.02
    yield few_bad(seen, ~seen.at("K04"))
    kinds = [suspect.kind for suspect in seen.cleaned.quality.suspects if suspect.name == "K04"]
    yield f"kind of fault: {', '.join(kinds) or 'none'}; right: unit", "unit" in kinds


def tide(folder: Path) -> Checks:
    seen = clean(folder)
    yield few_bad(seen, seen.observed)
    noise = float(np.sqrt(np.median(seen.cleaned.model.noise))) if seen.cleaned.model is not None else np.nan
    yield f"noise estimated {noise:.4f} (true 0.0205), at least .01 / sqrt(12) = 0.0029", noise >= 0.01 / np.sqrt(12)
    at, hidden = seen.coverage(seen.observed), seen.coverage(~seen.observed)
    yield f"90 % bands hold {at:.1%} at readings, right 85 to 95 %", 0.85 <= at <= 0.95
    # 39 to 198 gaps: the share itself is uncertain by 2 to 5 points
    yield f"90 % bands hold {hidden:.1%} in gaps, at least 80 %", hidden >= 0.8


case("36", "tide with a local surge")(tide)
case("36m", "tide, four stations")(tide)


@case("37", "daily rain, a clogged gauge, a counter off by -1588 and +1588")
def counter(folder: Path) -> Checks:
    seen = clean(folder)
    jumps = np.abs(seen.y - seen.t) > 1000
    yield flagged(seen, jumps, "the counter's jumps", 1.0)
    yield from clogged(seen)


@case("52", "SYNOP: numer_sta, date, t")
def synop(folder: Path) -> Checks:
    seen = clean(folder)
    yield shape(seen, 144, 6)
    yield calm(seen)


@case("53", "a column of quality, 4 = bad")
def quality_column(folder: Path) -> Checks:
    seen = clean(folder)
    marked = np.abs(seen.y - seen.t) > 15
    unused = seen.share((BAD, MISSING), marked)
    note = seen.says("quality")
    yield (
        f"marked readings not used: {unused:.0%} (at least 95 %), or a note: {note or 'none'}",
        unused >= 0.95 or note is not None,
    )
    yield few_bad(seen, ~marked)


@case("55", "99.9 = missing")
def sentinel(folder: Path) -> Checks:
    seen = clean(folder)
    code = seen.y == 99.9
    unused = seen.share((BAD, MISSING), code)
    yield f"readings of 99.9 not used: {unused:.0%} of {int(code.sum())}, right: all", unused == 1
    off = float(np.abs((seen.x - seen.t)[code]).max())
    yield f"estimate there off by at most {off:.3g}, right: under 4", off < 4
    yield few_bad(seen, ~code)


@case("59", "24 times, 5 stations")
def short(folder: Path) -> Checks:
    seen = clean(folder)
    error, claim = seen.rmse(seen.x, seen.observed), seen.cleaned.clean_error
    sentence = seen.says("told apart|tell .* apart|cannot be (known|told|separated)|unknown|not known|too short")
    yield (
        f"headline ±{claim:.3g}, true error {error:.3g}; or a sentence: {sentence or 'none'}",
        (bool(claim >= 0.95 * error) or sentence is not None),
    )


@case("62", "a drift of 6 degrees to the end")
def drift(folder: Path) -> Checks:
    seen = clean(folder)
    end = seen.at("K04", 250)
    error, std = float(np.abs((seen.x - seen.t)[end]).mean()), float(seen.std[end].mean())
    yield (
        f"K04 is suspect ({', '.join(seen.suspects) or 'none'}), or std {std:.3g} at least half its error {error:.3g}",
        ("K04" in seen.suspects or std >= error / 2),
    )
    yield f"suspects: {', '.join(seen.suspects) or 'none'}; none but K04", set(seen.suspects) <= {"K04"}
    yield few_bad(seen, ~seen.at("K04", 200))
