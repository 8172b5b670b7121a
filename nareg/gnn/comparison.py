"""Compare models on the same draws of features: mean, spread, 95 % interval, paired differences."""

from __future__ import annotations

import hashlib
import json
import os
import warnings
import weakref
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias, cast

import numpy as np
import torch
from scipy import stats

from nareg._core import checks
from nareg._storage.files import atomic_write
from nareg._version import __version__
from nareg.datasets.node_classification import NodeClassification
from nareg.errors import InputError, NaregError, brief
from nareg.gnn.adjacency import Adjacency, GraphInput
from nareg.gnn.networks import as_network
from nareg.gnn.training import Protocol, Run, Split, fit
from nareg.io import write_rows
from nareg.progress import Progress, ProgressCallback
from nareg.results import Status

if TYPE_CHECKING:
    from matplotlib.axes import Axes

#: One training in a table: model, run, seed, accuracies in per cent, epochs, seconds.
Row: TypeAlias = dict[str, Any]


@dataclass(frozen=True)
class Candidate:
    """A model and how it is trained.

    Attributes
    ----------
    build : callable
        ``build(n_features, n_classes)`` returns a new torch module, as :func:`nareg.gnn.training.fit` takes it.
    learning_rate, weight_decay : float
        Settings of Adam.

    Examples
    --------
    >>> import nareg
    >>> nareg.gnn.Candidate(lambda f, c: nareg.gnn.NGC(f, c, lam=19.0), learning_rate=0.2).weight_decay
    0.0005
    """

    build: Callable[[int, int], torch.nn.Module]
    learning_rate: float = 0.01
    weight_decay: float = 5e-4

    def __post_init__(self) -> None:
        if isinstance(self.build, torch.nn.Module) or not callable(self.build):
            raise InputError(
                f"build is a {type(self.build).__name__}: pass a function that builds a new torch module, say "
                "lambda n_features, n_classes: Net(n_features, n_classes)."
            )

    def train(
        self,
        graph: GraphInput,
        x: np.ndarray,
        labels: np.ndarray,
        split: Split,
        *,
        protocol: Protocol | None = None,
        rng: np.random.Generator | None = None,
    ) -> Run:
        """One training, see :func:`nareg.gnn.training.fit`."""
        n_classes = int(labels.max()) + 1
        return fit(
            lambda: self.build(x.shape[1], n_classes), graph, x, labels, split,
            learning_rate=self.learning_rate, weight_decay=self.weight_decay, protocol=protocol, rng=rng,
        )  # fmt: skip


@dataclass(frozen=True)
class Summary:
    """Mean of some runs, their standard deviation, and the half-width of the mean's 95 % interval (Student's t)."""

    mean: float
    deviation: float
    half_width: float
    runs: int

    @property
    def standard_error(self) -> float:
        """Of the mean."""
        return self.deviation / float(np.sqrt(self.runs))

    def __str__(self) -> str:
        return f"{self.mean:.1f} ± {self.deviation:.1f} (n = {self.runs})"


def summarize(values: Sequence[float] | np.ndarray) -> Summary:
    """Mean, standard deviation and 95 % interval of some runs.

    Examples
    --------
    >>> from nareg.gnn import comparison
    >>> print(comparison.summarize([80.0, 82.0, 81.0]))
    81.0 ± 1.0 (n = 3)
    """
    array = checks.floats("values", values, ndim=(1,)).astype(np.float64)
    if not array.size:
        raise InputError("values is empty: at least one run is needed.")
    if array.size == 1:
        return Summary(float(array[0]), float("nan"), float("nan"), 1)
    deviation = float(array.std(ddof=1))
    width = float(stats.t.ppf(0.975, array.size - 1)) * deviation / np.sqrt(array.size)
    return Summary(float(array.mean()), deviation, float(width), int(array.size))


@dataclass(frozen=True)
class Paired:
    """Mean difference of two models over the same draws, its 95 % half-width, and the p-value of a paired t-test."""

    difference: float
    half_width: float
    p_value: float
    runs: int


def paired(first: Sequence[float] | np.ndarray, second: Sequence[float] | np.ndarray) -> Paired:
    """Paired comparison of two models, run by run on the same draws.

    Examples
    --------
    >>> from nareg.gnn import comparison
    >>> comparison.paired([80.0, 82.0, 81.0], [79.0, 80.0, 80.5]).difference.__round__(3)
    1.167
    """
    a, b = (checks.floats(name, v, ndim=(1,)).astype(np.float64) for name, v in (("first", first), ("second", second)))
    if a.shape != b.shape or a.size < 2:
        raise InputError(f"first has {a.size} runs and second {b.size}: pass the same two or more runs of both.")
    gap = summarize(a - b)
    if gap.deviation == 0:
        return Paired(gap.mean, 0.0, 1.0 if gap.mean == 0 else 0.0, gap.runs)
    statistic = abs(gap.mean) / gap.standard_error
    return Paired(gap.mean, gap.half_width, float(2 * stats.t.sf(statistic, gap.runs - 1)), gap.runs)


@dataclass(frozen=True)
class Comparison:
    """Runs of several models on the same draws.

    Attributes
    ----------
    rows : list of dict
        One per training: ``model``, ``run``, ``seed``, ``test``, ``test by ...``, ``val`` (per cent), ``epoch``, ``epochs``,
        ``seconds``.
    status : Status
        COMPLETED, or INTERRUPTED (by Ctrl-C): then without the last runs.
    failures : list of dict
        One per training that raised: ``model``, ``run``, ``seed`` and the ``reason``. It has no row.
    """

    rows: list[Row]
    status: Status = Status.COMPLETED
    failures: list[Row] = field(default_factory=list)

    @property
    def models(self) -> list[str]:
        """Names of the models that have a run, in the order in which they were given."""
        return list(dict.fromkeys(row["model"] for row in self.rows))

    def accuracies(self, model: str) -> np.ndarray:
        """Test accuracies of a model in per cent, run by run."""
        return self._column(model, "test")

    def summary(self) -> dict[str, Summary]:
        """Model -> mean, standard deviation, standard error and 95 % interval of its test accuracy."""
        return {model: summarize(self.accuracies(model)) for model in self.models}

    def seconds(self, model: str) -> float:
        """Mean time of a training."""
        return float(self._column(model, "seconds").mean())

    def paired(self, first: str, second: str) -> Paired:
        """Difference of two models on the same draws, those of which both have a run."""
        a, b = (dict(zip(self._column(m, "run"), self.accuracies(m), strict=True)) for m in (first, second))
        common = [run for run in a if run in b]
        return paired(*(np.array([of[run] for run in common]) for of in (a, b)))

    def to_csv(self, path: str | os.PathLike[str]) -> None:
        """All runs as a CSV, written whole or not at all."""
        write_rows(path, list(self.rows[0]), (row.values() for row in self.rows))

    def plot(self, ax: Axes | None = None) -> Axes:
        """Test accuracy of every run, mean and 95 % interval of every model."""
        import matplotlib.pyplot as plt

        axis = plt.subplots(layout="constrained")[1] if ax is None else ax
        for place, (model, summary) in enumerate(self.summary().items()):
            values = self.accuracies(model)
            axis.plot(np.full(values.size, place), values, "o", color="C7", alpha=0.4, markersize=4)
            axis.errorbar(place, summary.mean, summary.half_width, fmt="_", color="C0", capsize=6, markersize=18)
        axis.set_xticks(range(len(self.models)), self.models, rotation=30, ha="right")
        axis.set_ylabel("test accuracy [%]; bar: 95 % interval of the mean")
        return axis

    def _column(self, model: str, key: str) -> np.ndarray:
        if model not in self.models:
            failed = f", which failed ({self._failures(model)[0]})" if self._failures(model) else ""
            raise InputError(f"model is {model!r}{failed}: choose one of {', '.join(self.models)}.")
        return np.array([row[key] for row in self.rows if row["model"] == model])

    def _failures(self, model: str) -> list[str]:
        return [failure["reason"] for failure in self.failures if failure["model"] == model]

    def __str__(self) -> str:
        summary, lines = self.summary(), []
        names = list(dict.fromkeys(row["model"] for row in (*self.rows, *self.failures)))
        for model in names:
            reasons = self._failures(model)
            parts = [f"{summary[model]}  {self.seconds(model):.2g} s"] if model in summary else []
            parts += [f"{len(reasons)} {'run' if len(reasons) == 1 else 'runs'} failed: {reasons[0]}"] if reasons else []
            lines.append(f"{model:{max(map(len, names))}}  {'; '.join(parts)}")
        return "\n".join(lines)


class _FailedError(Exception):
    """A model, or its training, raised the error which is the cause of this one."""


@contextmanager
def _of_model() -> Iterator[None]:
    """What is raised within is a failure of the model, and no reason to give up the others."""
    try:
        yield
    except _RepeatedError:
        raise
    except Exception as error:
        raise _FailedError from error


class _RepeatedError(InputError):
    """A function that should build a model returned an old one."""


@dataclass(frozen=True)
class _Task:
    """All that shapes the result of a training."""

    name: str
    recipe: Candidate
    adjacency: Adjacency
    x: np.ndarray
    labels: np.ndarray
    split: Split
    protocol: Protocol
    seed: int

    def row(self, folder: Path | None) -> Row:
        """Results of the training, from the cache or computed and stored."""
        with _of_model():
            file = None if folder is None else folder / f"{self._key()}.json"
        if file is not None and file.is_file():
            try:
                stored: Row = json.loads(file.read_text())
            except ValueError:
                raise InputError(f"cache holds {file}, which is damaged: delete it.") from None
            return stored
        rng = model_generator(self.seed, self.name)
        with _of_model():
            run = self.recipe.train(self.adjacency, self.x, self.labels, self.split, protocol=self.protocol, rng=rng)
        if run.status is Status.INTERRUPTED:
            raise KeyboardInterrupt
        row = results(run)
        if run.status is Status.DIVERGED:
            # not stored, so that it is said again
            warnings.warn(
                f"models[{self.name!r}] diverged: its loss is not finite after epoch {run.epochs}, and an output that is NaN "
                f"counts as wrong; take a learning_rate below {self.recipe.learning_rate:g}.", UserWarning, stacklevel=3,
            )  # fmt: skip
        elif file is not None:
            file.parent.mkdir(parents=True, exist_ok=True)
            with atomic_write(file, own=True) as handle:
                handle.write(json.dumps(row).encode())
        return row

    def _key(self) -> str:
        """Hash of data and settings, and of what the network answers before it is trained."""
        rates = self.recipe.learning_rate, self.recipe.weight_decay
        raw = self.adjacency.raw
        arrays = [*self.split, self.labels, self.x, raw.indptr, raw.indices, raw.data, *_untrained(self)]
        sha = hashlib.sha256(repr((__version__, self.name, rates, self.seed, self.protocol)).encode())
        for array in map(np.ascontiguousarray, arrays):
            sha.update(repr((array.dtype, array.shape)).encode() + array.tobytes())
        return sha.hexdigest()[:24]


def _untrained(task: _Task) -> list[np.ndarray]:
    """What the new network answers under one seed, dropout included, and which of its parameters are decayed."""
    with torch.random.fork_rng(devices=[]), torch.no_grad():
        torch.manual_seed(0)
        x = torch.as_tensor(task.x)
        network = as_network(task.recipe.build(x.shape[1], int(task.labels.max()) + 1)).to(x.dtype).train()
        ((inputs, rows),) = network.views(task.adjacency, x, [np.arange(x.shape[0])])
        answers = network(inputs, rows)
    decayed = {id(p) for p in network.decayed()}
    return [answers.numpy(), np.array([id(p) in decayed for p in network.parameters()])]


def compare(
    data: NodeClassification,
    models: Mapping[str, Candidate | Callable[[int, int], torch.nn.Module]],
    *,
    draw: Callable[[np.random.Generator], np.ndarray] | None = None,
    runs: int = 10,
    protocol: Protocol | None = None,
    cache: str | os.PathLike[str] | None = None,
    rng: np.random.Generator | None = None,
    progress: ProgressCallback | None = None,
) -> Comparison:
    """Train every model on the same data, ``runs`` times.

    Parameters
    ----------
    data : NodeClassification
        Runs take its splits in turn.
    models : mapping of name to Candidate or callable
        ``build(n_features, n_classes)`` returns a new model: any torch module that is called as
        ``module(x, edge_index, edge_weight)``, such as PyTorch Geometric's, or a :class:`~nareg.gnn.networks.Network`. A
        :class:`Candidate` adds a learning rate and weight decay.
    draw : callable, optional
        ``draw(rng)`` returns the features of a run, (N, F): add noise and normalize in here. Default: those of ``data``.
    runs : int
    protocol : Protocol, optional
        Epochs, rule of selection, device.
    cache : path, optional
        Folder for the result of every training, by a hash of data, settings and what the untrained network answers: an
        interrupted comparison continues where it stopped. Empty it after you change the code of a model.
    rng : numpy.random.Generator, optional
        Source of the seeds, default ``default_rng(0)``. The seed of a model does not depend on which others there are.
    progress : callable, optional
        Called with a :class:`~nareg.progress.Progress` per training.

    Returns
    -------
    Comparison
        After Ctrl-C, of the trainings that had ended.

    Raises
    ------
    InputError
        If an argument cannot work. What a model raises, if all models fail in the first run.

    Warns
    -----
    UserWarning
        If a model diverges or raises; the other models go on.

    Examples
    --------
    >>> import numpy as np, torch, nareg
    >>> from nareg.gnn import training
    >>> data = nareg.datasets.node_classification.synthetic(120, 3, rng=np.random.default_rng(0))
    >>> result = nareg.gnn.compare(
    ...     data,
    ...     {
    ...         "linear": nareg.gnn.Candidate(torch.nn.Linear, learning_rate=0.2),
    ...         "NGC": nareg.gnn.Candidate(lambda f, c: nareg.gnn.NGC(f, c, lam=8.0), learning_rate=0.2),
    ...     },
    ...     draw=lambda rng: data.features + 0.5 * rng.standard_normal(data.features.shape),
    ...     runs=3, protocol=training.Protocol(epochs=30), rng=np.random.default_rng(1))
    >>> result.paired("NGC", "linear").difference > 0
    True
    """
    if not isinstance(data, NodeClassification):
        raise InputError(f"data is a {type(data).__name__}: pass a NodeClassification, say NodeClassification.from_pyg(data).")
    if not isinstance(models, Mapping):
        raise InputError(f"models is a {type(models).__name__}: pass a dict of names and models, say {{'mine': Net}}.")
    if not models:
        raise InputError("models is empty: at least one model is needed.")
    if not data.splits:
        raise InputError("data has no split: pass dataclasses.replace(data, splits=(data.random_split(rng=rng),)).")
    recipes = {
        name: _renewed(name, model if isinstance(model, Candidate) else Candidate(model)) for name, model in models.items()
    }
    protocol, runs = protocol or Protocol(), checks.integer("runs", runs, low=1)
    seeds = [int(seed) for seed in checks.generator(rng).integers(2**62, size=runs)]
    adjacency, folder = Adjacency(data.graph), None if cache is None else Path(cache)
    rows: list[Row] = []
    failures: list[Row] = []
    try:
        for run, seed in enumerate(seeds):
            features = data.dense_features() if draw is None else draw(np.random.default_rng(seed))
            x, split = checks.floats("draw(rng)", features, ndim=(2,)), data.splits[run % len(data.splits)]
            for name, recipe in recipes.items():
                who = {"model": name, "run": run, "seed": seed}
                try:
                    rows.append({**who, **_Task(name, recipe, adjacency, x, data.labels, split, protocol, seed).row(folder)})
                except _FailedError as failed:
                    failures.append({**who, "reason": _reason(failed)})
                    if not rows and len(failures) == len(recipes):
                        raise
                    if name not in (failure["model"] for failure in failures[:-1]):
                        warnings.warn(
                            f"models[{name!r}] failed in run {run}: {failures[-1]['reason']}", UserWarning, stacklevel=2
                        )
                if progress is not None:
                    total, done = runs * len(recipes), len(rows) + len(failures)
                    progress(Progress("comparison", done, total, done / total))
    except KeyboardInterrupt:
        if not rows:
            raise
        return Comparison(rows, Status.INTERRUPTED, failures)
    except _FailedError as failed:  # all models failed: the last one says why
        raise cast(Exception, failed.__cause__) from None
    return Comparison(rows, failures=failures)


def _reason(failed: _FailedError) -> str:
    cause = cast(Exception, failed.__cause__)
    return brief(cause) if isinstance(cause, NaregError) else f"{type(cause).__name__}: {brief(cause)}"


def _renewed(name: str, recipe: Candidate) -> Candidate:
    """A recipe that refuses to train a module twice: the second run would start from what the first one learned."""
    built: weakref.WeakSet[torch.nn.Module] = weakref.WeakSet()

    def build(n_features: int, n_classes: int) -> torch.nn.Module:
        module = recipe.build(n_features, n_classes)
        if module in built:
            raise _RepeatedError(f"models[{name!r}] returned one module twice: build a new one in every call.")
        if isinstance(module, torch.nn.Module):
            built.add(module)
        return module

    return replace(recipe, build=build)


def model_generator(seed: int, name: str) -> np.random.Generator:
    """The generator of a model in a run, which depends on the run's seed and the model's name alone."""
    return np.random.default_rng([seed, zlib.crc32(name.encode())])


def results(run: Run) -> Row:
    """The columns of a training in a table; accuracies in per cent."""
    by_rule = {f"test by {rule}": 100 * value for rule, value in run.test_by_rule.items()}
    return {
        "test": 100 * run.test_accuracy, **by_rule, "val": 100 * run.val_accuracy,
        "epoch": run.epoch, "epochs": run.epochs, "seconds": run.timings["total"],
    }  # fmt: skip
