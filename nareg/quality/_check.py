"""Check readings against a space-time model."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from time import perf_counter

import numpy as np
from numpy.typing import ArrayLike

from nareg.errors import InputError
from nareg.graph import Graph
from nareg.quality import _single, _slow
from nareg.quality._others import isolated, others
from nareg.quality._residuals import FEWEST, Residuals, compute_residuals
from nareg.quality._results import Finding, Flag, Quality
from nareg.quality._rules import Rules, judged, muted, references
from nareg.spacetime import SpaceTimeModel, SparseSpaceTimeModel, fit

#: Tests that need no model, and those of single readings.
SILENT = (_single.dead, _single.stuck, _single.out_of_range)
TESTS = (*SILENT, _single.spikes, _single.noisy)
#: What fits return.
MODELS = (SpaceTimeModel, SparseSpaceTimeModel)


def check(
    model: SpaceTimeModel, readings: ArrayLike | None = None, *, times: ArrayLike | None = None, rules: Rules | None = None,
    quantity: Sequence[str] = (),
) -> Quality:  # fmt: skip
    """Flag bad readings and list the faulty stations, each with its evidence.

    Parameters
    ----------
    model : SpaceTimeModel
        From :func:`nareg.spacetime.fit`, which leaves gross outliers out of the fit.
    readings : (N, T) array, optional
        NaN where missing. Default: the readings that the model was fitted to.
    times : (T,) array, optional
        Needed for readings at other times than those of the fit.
    rules : Rules, optional
        Which checks are made, and which findings are dismissed.
    quantity : sequence of str, optional
        Unit and names of what is read, such as ``("m", "water level")``. A wrong unit is named only if it is one of that
        quantity, which the first that is known tells. Default: any that fits.

    Returns
    -------
    Quality
        ``flags`` (N, T), ``scores`` (N, T), ``badness`` (N, T) and the ``suspects``.

    Raises
    ------
    InputError
        If ``model`` is not a model, or the readings have another shape, an infinite value or unknown times.

    Notes
    -----
    Every reading is compared with its prediction from all other readings. It is bad (4) beyond five robust standard
    deviations and suspect (3) beyond four. Both limits rise where the neighbors are off as well: a front is not a fault.
    So is, by the steps around it and without the model, a reading that leaps from those before and returns within four (4),
    and the first one after a leap that stays (3). But neither are suspect beside a change of level where the station has five
    changes, at least half as large, as below a gate.
    Readings that are stuck, in a wrong unit, of a wrong level, or clearly exchanged with another station's are bad. Those of a
    drifting or noisy sensor, or of one with a wrong clock, are suspect. Stations with fewer than 10 readings are not evaluated
    (2), nor good readings of a station so far away that the others say nothing of it.

    Drift, units and exchanges are compared with a prediction that uses no reading of the station. It comes from the model's
    parametric part: a model that learned correlations from the readings has learned the fault too. There is no drift where
    that prediction, up to 16 steps earlier and later, explains more than the drift does: a flood or a front travels. Nor where
    15 % of the others, and two, have as clear errors that come and go within a twentieth of the record, as showers do, but for
    a constant one. Nor where as many change their level at the same time, as after an earthquake, or some, and near ones most.
    There, a level is not wrong either.

    A level that leaps and stays is suspect from the leap on, although the readings before it may be the wrong ones. Where the
    levels of the others say that they are, they are suspect instead.

    Evidence counts correlation times, not readings, and pays for all places, lags and pairs that were tried. A clock is wrong
    by half hours and hours up to 14, or a day, and by the same against all stations: weather that travels is none. Or the
    station's own day moves at once, and stays as large, while the others' days do not, with ten days before and after.

    A level is wrong where it is unlike the others' and the station hardly follows them, or much more; or where two stations at
    one place differ, and all others contradict one of them. Where all others follow each other nearly alike, a station that
    hardly does is suspect (3) at any level, such as indoors in summer.

    Where ``checks`` of the rules names ``"sunlit"``, so are a station's readings in the eighths of the day that are above all
    others', by much on some days and by little on others. It takes a model with a daily cycle, steps of at most three hours,
    and eight stations with readings in each eighth of ten days.

    Where the quantity rests at a bound in more than a quarter of the readings, as rain and sunlight do, only dead and stuck
    stations and absurd readings are found: what such a station reads elsewhere follows no Gaussian law.

    Sensors beside a ``reference`` of the rules are compared with it, by a regression that each tenth of the record has to
    confirm, and with nothing else.

    An exchange is found where it fits better by nine standard deviations, more in networks of fewer than 16 stations, and by a
    fiftieth of the squares. It shows in how the two places vary, not in their means, which come from the readings. Neighbors
    that vary alike hide an exchange.

    Examples
    --------
    >>> import numpy as np, nareg
    >>> rng = np.random.default_rng(0)
    >>> g = nareg.graphs.grid((3, 3))
    >>> readings = np.cumsum(0.1 * rng.standard_normal(200)) + 0.5 * rng.standard_normal((9, 200))
    >>> readings[4, 100:130] = readings[4, 100]
    >>> quality = nareg.quality.check(nareg.spacetime.fit(g, readings, rng=rng))
    >>> print(quality.summary())
    1,800 readings: 1,771 good, 29 bad
      4, stuck: It reads ... at 30 times in a row, from 100 to 129.
    """
    if isinstance(model, SparseSpaceTimeModel):
        raise InputError(
            f"model is one of the sparse engine, with {model.n_nodes} stations, but checks need dense covariances: check parts "
            "of at most 500 stations, or take nareg.quality.scores."
        )
    if not isinstance(model, SpaceTimeModel):
        raise InputError(f"model is a {type(model).__name__}: pass the result of nareg.spacetime.fit(graph, readings).")
    started = perf_counter()
    rules = Rules.of(rules)
    residuals = compute_residuals(model, readings, times, rules)
    if residuals.intermittent:
        resting = [finding for test in (*SILENT, _single.spikes) for finding in test(residuals)]
        quality = _quality(residuals, resting, np.zeros(residuals.readings.shape), rules)
        return replace(quality, timings={"total": perf_counter() - started})
    seen = others(residuals)
    known = references(rules, residuals.names) if "gain" in rules.checks else ()
    misplaced = _slow.misplaced(residuals, seen, quantity, known)
    findings, no_faults = judged(rules, misplaced, residuals.names, residuals.grid.values)
    if findings:  # nothing that these stations read, nor their means, must make their neighbors look wrong
        stations = sorted({finding.station for finding in findings})
        findings += [finding for test in SILENT for finding in test(residuals) if finding.station in stations]
        rest = residuals.readings.copy()
        rest[stations] = np.nan
        again = compute_residuals(model, rest, times, rules)
        seen = others(again)
        merged = again.scores.copy()
        merged[:, stations] = residuals.scores[:, stations]
        residuals = replace(again, readings=residuals.readings, scores=merged)
    else:
        stations, again = [], residuals
    findings += [finding for test in TESTS for finding in test(again) if finding.station not in stations]
    slow, background = _slow.drift(residuals, seen)
    if "sunlit" in rules.checks:
        slow += _slow.in_the_sun(residuals, seen)
    # a prediction further off than the readings differ at all has failed, and accuses nobody
    usual = residuals.readings[np.isfinite(residuals.readings) & ~residuals.by_station(residuals.absurd)]
    widest = float(np.ptp(usual)) if usual.size else 0.0
    believable = [finding for finding in findings + slow if not finding.size > widest]
    quality = _quality(residuals, believable + no_faults, background, rules)
    return replace(quality, timings={"total": perf_counter() - started})


def scores(
    graph: Graph,
    readings: ArrayLike,
    *,
    times: ArrayLike | None = None,
    model: SpaceTimeModel | SparseSpaceTimeModel | None = None,
) -> np.ndarray:
    """One score per reading, larger for worse: the largest over all tests, in standard deviations.

    Parameters
    ----------
    graph : Graph
    readings : (N, T) array
        NaN where missing.
    times : (T,) array, optional
    model : SpaceTimeModel or SparseSpaceTimeModel, optional
        Default: a model fitted to the readings.

    Returns
    -------
    (N, T) array
        NaN where there is no reading.

    Examples
    --------
    >>> import numpy as np, nareg
    >>> rng = np.random.default_rng(0)
    >>> g = nareg.graphs.grid((3, 3))
    >>> readings = np.cumsum(0.1 * rng.standard_normal(200)) + 0.5 * rng.standard_normal((9, 200))
    >>> readings[4, 100] += 6
    >>> scores = nareg.quality.scores(g, readings)
    >>> [int(k) for k in np.unravel_index(np.argmax(scores), scores.shape)]
    [4, 100]
    """
    if model is None:
        model = fit(graph, readings, times=times)
    elif not isinstance(graph, Graph) or not isinstance(model, MODELS) or graph.n_nodes != model.n_nodes:
        raise InputError("model was not fitted to this graph: pass the graph of the fit, or omit model.")
    if isinstance(model, SparseSpaceTimeModel):
        return np.abs(model.scores(readings, times=times))
    return check(model, readings, times=times).badness


def _quality(residuals: Residuals, findings: list[Finding], background: np.ndarray, rules: Rules) -> Quality:
    there, apart = np.isfinite(residuals.readings), isolated(residuals)
    names, times = residuals.names, residuals.grid.values
    findings, dismissed = judged(rules, findings, names, times)
    scores = residuals.by_station(residuals.scores)
    flags = np.full(there.shape, Flag.GOOD, dtype=np.int8)
    flags[residuals.by_station(residuals.spikes_beyond(_single.SUSPECT_SHARE * residuals.limit))] = Flag.SUSPECT
    flags[residuals.by_station(residuals.leapt)] = Flag.SUSPECT
    flags[residuals.by_station(residuals.spiky | residuals.absurd) & ~residuals.outside] = Flag.BAD
    flags[muted(rules, names, times, "spikes") | (np.abs(scores) < rules.threshold)] = Flag.GOOD
    flags[residuals.outside & ~muted(rules, names, times, "range")] = Flag.BAD
    badness = np.fmax(_single.spike_scores(residuals), background)
    for finding in findings:
        at = (finding.station, finding.columns)
        flags[at] = np.maximum(flags[at], finding.flag)
        badness[at] = np.fmax(badness[at], finding.score if finding.level is None else finding.level)
    flags[(there.sum(axis=1) < FEWEST)[:, None] | (apart[:, None] & (flags == Flag.GOOD))] = Flag.UNKNOWN
    flags[~there] = Flag.MISSING
    badness[~there] = np.nan
    suspects, no_faults = (
        tuple(sorted((finding.suspect(names, times) for finding in group), key=lambda s: -s.score))
        for group in (findings, dismissed)
    )
    return Quality(flags, np.where(there, scores, np.nan), badness, suspects, times, no_faults)
