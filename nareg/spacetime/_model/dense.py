"""A fitted graph state-space model with dense covariances."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from time import perf_counter
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import erfcx

from nareg._core import checks
from nareg._solvers.backends import SolverBackend, check_solver_backend
from nareg.errors import InputError
from nareg.graph import Graph
from nareg.progress import Progress, ProgressCallback
from nareg.spacetime._dense.filter import Dynamics
from nareg.spacetime._dense.parametric import Parameters
from nareg.spacetime._dense.places import Extension, PlaceKernel, restricted
from nareg.spacetime._dense.smoother import PASSES, Pass, heavy_tailed_pass, robust_pass, run
from nareg.spacetime._model import store
from nareg.spacetime._model.base import BaseModel, GridReadings, on_grid
from nareg.spacetime._model.results import Smoothed
from nareg.spacetime._model.stream import Stream
from nareg.spacetime._readings.cycle_errors import OffsetErrors
from nareg.spacetime._readings.engine import FieldEstimate
from nareg.spacetime._readings.outliers import ROUNDS
from nareg.spacetime._readings.repeats import intermittent
from nareg.spacetime._readings.space import FAMILIES, Space

#: Places whose weights are computed at once.
PLACES = 256
#: Shares of the noise that averaging may lower, and the gain in log-likelihood from which on one is taken.
AVERAGED, LIKELIER = (0.25, 0.5, 0.75, 1.0), 3.0
#: Sweeps in which readings at a bound are told what the others of them say, at most; they end where no mean moves by so many of
#: its standard deviations, but for a few; and the least share of the precision that is left to the others. Where at most this
#: share of the readings is at a bound, there is one.
SWEEPS, STILL, NEARLY, LEFT, FEW = 6, 0.02, 0.98, 1e-3, 0.005
#: A reading at a bound that lowers the field's variance by less than the first share says nothing; from so many standard
#: deviations inside on, it is as any other.
SAYS_NOTHING, FARTHEST = 1e-6, -1e6
#: Readings that are means of so nearly as many have the same noise.
ALIKE = 1e-9


@dataclass(frozen=True, eq=False, kw_only=True, repr=False)
class SpaceTimeModel(BaseModel[Stream]):
    """A graph state-space model, made by :func:`fit`.

    The field moves by ``x_t = A_1 x_{t-1} + ... + e_t``, and readings are ``y_t = x_t + v_t``.

    Attributes
    ----------
    graph : Graph
    transform : Transform
        Transform of the readings.
    unit : float
        Divisor of the transformed readings.
    cycles : Cycles
        Station means, daily and yearly cycle, in the model's unit.
    dynamics : Dynamics
        A, Q and the covariance of the first state, in the model's unit.
    unit_noise : (N,) array
        Noise variances in the model's unit.
    parameters : Parameters
        The parametric model that the fit started from.
    df : float or None
        Degrees of freedom of heavy-tailed steps.
    places : PlaceKernel or None
        Covariance by which the field is carried to places without a station; None: that of the parameters.
    grid : TimeGrid
        Regular grid of the readings' times.
    bands : Bands
        Factors for the width of Gaussian bands, per level and size of the standard deviation.
    bounds : Bounds
        What the quantity can be, as :func:`nareg.clean` has it: estimates and bands stay inside. A fit has none.
    status : Status
    log_likelihood : float
        Log-likelihood of the readings, in their unit.
    details : FitDetails
        How the model was chosen.
    timings : dict of seconds
        What each stage of the fit took, and ``"total"``.
    """

    format: ClassVar[str] = "nareg-spacetime-3"

    dynamics: Dynamics
    parameters: Parameters
    df: float | None
    places: PlaceKernel | None = None

    @cached_property
    def kernel(self) -> PlaceKernel:
        """Covariance of the field at the stations and at further places."""
        regression = self.cycles.regression
        return self.places or PlaceKernel.of(self.parameters, 0 if regression is None else regression.used.size)

    def extension(self, points: np.ndarray, z: np.ndarray) -> Extension:
        """How further stations, where standard covariates are ``z`` (M, C), follow from the others."""
        regression = self.cycles.regression
        whole = z if regression is None else np.vstack([regression.covariates.standard, z])
        return Extension.of(self.dynamics, self.parameters, self.kernel.joint(self.space, points, whole))

    @cached_property
    def space(self) -> Space:
        """Distances and correlations of the stations."""
        return Space.of(self.graph)

    def interpolate_at(
        self, coordinates: ArrayLike, *, covariates: Mapping[str, ArrayLike] | None = None, readings: ArrayLike | None = None,
        times: ArrayLike | None = None,
    ) -> Smoothed:  # fmt: skip
        """Estimate the field, with its uncertainty, at places without a station.

        Parameters
        ----------
        coordinates : (M, d) array
            Latitude and longitude in degrees, or positions, as in the graph.
        covariates : mapping from names to (M,) arrays, optional
            Of the places. Needed are those of the fit that means and cycles follow.
        readings, times
            Default: those of the fit.

        Returns
        -------
        Smoothed
            One row per place.
        """
        started = perf_counter()
        points = self.checked_places(coordinates)
        given = on_grid(self, readings, times, exclude=True)
        W, own, level, spread = self._weights(points, self.cycles.covariates_at(covariates, len(points)))
        done = self._pass(given, robust=readings is not None, W=W)
        assert done.points is not None
        assert done.point_variances is not None
        seen = given.grid.rows
        basis = self.cycles.basis(given.grid.seconds_of(seen))
        at_stations = FieldEstimate(done.x, done.var, done.var, np.isfinite(done.innovations), done.log_likelihood)
        var = done.point_variances[seen] + own + basis**2 @ spread
        result = self._result(done.points[seen] + basis @ level, var, given.grid.values, given, at_stations, started)
        return replace(result, noise=np.full(own.size, float(np.median(self.unit_noise)) * self.unit**2))

    def extended(
        self, coordinates: ArrayLike, names: Sequence[str] | None = None, covariates: Mapping[str, ArrayLike] | None = None
    ) -> SpaceTimeModel:
        """The model with further stations, which have no reading yet.

        A new station is its kriging estimate from the others plus a field of its own with the same autoregression.
        ``covariates`` are as for :meth:`interpolate_at`.
        """
        points = self.checked_places(coordinates)
        M, known, cycles = points.shape[0], self.graph.names, self.cycles
        if names is not None and (known is None or len(names) != M):
            remedy = ", but the model's stations have no names: omit it." if known is None else ": pass one per place."
            raise InputError(f"names has {len(names)} entries for {M} places{remedy}")
        if known is not None:
            names = [*known, *(names or [f"place {k + 1}" for k in range(M)])]
        places = np.concatenate([self.graph.coordinates, points])
        z = cycles.covariates_at(covariates, M)
        extension = self.extension(points, z)
        level, spread = cycles.at_points(self.space, points, z), cycles.spread_at_points(self.space, points, z)
        # of a place's own coefficients the readings so far tell nothing
        own = np.random.default_rng(0).standard_normal((*spread.shape, cycles.errors.shape[2])) * np.sqrt(spread)[..., None]
        shares = None if self.noise_shares is None else np.pad(self.noise_shares, ((0, M), (0, 0)), constant_values=1.0)

        def with_median(values: np.ndarray) -> np.ndarray:
            return np.append(values, np.full(M, np.median(values)))

        return replace(
            self, dynamics=extension.dynamics(self.dynamics), unit_noise=with_median(self.unit_noise),
            graph=Graph(self.space.extended(points), coordinates=places, names=names, metric=self.graph.metric),
            cycles=replace(
                cycles, level=np.hstack([cycles.level, level]), dual=np.pad(cycles.dual, ((0, 0), (0, M))),
                spread=np.hstack([cycles.spread, spread]), errors=np.hstack([cycles.errors, own]),
                regression=None if cycles.regression is None else cycles.regression.extended(z),
            ),
            noise_error=None if self.noise_error is None else np.array([with_median(error) for error in self.noise_error]),
            readings=np.pad(self.readings, ((0, M), (0, 0)), constant_values=np.nan),
            noise_shares=shares,
            excluded=np.pad(self.excluded, ((0, M), (0, 0))),
            parameters=replace(self.parameters, log_noise=with_median(self.parameters.log_noise)),
        )  # fmt: skip

    def without(self, stations: Sequence[str | int] | str | int) -> SpaceTimeModel:
        """The model without some of its stations, named or numbered.

        Where a removed station acts on the next values of the others, its expectation given these takes its place. Scalar and
        diagonal dynamics have no such effect, and the result is exact.
        """
        rest = np.setdiff1d(np.arange(self.n_nodes), self.station_indices(stations))
        if rest.size == 0:
            raise InputError("stations lists all stations of the model: keep at least one.")
        graph, parameters = self.graph.subgraph(rest), self.parameters
        return replace(
            self, graph=graph, cycles=self.cycles.restricted(Space.of(graph), rest), dynamics=restricted(self.dynamics, rest),
            unit_noise=self.unit_noise[rest], noise_error=None if self.noise_error is None else self.noise_error[:, rest],
            parameters=replace(parameters, log_noise=parameters.log_noise[rest]),
            readings=self.readings[rest], excluded=self.excluded[rest],
            noise_shares=None if self.noise_shares is None else self.noise_shares[rest],
        )  # fmt: skip

    def with_averages(self, number: ArrayLike) -> SpaceTimeModel:
        """The model that knows how many readings each one is the mean of.

        The noise variance of a mean of k readings is ``(1 - c) r + c r m / k``, where 1 / m is the mean of 1 / k over the
        station's readings. The share c of the noise that averaging lowers is the likeliest of 0, 1/4, ..., 1; it is 0 unless
        another one raises the log-likelihood by 3.

        Parameters
        ----------
        number : (N, T) array
            Of the readings of the fit, and of those that it did not see; 0 where there is none.
        """
        counts = checks.floats("number", number, ndim=(2,))
        seen = np.isfinite(self.readings)
        if counts.shape != seen.shape or not (counts[seen] >= 1).all():
            raise InputError(f"number has shape {counts.shape}: pass one per reading, {seen.shape}, of 1 or more.")
        known = counts >= 1
        inverse = 1 / np.where(known, counts, 1.0)
        mean = np.where(seen, inverse, 0.0).sum(axis=1, keepdims=True) / np.maximum(seen.sum(axis=1, keepdims=True), 1)
        relative = np.where(known & (mean > 0), inverse / np.where(mean > 0, mean, 1.0), 1.0)
        if np.ptp(relative[seen]) <= ALIKE:
            return self
        models = [self, *(replace(self, noise_shares=1 + c * (relative - 1)) for c in AVERAGED)]
        passes = [model._pass(on_grid(model, None, None, exclude=True), robust=False, smooth=False) for model in models]
        gains = np.array([done.log_likelihood for done in passes]) - passes[0].log_likelihood
        best = int(np.argmax(gains - np.array([0.0, *[LIKELIER] * len(AVERAGED)])))
        return replace(models[best], log_likelihood=self.log_likelihood + float(gains[best]))

    def checked_places(self, coordinates: ArrayLike) -> np.ndarray:
        """(M, d) coordinates of further places, checked against the graph's."""
        points = checks.floats("coordinates", coordinates, ndim=(2,)).astype(float)
        places = self.graph.coordinates
        if places is None:
            raise InputError("the model's graph has no coordinates: build it with Graph.from_knn to add places.")
        if points.shape[1] != places.shape[1] or points.shape[0] == 0:
            raise InputError(f"coordinates has shape {points.shape}: pass one row per place, {places.shape[1]} columns each.")
        if self.graph.metric == "haversine" and (np.abs(points[:, 0]) > 90).any():
            i = int(np.argmax(np.abs(points[:, 0])))
            raise InputError(
                f"coordinates[{i}] has latitude {points[i, 0]:g}, outside -90 to 90: pass latitude, then longitude, in degrees."
            )
        return points

    @contextmanager
    def _solving(self, backend: SolverBackend) -> Iterator[None]:
        if (library := check_solver_backend(backend)) != "scipy":
            raise InputError(
                f"backend={library!r} solves for models of the sparse engine only: fit with engine='sparse', or omit backend."
            )
        yield

    def _smoothed(self, given: GridReadings, solver: None, *, search: bool, progress: ProgressCallback | None) -> FieldEstimate:
        errors = self.cycles.errors_at(given.grid.seconds)
        resting = intermittent(self.readings.T)  # a part of them may not rest as often
        given, scale = (given, None) if resting else self._beyond_bounds(given)
        done = self._pass(given, robust=search and not resting, progress=progress, errors=errors, scale=scale)
        return FieldEstimate(done.x, done.var, errors.left(done.taken), np.isfinite(done.innovations), done.log_likelihood)

    def _beyond_bounds(self, given: GridReadings) -> tuple[GridReadings, np.ndarray | None]:
        """Readings at a bound as what they say: that field and noise are at least there, as the field is clipped, too.

        That moves the mean that the others say, and lowers its variance, as a reading of the right value and noise would
        (expectation propagation). With them come the variances of heavy-tailed steps, where these were looked for.
        """
        side = given.grid.on_rows(self.bounds.at(given.values).T)
        if self.transform.functions is not None:  # of the user, which may fall
            ends = np.array([np.nanmin(given.values), np.nanmax(given.values)])
            side = side * np.sign(np.diff(self.transform.forward(ends)))
        at = np.isfinite(given.rows) & (np.nan_to_num(side) != 0)
        if not at.any():
            return given, None
        own = np.broadcast_to(given.noise, at.shape)
        rows, noise, side, bound = np.where(at, np.nan, given.rows), own.copy(), side[at], given.rows[at]
        precision = weighted = np.zeros(bound.size)
        before, df, scale = np.full(bound.size, np.inf), self.df, None
        for _ in range(SWEEPS if at.sum() > FEW * np.isfinite(given.rows).sum() else 1):
            done = heavy_tailed_pass(rows, self.dynamics, noise, df, scale=scale)
            if np.mean(np.abs(done.x[at] - before) <= STILL * np.sqrt(done.var[at])) >= NEARLY:
                break
            df, scale = None, done.scale  # which readings at a bound hardly change
            before = done.x[at]
            # what all others say, without what the reading itself has said
            var = 1 / np.maximum(1 / done.var[at] - precision, LEFT / done.var[at])
            x = var * (done.x[at] / done.var[at] - weighted)
            spread = np.sqrt(var + own[at])
            z = np.maximum(side * (x - bound) / spread, FARTHEST)
            ratio = np.sqrt(2 / np.pi) / erfcx(-z / np.sqrt(2))  # of the normal density to its distribution function
            rows[at] = x + side * spread / (ratio + z)
            noise[at] = spread**2 / np.maximum(ratio * (ratio + z), SAYS_NOTHING) - var
            precision, weighted = 1 / noise[at], rows[at] / noise[at]
        return replace(given, rows=rows, noise=noise), done.scale if self.df else None

    def _ahead(self, given: GridReadings, seconds: np.ndarray) -> FieldEstimate:
        last = len(given.rows)
        rows = np.pad(given.rows, ((0, seconds.size), (0, 0)), constant_values=np.nan)
        noise = given.noise if given.noise.ndim == 1 else np.pad(given.noise, ((0, seconds.size), (0, 0)), mode="edge")
        longer = replace(given, rows=rows, noise=noise)
        errors = self.cycles.errors_at(np.append(given.grid.seconds, seconds))
        done = self._pass(longer, robust=False, smooth=False, errors=errors)
        offsets, used = errors.left(done.taken)[last:], np.isfinite(done.innovations)
        return FieldEstimate(done.x[last:], done.var[last:], offsets, used, done.log_likelihood)

    def _scores(self, given: GridReadings) -> np.ndarray:
        return robust_pass(given.rows, self.dynamics, given.noise, self.df)[1]

    def _stream(self, given: GridReadings, row: int, robust: float | None) -> Stream:
        errors = self.cycles.errors_at(given.grid.seconds).draws
        done = run(given.rows, self.dynamics, given.noise, smooth=False, errors=errors)
        return Stream(self, done.state, done.covariance, row, robust)

    def _draw(self, n_times: int, rng: np.random.Generator) -> np.ndarray:
        return self.dynamics.draw(n_times, rng)

    def _pass(
        self, given: GridReadings, *, robust: bool, smooth: bool = True, progress: ProgressCallback | None = None,
        W: np.ndarray | None = None, errors: OffsetErrors | None = None, scale: np.ndarray | None = None,
    ) -> Pass:  # fmt: skip
        """One pass over readings on a grid, from steps' variances on, and over draws of the errors of mean and cycles."""
        rows, r, tick, draws = given.rows, given.noise, None, None if errors is None else errors.draws
        if progress is not None:
            total = len(rows) * (PASSES if self.df and smooth else 1) * (ROUNDS if robust else 1)
            counter = itertools.count(1)
            tick = lambda _: progress(Progress("smoothing", fraction=next(counter) / total))  # noqa: E731
        if robust:
            return robust_pass(rows, self.dynamics, r, self.df, scale=scale, W=W, tick=tick, errors=draws)[0]
        return heavy_tailed_pass(rows, self.dynamics, r, self.df, scale=scale, smooth=smooth, W=W, tick=tick, errors=draws)

    def _weights(self, points: np.ndarray, z: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        """Of the field at M places: weights (M, N) of the stations, variance (M,) of what they do not tell, mean and cycles.

        Their standard covariates are ``z`` (M, C). The last are coefficients (K, M) and their variances.
        """
        # a place is its own node in the graph family: no other one may change the graph
        size = 1 if self.kernel.family == "graph" else PLACES
        parts = [(points[k : k + size], z[k : k + size]) for k in range(0, len(points), size)]
        extensions = [self.extension(*part) for part in parts]
        levels = [self.cycles.at_points(self.space, *part) for part in parts]
        spreads = [self.cycles.spread_at_points(self.space, *part) for part in parts]
        own = np.concatenate([e.own.diagonal() for e in extensions])
        return np.vstack([e.W for e in extensions]), own, np.hstack(levels), np.hstack(spreads)

    def _own_arrays(self) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
        p, blocks = self.parameters, self.dynamics.blocks
        arrays = {"Q": self.dynamics.Q, "P0": self.dynamics.P0, "partials": p.partials, "log_noise": p.log_noise}
        facts = {
            "df": self.df, "family": p.family, "log_variance": p.log_variance, "log_reach": p.log_reach,
            "logit_eta": p.logit_eta, "blocks": len(blocks), "places": None if self.places is None else asdict(self.places),
        }  # fmt: skip
        return arrays | {f"A{k + 1}": A for k, A in enumerate(blocks)}, facts

    @classmethod
    def from_arrays(cls, a: dict[str, np.ndarray], facts: dict[str, Any]) -> SpaceTimeModel:
        """A model from what :meth:`to_arrays` gave, checked."""
        n, order = int(a["noise"].size), int(facts["blocks"])
        store.need(order in (1, 2), "its sizes contradict each other")
        store.need(facts["family"] in FAMILIES, f"its family is {facts['family']!r}")
        for name, shape in {"log_noise": (n,), "partials": (order,)}.items():
            store.array(a, name, shape)
        blocks = tuple(a[f"A{k + 1}"] for k in range(order))
        valid = all(A.shape in ((), (n,), (n, n)) and A.dtype == float and np.isfinite(A).all() for A in blocks)
        store.need(valid, "A is not valid")
        dynamics = Dynamics(blocks, store.covariance(a, "Q", n), store.covariance(a, "P0", order * n))
        log_variance, log_reach, logit_eta = (store.number(facts, name) for name in ("log_variance", "log_reach", "logit_eta"))
        df = None if facts["df"] is None else store.number(facts, "df")
        store.need(df is None or df > 0, "its degrees of freedom are not positive")
        parameters = Parameters(facts["family"], log_variance, log_reach, logit_eta, a["partials"], a["log_noise"])
        shared = store.shared_fields(a, facts)
        places, regression = facts.get("places"), shared["cycles"].regression
        kernel = None if places is None else _kernel(places, 0 if regression is None else regression.used.size)
        return cls(dynamics=dynamics, df=df, parameters=parameters, places=kernel, **shared)


def _kernel(facts: dict[str, Any], covariates: int) -> PlaceKernel:
    """The covariance of a file, checked."""
    own, reach, variance = (store.number(facts, name) for name in ("own", "reach", "variance"))
    slopes = tuple(map(float, facts["slopes"]))
    store.need(
        facts["family"] in FAMILIES and 0 <= own <= 1 and min(reach, variance) > 0, "its covariance of places is not valid"
    )
    store.need(len(slopes) == covariates and all(0 <= slope < np.inf for slope in slopes), "its slopes at places are not valid")
    return PlaceKernel(facts["family"], reach, own, variance, slopes)
