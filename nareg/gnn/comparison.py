"""Compare models on the same draws of noise: mean, spread, 95 % interval, paired differences."""

from __future__ import annotations

import json
import os
import zlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import torch
from scipy import stats

from nareg._core import checks
from nareg._storage.files import atomic_write
from nareg._version import __version__
from nareg.errors import InputError
from nareg.gnn._digest import digest
from nareg.gnn.adjacency import Adjacency, GraphInput, as_adjacency
from nareg.gnn.networks import Network
from nareg.gnn.training import Protocol, Run, Split, checked_task, fit
from nareg.io import write_rows
from nareg.progress import Progress, ProgressCallback
from nareg.results import Status
from nareg.typing import ArrayLike

if TYPE_CHECKING:
    from matplotlib.axes import Axes

#: One training in a table: model, run, seed, accuracies in per cent, epochs, seconds.
Row: TypeAlias = dict[str, Any]


@dataclass(frozen=True)
class Recipe:
    """A model and how it is trained.

    Attributes
    ----------
    build : callable
        ``build(n_features, n_classes)`` returns a new network.
    learning_rate, weight_decay : float
        Settings of Adam.
    """

    build: Callable[[int, int], Network]
    learning_rate: float = 0.01
    weight_decay: float = 5e-4

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
    """Paired comparison of two models, run by run on the same noise.

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
    statistic = abs(gap.mean) / (gap.deviation / np.sqrt(gap.runs))
    return Paired(gap.mean, gap.half_width, float(2 * stats.t.sf(statistic, gap.runs - 1)), gap.runs)


@dataclass(frozen=True)
class Comparison:
    """Runs of several models on the same draws.

    Attributes
    ----------
    rows : list of dict
        One per training: ``model``, ``run``, ``seed``, ``test``, ``test by ...``, ``val`` (per cent), ``epoch``, ``epochs``,
        ``seconds``.
    """

    rows: list[Row]

    @property
    def models(self) -> list[str]:
        """Names, in the order in which they were given."""
        return list(dict.fromkeys(row["model"] for row in self.rows))

    def accuracies(self, model: str) -> np.ndarray:
        """Test accuracies of a model in per cent, run by run."""
        accuracies = [row["test"] for row in self.rows if row["model"] == model]
        if not accuracies:
            raise InputError(f"model is {model!r}: choose one of {', '.join(self.models)}.")
        return np.array(accuracies)

    def summary(self) -> dict[str, Summary]:
        """Model -> mean, standard deviation, 95 % interval."""
        return {model: summarize(self.accuracies(model)) for model in self.models}

    def paired(self, first: str, second: str) -> Paired:
        """Difference of two models on the same draws."""
        return paired(self.accuracies(first), self.accuracies(second))

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

    def __str__(self) -> str:
        width = max(len(model) for model in self.models)
        return "\n".join(f"{model:{width}}  {summary}" for model, summary in self.summary().items())


#: Recipe, name, graph, features, labels, split, protocol, seed: all that shapes a training's result.
_Task: TypeAlias = tuple[Recipe, str, Adjacency, np.ndarray, np.ndarray, Split, Protocol, int]


def compare(
    recipes: Mapping[str, Recipe],
    graph: GraphInput,
    draw: Callable[[np.random.Generator], np.ndarray],
    labels: ArrayLike,
    split: Split,
    *,
    runs: int = 10,
    protocol: Protocol | None = None,
    cache: str | os.PathLike[str] | None = None,
    rng: np.random.Generator | None = None,
    progress: ProgressCallback | None = None,
) -> Comparison:
    """Train every model on the same noisy features, ``runs`` times.

    Parameters
    ----------
    recipes : mapping of name to Recipe
    graph : Adjacency, Graph, sparse matrix or edge_index
    draw : callable
        ``draw(rng)`` returns the features of a run, (N, F): add the noise and normalize in here.
    labels, split
        As for :func:`nareg.gnn.training.fit`.
    runs : int
    protocol : Protocol, optional
    cache : path, optional
        Folder for the result of every training, by a hash of all arguments and the settings of the network: an interrupted
        comparison continues where it stopped. Empty it after you change the code of a model.
    rng : numpy.random.Generator, optional
        Source of the seeds, default ``default_rng(0)``. The seed of a model does not depend on which others there are.
    progress : callable, optional
        Called with a :class:`~nareg.progress.Progress` per training.

    Returns
    -------
    Comparison

    Raises
    ------
    InputError
        If an argument cannot work, or a network for the cache has a setting that cannot be hashed.

    Examples
    --------
    >>> import numpy as np, nareg
    >>> from nareg.gnn import comparison, networks, training
    >>> data = nareg.datasets.node_classification.synthetic(120, 3, rng=np.random.default_rng(0))
    >>> result = comparison.compare(
    ...     {
    ...         "MLP": comparison.Recipe(networks.FilteredNetwork, learning_rate=0.2),
    ...         "NGC": comparison.Recipe(lambda f, c: networks.FilteredNetwork(f, c, lam=8.0), learning_rate=0.2),
    ...     },
    ...     data.graph,
    ...     lambda rng: data.features + 0.5 * rng.standard_normal(data.features.shape),
    ...     data.labels, data.splits[0],
    ...     runs=3, protocol=training.Protocol(epochs=30), rng=np.random.default_rng(1))
    >>> result.paired("NGC", "MLP").difference > 0
    True
    """
    protocol = protocol or Protocol()
    runs = checks.integer("runs", runs, low=1)
    if not recipes:
        raise InputError("recipes is empty: at least one model is needed.")
    seeds = [int(seed) for seed in checks.generator(rng).integers(2**62, size=runs)]
    y = checks.array_of("labels", labels)
    if y.ndim != 1:
        raise InputError(f"labels has shape {y.shape}: one integer per node is expected.")
    adjacency = as_adjacency(graph, y.shape[0])
    _, split = checked_task(y, split, y.shape[0])
    folder = None if cache is None else Path(cache)
    rows: list[Row] = []
    for run, seed in enumerate(seeds):
        x = checks.floats("draw(rng)", draw(np.random.default_rng(seed)), ndim=(2,))
        for name, recipe in recipes.items():
            task = (recipe, name, adjacency, x, y, split, protocol, seed)
            file = None if folder is None else folder / f"{_key(task)}.json"
            rows.append({"model": name, "run": run, "seed": seed, **_row(file, task)})
            if progress is not None:
                total = runs * len(recipes)
                progress(Progress("comparison", len(rows), total, len(rows) / total))
    return Comparison(rows)


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


def _row(file: Path | None, task: _Task) -> Row:
    """Results of a training, from the cache or computed and stored."""
    if file is not None and file.is_file():
        try:
            stored: Row = json.loads(file.read_text())
        except ValueError:
            raise InputError(f"cache holds {file}, which is damaged: delete it.") from None
        return stored
    recipe, name, adjacency, x, y, split, protocol, seed = task
    run = recipe.train(adjacency, x, y, split, protocol=protocol, rng=model_generator(seed, name))
    if run.status is Status.INTERRUPTED:
        raise KeyboardInterrupt
    row = results(run)
    if file is not None:
        file.parent.mkdir(parents=True, exist_ok=True)
        with atomic_write(file, own=True) as handle:
            handle.write(json.dumps(row).encode())
    return row


def _key(task: _Task) -> str:
    """Hash of all that shapes a training's result."""
    recipe, name, adjacency, x, y, split, protocol, seed = task
    with torch.random.fork_rng(devices=[]):
        network = recipe.build(x.shape[1], int(y.max()) + 1)
    raw = adjacency.raw
    graph = [adjacency.normalization, raw.indptr, raw.indices, raw.data]
    settings = [__version__, name, recipe.learning_rate, recipe.weight_decay, seed, asdict(protocol)]
    return digest(settings, network, x, y, graph, [np.asarray(part) for part in split])
