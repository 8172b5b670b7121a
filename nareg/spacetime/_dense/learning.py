"""From readings on a grid to dynamics and noise: candidates, the readings that compare them, and the choice.

1. Families of correlation and orders of the autoregression, by likelihood, on the readings that are not hidden.
2. Refinements by EM (free process noise, dynamics, heavy-tailed steps), by the error at the hidden readings: a richer model is
   taken where it lowers that error by more than its standard error.
3. What was chosen, once more with every reading.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TypeAlias

import numpy as np

from nareg._solvers.threads import few_threads
from nareg.graph import Graph
from nareg.io import count
from nareg.results import Status
from nareg.spacetime._dense.cycles import DenseShrinkage, regressed
from nareg.spacetime._dense.em import Estimate, Refinement, Watch, refine
from nareg.spacetime._dense.families import (
    AGAIN,
    LONG_SECONDS,
    STEPS_PER_STATION,
    ModelComparison,
    windows_of,
    windows_of_matrices,
)
from nareg.spacetime._dense.filter import Dynamics
from nareg.spacetime._dense.parametric import SMALLEST, Fitted, Parameters, noise_errors
from nareg.spacetime._dense.smoother import (
    PASSES,
    SPARE,
    Pass,
    filter_each,
    heavy_tailed_pass,
    local_pass,
    moments_each,
    normal_equations,
    run,
    smoothed_means,
    tail_variances,
)
from nareg.spacetime._dense.starts import shown_noise
from nareg.spacetime._readings.cycles import Cycles
from nareg.spacetime._readings.engine import Learned, Learner, LearningTask, StageClock
from nareg.spacetime._readings.holdout import (
    FEWEST_HIDDEN,
    HeldOut,
    Judge,
    silent_times,
    station_order,
)  # fmt: skip
from nareg.spacetime._readings.outliers import deletion_scores, gross, robust_spread
from nareg.spacetime._readings.resolution import most_noise
from nareg.spacetime._readings.space import Space
from nareg.spacetime._readings.times import TimeGrid

#: Iterations of EM.
EM_ITERATIONS = 7
#: Of more iterations than this, the last fit takes so many, from the estimate that they led to before it.
LAST_ITERATIONS = 3
#: A path of EM ends when its last steps so many lower the best loss by less than a share of it; one does where that is behind
#: another form, or where it raises the loss by more than the last share: no path was seen to come back from there.
PATIENCE, LOWERED, RAISED = 2, 5e-4, 3e-3
#: Weights of the parametric process noise and dynamics, per step of the readings: dynamics of few parameters need little.
WEIGHTS = {"scalar": (0.2, 1.0), "diagonal": (0.5, 0.03), "modes": (0.2, 0.03), "graph": (0.5, 1.0), "full": (0.5, 1.0)}
#: What "auto" tries, in this order.
AUTO = ("modes", "full")
#: Degrees of freedom of heavy-tailed steps.
DF = 4.0
#: A parametric fit whose scaled gradient is at most this has converged.
FLAT = 1e-2
#: Multiplications from which on normal equations of means and cycles take too long: those of least squares remain.
#: To solve them takes so many times the cube of their number.
MOST, PER_SOLVE = 5e10, 10
#: Outliers make a station's noise larger than the spread of its other readings by at most this factor.
LEAST_SPREAD = 0.05
#: So many times the noise variance that readings leave room for, or the median station's share of that, is no noise.
TOO_MUCH = 4.0
#: A station with less than this share of the field's variance may have a smaller field.
QUIET = 0.1


#: Something, and the variances of steps that it came with.
Scaled: TypeAlias = tuple[np.ndarray, np.ndarray | None]


@dataclass(frozen=True, eq=False)
class _Form:
    """A form of the dynamics, where it began, where iterations of EM led to, and its errors at the hidden readings."""

    errors: np.ndarray
    start: Fitted
    model: tuple[Dynamics, np.ndarray]
    refinement: Refinement | None = None
    iterations: int = 0


@dataclass(frozen=True)
class DenseLearner(Learner):
    """Learns with covariances of all stations."""

    space: Space

    def patch(self, y: np.ndarray) -> tuple[np.ndarray, Space]:
        """All stations."""
        return np.arange(len(y)), self.space

    def shrinkage(self, rows: np.ndarray, z: np.ndarray | None) -> DenseShrinkage:
        """Towards dense fields."""
        return DenseShrinkage(self.space, station_order(rows), z)

    def learn(self, rows: np.ndarray, task: LearningTask, clock: StageClock) -> Learned:
        """Learn from readings (T, N), mean and cycles removed, NaN where missing."""
        return _Learning(rows, self.space, task, clock).learned()

    def regressed(self, cycles: Cycles, rows: np.ndarray, grid: TimeGrid, learned: Learned) -> tuple[Cycles, float]:
        """Also by Gaussian steps where these are heavy-tailed: what comes every day, such as sunrise, is no outlier."""
        F, usable = cycles.basis(grid.seconds), np.where(learned.excluded, np.nan, rows)
        size = F.shape[1] * rows.shape[1]
        if not np.isfinite(usable).any() or (rows.size + PER_SOLVE * size) * size**2 > MOST:
            return cycles, 0.0
        equations = normal_equations(usable, learned.parts["dynamics"], learned.noise, F)
        return regressed(cycles, self.space, station_order(rows), *equations)


@contextmanager
def open_learner(graph: Graph, rows: int) -> Iterator[DenseLearner]:
    """A learner for readings at so many rows of a grid."""
    with few_threads(graph.n_nodes), SPARE.during():
        yield DenseLearner(Space.of(graph))


class _Learning(ModelComparison):
    """The stages of learning."""

    def learned(self) -> Learned:
        """All stages."""
        y, space, task = self.y, self.space, self.task
        best, simpler = self.best_family()
        parameters = best.parameters
        parts = windows_of(y, parameters.order, LONG_SECONDS)
        excluded = np.zeros(y.shape, dtype=bool)
        if task.robust:
            excluded, parameters = _first_outliers(self.seen, space, parameters, fixed=self.fixed_noise)
            parameters = replace(parameters, log_noise=np.log(task.bounded(parameters.noise)))
        usable = np.where(excluded, np.nan, self.seen)
        windows = [usable[p] for p in parts]
        fitted = self.maximized(windows, space, parameters, task, AGAIN)
        starts = [fitted] if simpler is None else [fitted, self.maximized(windows, space, simpler.parameters, task, AGAIN)]
        if task.robust:
            excluded |= _outliers(self.seen, space, fitted.parameters, excluded)
        self.seen, self.hidden = np.where(excluded, np.nan, self.seen), self.hidden & ~excluded
        form, begin, held_out = self.best_refinement(starts)
        refinement, iterations, parameters = form.refinement, form.iterations, form.start.parameters
        last = iterations if begin is None else LAST_ITERATIONS
        self.clock.enter("learning from all readings", 1.0, (last + 1) * len(y))
        if task.robust:
            excluded |= _outliers(y, space, parameters, excluded)
        estimate = self.finished(np.where(excluded, np.nan, y), form, begin)
        if held_out is not None and refinement is not None:
            # errors of a model that did not see the hidden readings; bands are multiples of what the last model expects there
            last_model, _ = self.held_out(refinement, estimate.dynamics, estimate.r, estimate.scales[0])
            held_out = held_out if last_model is None else replace(held_out, std=last_model.std)
        chosen = f"{parameters.family} correlation, order {parameters.order}"
        if self.fixed_noise and task.noise is None:
            chosen += ", noise of calm times"
        if refinement is not None:
            chosen += f"; {refinement.describe()}, {count(iterations, 'iteration')} of EM"
        status = Status.CONVERGED
        if not estimate.converged:  # EM's iterations were chosen by hidden readings; the parametric search ran out of its own
            status = Status.MAX_ITERATIONS if refinement is None else Status.STOPPED_EARLY
        error = None
        if not self.fixed_noise:
            error = noise_errors(replace(parameters, log_noise=np.log(estimate.r)), space, np.isfinite(y).sum(axis=0))
        df = None if refinement is None else refinement.df
        return Learned(
            {"dynamics": estimate.dynamics, "parameters": parameters, "df": df}, estimate.r,
            float(estimate.dynamics.P0.diagonal()[: space.n].mean()), excluded, estimate.log_likelihood, chosen, self.choices,
            status, estimate.gradient, held_out, tuple(estimate.objective), error,
        )  # fmt: skip

    @cached_property
    def most(self) -> np.ndarray:
        """(N,) noise variances that readings leave room for, whatever the field is."""
        if self.fixed_noise or not self.task.robust:
            return np.full(self.space.n, np.inf)
        return most_noise(self.seen, self.task.bounded(np.zeros(self.space.n)))

    def start(self, parameters: Parameters) -> tuple[Dynamics, np.ndarray]:
        """Dynamics and noise that EM begins with.

        Where one station moves by its own, as a pumped well, to a field of one variance that is noise. What cannot be noise is
        in the process noise of that station. And a quiet station's noise is field to it.
        """
        dynamics, noise = self.quieter(parameters)
        ratio = noise / self.most
        apart = ratio > TOO_MUCH * max(float(np.median(ratio)), 1.0)
        if not apart.any():
            return dynamics, noise
        _, gamma, q = parameters.autoregression()
        steps = np.where(apart, noise - self.most, 0.0)
        counts = np.maximum(np.isfinite(self.y).sum(axis=0), 1)
        squares = np.where(apart, np.nansum(self.y**2, axis=0) / counts, 0.0)
        P0 = dynamics.P0 + np.kron(gamma, np.diag(np.minimum(steps / q, squares)))  # it returns sooner than the network does
        return Dynamics(dynamics.blocks, dynamics.Q + np.diag(steps), P0), np.where(apart, self.most, noise)

    def quieter(self, parameters: Parameters) -> tuple[Dynamics, np.ndarray]:
        """Dynamics and noise with a smaller field at :data:`QUIET` stations, and the noise that these show, where likelier.

        A field that rests most of the time is quiet as well, and moves by as much as others when it does.
        """
        plain = parameters.dynamics(self.space), parameters.noise
        counts = np.maximum(np.isfinite(self.seen).sum(axis=0), 1)
        share = np.nansum(self.seen**2, axis=0) / counts / plain[0].P0.diagonal()[: self.space.n]
        quiet = (share < QUIET) & (share > 0)
        if self.fixed_noise or not quiet.any():
            return plain
        for known, result in self.weighed:
            if known is parameters:
                return result
        scale = np.tile(np.sqrt(np.where(quiet, share, 1.0)), parameters.order)
        Q, P0 = (part * np.outer(scale[: len(part)], scale[: len(part)]) for part in (plain[0].Q, plain[0].P0))
        smaller = Dynamics(plain[0].blocks, Q, P0)
        window = self.seen[windows_of_matrices(self.y, parameters.order)[0]]
        # not more than another station's: else it is that of the others that is misjudged
        shown = np.where(quiet, np.fmax(plain[1], np.fmin(shown_noise([window]), plain[1].max())), plain[1])
        starts = [plain, (smaller, plain[1]), (smaller, shown)]
        best = max(starts, key=lambda each: run(window, *each, smooth=False).log_likelihood)
        self.weighed.append((parameters, best))
        return best

    @cached_property
    def weighed(self) -> list[tuple[Parameters, tuple[Dynamics, np.ndarray]]]:
        """What :meth:`quieter` took for parameters."""
        return []

    def refined(
        self, windows: list[np.ndarray], parameters: Parameters, refinement: Refinement, iterations: int, *,
        watch: Watch | None = None, begin: Estimate | None = None, known: list[Pass] | None = None,
    ) -> Estimate:  # fmt: skip
        """EM from the parametric model on, whose passes may be known."""
        basis = support = None
        if refinement.dynamics == "modes":  # the eigenvectors of the field's covariance
            basis = np.linalg.eigh(self.start(parameters)[0].P0[: self.space.n, : self.space.n])[1]
        elif refinement.dynamics == "graph":
            support = (self.space.adjacency.toarray() > 0) | np.eye(self.space.n, dtype=bool)
        rows = sum(len(w) for w in windows)
        return refine(
            windows, *self.start(parameters), refinement, iterations=iterations,
            fixed_noise=self.fixed_noise, least=self.task.least, basis=basis, support=support, begin=begin, known=known,
            watch=watch, tick=lambda _: self.clock.tick(rows),
        )  # fmt: skip

    def best_refinement(self, starts: list[Fitted]) -> tuple[_Form, Estimate | None, HeldOut | None]:
        """The form that predicts the hidden readings best, what its iterations led to, and predictions.

        The first start is the best without a refinement. The estimate is one of the whole record's steps, too, or None where
        so few iterations begin anew.
        """
        parameters = starts[0].parameters
        best = _Form(np.zeros(0), starts[0], self.start(parameters))
        if np.nanvar(self.seen) <= SMALLEST:  # constant readings leave nothing to refine
            return best, None, None
        task, parts = self.task, windows_of_matrices(self.y, parameters.order)
        windows, masks = ([values[p] for p in parts] for values in (self.seen, self.hidden))
        truth = np.concatenate([self.y[p][m] for p, m in zip(parts, masks, strict=True)])
        rows, steps = sum(len(w) for w in windows), sum(len(w) - 1 for w in windows)
        forms = [weighted(kind, steps) for kind in (AUTO if task.dynamics == "auto" else (task.dynamics,))]
        expected = EM_ITERATIONS * (len(forms) + len(starts)) * rows + PASSES * len(self.y)
        self.clock.enter("comparing dynamics by hidden readings", 0.85, expected)
        if truth.size < FEWEST_HIDDEN or (task.dynamics == "auto" and steps < STEPS_PER_STATION * self.space.n):
            if task.dynamics != "auto" and steps:
                best = replace(best, refinement=forms[0], iterations=EM_ITERATIONS)
            return best, None, self.held_out(None, *best.model)[0]

        def errors(means: list[np.ndarray]) -> np.ndarray:
            return truth - np.concatenate([x[m] for x, m in zip(means, masks, strict=True)])

        passes = moments_each(filter_each(windows, *best.model))
        best = replace(best, errors=errors([done.x for done in passes]))
        judge = Judge.of(best.errors, silent_times(windows, masks))
        silent = silent_times([self.seen], [self.hidden])

        def whole_means(form: _Form) -> Scaled:
            """Predictions of the hidden readings of the whole record, and the variances of its steps."""
            df = None if form.refinement is None else form.refinement.df
            scale = tail_variances(self.seen, *form.model, df) if df else None
            (x,) = smoothed_means([self.seen], *form.model, [scale])
            self.clock.tick(len(self.y))
            return x[self.hidden], scale

        whole = None if rows >= len(self.y) else whole_means(best)

        def confirmed(challenger: _Form) -> bool:
            """Whether it also predicts the hidden readings of the whole record better, where windows are a part."""
            nonlocal whole
            if whole is None:
                return True
            new = whole_means(challenger)
            before, after = (self.y[self.hidden] - x for x, _ in (whole, new))
            better = Judge.of(before, silent).better_overall(before, after)
            whole = new if better else whole
            return better

        def attempt(refinement: Refinement, source: Fitted, begin: Estimate | None = None) -> None:
            nonlocal best, whole
            path: list[_Form] = []
            losses: list[float] = []
            before = 0 if begin is None else best.iterations

            def watch(means: list[np.ndarray], now: Estimate) -> bool:
                form = _Form(errors(means), source, (now.dynamics, now.r), refinement, before + len(path))
                path.append(form)
                losses.append(judge.loss(form.errors))
                return path_ends(losses, judge.loss(best.errors))

            more = EM_ITERATIONS if begin is None else LAST_ITERATIONS
            known = passes if begin is None and refinement.df is None and source is starts[0] else None
            self.refined(windows, source.parameters, refinement, more, watch=watch, begin=begin, known=known)
            gains = [judge.gain(best.errors, form.errors) for form in path]
            k = int(np.argmax([gain.value for gain in gains]))
            order = "" if source is starts[0] else f", order {source.parameters.order}"
            self.choices.append((refinement.describe() + order, gains[k].value, gains[k].error))
            must = task.dynamics != "auto" and best.refinement is None
            k = max(k, 1) if must else k
            # the orders themselves are compared: the less likely one has to gain by its iterations, and on the whole
            worth = source is starts[0] or (k > 0 and judge.better_overall(best.errors, path[k].errors))
            better = gains[k].better and worth and confirmed(path[k])
            if must and not better:
                whole = None if whole is None else whole_means(path[k])
            if better or must:
                best = path[k]

        for source in starts:
            attempt(forms[0], source)
        for refinement in forms[1:]:
            attempt(refinement, best.start)
        # heavy tails for the dynamics that were taken, from there: few hidden readings tell how far to go on anew
        begin = None if best.refinement is None else Estimate(*best.model, [np.ones(len(window)) for window in windows])
        attempt(replace(best.refinement or weighted("scalar", steps), df=DF), best.start, begin)
        chosen = best.refinement
        if chosen is not None and chosen.df is None and rows >= len(self.y):  # the last model tells how far off they may be
            held_out: HeldOut | None = HeldOut(truth, truth - best.errors, np.full(truth.size, np.nan))
            scale = np.ones(rows)
        elif chosen is not None and whole is not None:  # which are predicted already
            x, known = whole
            held_out = HeldOut(self.y[self.hidden], x, np.full(x.size, np.nan))
            scale = np.ones(len(self.y)) if known is None else known
        else:
            held_out, scale = self.held_out(chosen, *best.model, spreads=chosen is None)  # the last model tells them
        return best, Estimate(*best.model, [scale]) if best.iterations > LAST_ITERATIONS else None, held_out

    def held_out(
        self, refinement: Refinement | None, dynamics: Dynamics, r: np.ndarray, scale: np.ndarray | None = None, *,
        spreads: bool = True,
    ) -> tuple[HeldOut | None, np.ndarray]:  # fmt: skip
        """Predictions over the whole record, which windows may be too short or too few to stand for; its steps' variances.

        They may be known. Without ``spreads`` the predictions have no standard deviations.
        """
        if not self.hidden.any():
            return None, np.ones(len(self.y))
        offsets, hidden = self.task.offsets, self.hidden
        draws, df = None if offsets is None else offsets.draws, None if refinement is None else refinement.df
        if not spreads:
            scale = tail_variances(self.seen, dynamics, r, df) if df and scale is None else scale
            (x,) = smoothed_means([self.seen], dynamics, r, [scale])
            self.clock.tick(PASSES * len(x))
            held_out = HeldOut(self.y[hidden], x[hidden], np.full(x[hidden].size, np.nan))
            return held_out, np.ones(len(x)) if scale is None else scale
        known = df is None or scale is not None  # then there is one pass
        done = heavy_tailed_pass(self.seen, dynamics, r, None if known else df, scale=scale, tick=self.clock.tick, errors=draws)
        left = 0.0 if offsets is None else offsets.left(done.taken)
        return HeldOut(self.y[hidden], done.x[hidden], np.sqrt((done.var + r + left)[hidden])), done.scale

    def finished(self, y: np.ndarray, form: _Form, begin: Estimate | None) -> Estimate:
        """The chosen model on every reading."""
        fitted, refinement, parameters = form.start, form.refinement, form.start.parameters
        if refinement is None:
            start, noise = self.start(parameters)
            done = run(y, start, noise, smooth=False)
            self.clock.tick(len(y))
            return Estimate(
                start, noise, [np.ones(len(y))], [done.log_likelihood], done.log_likelihood, fitted.gradient, 0,
                fitted.gradient <= FLAT,
            )  # fmt: skip
        last = weighted(refinement.dynamics, len(y) - 1, refinement.df)
        return self.refined([y], parameters, last, form.iterations if begin is None else LAST_ITERATIONS, begin=begin)


def path_ends(losses: list[float], best: float) -> bool:
    """Whether a path of EM with these losses goes no further, beside the form with the ``best`` loss so far."""
    patience = PATIENCE if min(losses) <= best and losses[-1] <= (1 + RAISED) * min(losses) else 1
    return len(losses) > patience and min(losses[-patience:]) > (1 - LOWERED) * min(losses[:-patience])


def weighted(kind: str, steps: int, df: float | None = None) -> Refinement:
    """A refinement with the weights of its kind, for a record of so many steps."""
    nu, kappa = WEIGHTS[kind]
    return Refinement(kind, nu * steps, kappa * steps, df)


def _first_outliers(y: np.ndarray, space: Space, parameters: Parameters, fixed: bool) -> tuple[np.ndarray, Parameters]:
    """Gross outliers, and noise without what they made of it: unless it is given, a few iterations would not undo that."""
    scores = deletion_scores(y, *local_pass(y, parameters.dynamics(space), parameters.noise), parameters.noise)
    excluded = gross(scores)
    if fixed:
        return excluded, parameters
    spread = robust_spread(scores)
    # less would be a station whose readings are all but equal, of whose noise they say nothing
    smaller = np.where(excluded.any(axis=0) & (spread > LEAST_SPREAD), np.minimum(spread, 1.0), 1.0)
    return excluded, replace(parameters, log_noise=parameters.log_noise + 2 * np.log(smaller))


def _outliers(y: np.ndarray, space: Space, parameters: Parameters, excluded: np.ndarray) -> np.ndarray:
    usable = np.where(excluded, np.nan, y)
    estimate = local_pass(usable, parameters.dynamics(space), parameters.noise)
    return gross(deletion_scores(y, *estimate, np.where(excluded, np.inf, parameters.noise)))
