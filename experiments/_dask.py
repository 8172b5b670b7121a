"""Points over dask.distributed: a scheduler that is named, or a cluster of processes on this machine.

A worker computes rows and returns them; they are written here, so that workers need no folder in common. What a worker needs is
the same nareg, and the experiments beside it or in its folder. A point is a function of its arguments (see Figure): the rows do
not depend on where and in which order they are computed.
"""

from __future__ import annotations

import logging
import queue
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from typing import Any

from experiments import _engine
from experiments._figure import Point, Row
from nareg._core import imports
from nareg.errors import MissingDependencyError, NaregError

#: The scheduler that stands for processes on this machine.
LOCAL = "local"
#: Seconds to wait for a scheduler that does not answer, and for one that has no worker.
ANSWER, WORKER = 10.0, 60.0
#: Seconds between looks at the workers while no point is done.
LOOK = 5.0
#: Workers that a point may end before it is given up.
DEATHS = 2
#: Points that are computed in one process at a time: torch's random state is the process's.
_alone = threading.Lock()


class Cluster:
    """The workers of a scheduler."""

    def __init__(self, client: Any, scheduler: str) -> None:
        self.client, self.scheduler = client, scheduler

    def compute(self, name: str, settings: Any, points: dict[int, Point], mark: str) -> Iterator[tuple[int, list[Row]]]:
        """Rows of these points of a figure, each with its number, in the order in which they are done.

        Raises
        ------
        NaregError
            If the scheduler or all workers are gone, or a point ends the workers that compute it.
        """
        done: queue.SimpleQueue[Any] = queue.SimpleQueue()
        waiting: dict[Any, int] = {}
        silent = 0.0
        try:
            for i, point in points.items():
                task = (imports.call, "experiments", "_dask", "computed", name, asdict(settings), point, mark)
                future = self.client.submit(*task, pure=False, key=f"{name}-{mark}-{i}")
                waiting[future] = i
                future.add_done_callback(done.put)
            while waiting:
                try:
                    future = done.get(timeout=LOOK)
                except queue.Empty:
                    silent = 0.0 if self._workers() else silent + LOOK
                    if silent >= WORKER:
                        raise NaregError(
                            f"{self.scheduler} has had no worker for {WORKER:.0f} s: start one in a checkout of nareg with "
                            "`dask worker ADDRESS --nthreads 1`."
                        ) from None
                else:
                    rows = self._rows(name, future)
                    yield waiting.pop(future), rows
        finally:
            self.client.cancel(list(waiting))

    def _rows(self, name: str, future: Any) -> list[Row]:
        import distributed

        if future.status not in ("finished", "error"):
            raise self._gone()
        try:
            rows: list[Row] = future.result()
        except distributed.KilledWorker as killed:
            raise NaregError(
                f"{name}: every worker that computed one of its points died, perhaps of memory; finished points are kept: give "
                "workers more memory, or take fewer, and run it again."
            ) from killed
        return rows

    def _workers(self) -> int:
        """Number of workers; a scheduler that is gone is noticed here."""
        if self.client.status != "running":
            raise self._gone()
        return len(self.client.nthreads())

    def _gone(self) -> NaregError:
        return NaregError(f"{self.scheduler} is gone; finished points are kept: start it and run this again.")


@contextmanager
def cluster(scheduler: str, jobs: int) -> Iterator[Cluster]:
    """Workers of the scheduler at an address, or for "local" so many processes with a thread each."""
    try:
        import dask
        import distributed
    except ModuleNotFoundError as missing:
        raise MissingDependencyError(f"--dask needs distributed ({missing}): pip install 'nareg[dask]'.") from missing
    # what goes wrong is said by the errors here
    for name in ("distributed", "tornado.application"):
        logging.getLogger(name).setLevel(logging.CRITICAL)
    with dask.config.set({"distributed.scheduler.allowed-failures": DEATHS}):
        if scheduler == LOCAL:
            with deaf_to_interrupts():  # Ctrl-C reaches all processes of a terminal: the workers end with this one
                workers = distributed.LocalCluster(
                    n_workers=jobs, threads_per_worker=1, processes=True, dashboard_address=None, silence_logs=logging.CRITICAL
                )
            with workers, distributed.Client(workers) as client:
                yield Cluster(client, "the local cluster")
            return
        try:
            client = distributed.Client(scheduler, timeout=ANSWER)
        except (OSError, ValueError) as error:
            raise NaregError(
                f"--dask {scheduler}: no scheduler answers there ({type(error).__name__}): start one with `dask scheduler`, "
                "and pass the address that it prints."
            ) from error
        with client:
            yield Cluster(client, scheduler)


@contextmanager
def deaf_to_interrupts() -> Iterator[None]:
    """Processes that are started here ignore Ctrl-C, as this one does meanwhile."""
    if threading.current_thread() is not threading.main_thread():  # which alone may set handlers
        yield
        return
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def computed(name: str, settings: dict[str, Any], point: Point, mark: str) -> list[Row]:
    """A point's rows, on a worker; arguments are plain, so that it can unpickle them before it knows the experiments."""
    figure = _engine.load(name)
    with _alone:
        return _engine.computed(name, type(figure.full)(**settings), point, mark)
