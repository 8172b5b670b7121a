"""Points over dask.distributed: the serial table, whatever dies."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest

distributed = pytest.importorskip("distributed")

from experiments import _dask, _engine  # noqa: E402
from nareg.errors import NaregError  # noqa: E402
from tests.command_line import run as command  # noqa: E402
from tests.experiments.test_engine import LITTLE, TINY  # noqa: E402
from tests.helpers import at_night  # noqa: E402

pytestmark = [
    pytest.mark.slow,
    pytest.mark.filterwarnings("ignore::ResourceWarning:distributed", "ignore::RuntimeWarning:distributed"),
]
ROOT = Path(__file__).resolve().parents[2]
#: Kills the worker that computes it, every time.
DEADLY = """
import os, signal
from dataclasses import replace
from experiments import _engine
load = _engine.load
def deadly(settings, point):
    os.kill(os.getpid(), signal.SIGKILL)
_engine.load = lambda name: replace(load(name), compute=deadly)
"""


def figure_of(name):
    figure = _engine.load(name)
    return figure, replace(figure.full, **TINY[name])


@pytest.mark.parametrize("name", ["fig1", *at_night(["gnn-products"])])
def test_two_workers_give_the_serial_table(name, tmp_path):
    figure, settings = figure_of(name)
    tables = []
    serial = _engine.run(figure, settings, tmp_path / "serial")
    with _dask.cluster(_dask.LOCAL, 2) as cluster:
        assert len(cluster.client.nthreads()) == 2
        assert set(cluster.client.nthreads().values()) == {1}
        shared = _engine.run(figure, settings, tmp_path / "dask", cluster=cluster)
    measured = ("seconds", "peak_gib")
    for k, rows in enumerate((serial, shared)):
        kept = [{key: value for key, value in row.items() if key not in measured} for row in rows]
        _engine.write_csv(kept, tmp_path / f"{k}.csv")
        tables.append((tmp_path / f"{k}.csv").read_bytes())
    assert tables[0] == tables[1]
    assert len(serial) > 1


@pytest.mark.nightly
def test_a_worker_that_dies_is_replaced_and_the_table_stays(tmp_path):
    figure, settings = figure_of("fig3")
    serial = _engine.run(figure, settings, tmp_path / "serial")
    with _dask.cluster(_dask.LOCAL, 2) as cluster:
        killed = []

        def kill(done: int, total: int) -> None:
            if not killed:
                killed.append(next(iter(cluster.client.run(os.getpid).values())))
                os.kill(killed[0], signal.SIGKILL)

        assert _engine.run(figure, settings, tmp_path / "dask", cluster=cluster, progress=kill) == serial
    assert killed


@pytest.mark.nightly
def test_a_point_that_kills_its_workers_is_said_and_the_others_are_kept(tmp_path):
    figure, settings = figure_of("fig1")
    points = figure.points(settings)
    with _dask.cluster(_dask.LOCAL, 1) as cluster:
        files = [tmp_path / "kept.json"]
        mark = _engine.fingerprint(figure, settings)
        assert len(list(_engine._workers(cluster, "fig1", settings, {0: points[0]}, files, mark))) == 1
        cluster.client.register_plugin(_Deadly())  # in this worker and in each that replaces it
        with pytest.raises(NaregError, match="fig1: every worker that computed one of its points died, perhaps of memory"):
            list(cluster.compute("fig1", settings, {1: points[1]}, mark))
    assert files[0].is_file()


class _Deadly(distributed.WorkerPlugin):
    def setup(self, worker):
        from nareg._core import imports

        folder = imports.find("experiments")
        imports.load_package("experiments", folder)
        exec(DEADLY, {})


@pytest.mark.parametrize("address", ["tcp://127.0.0.1:9", "no-such-host.invalid:8786", "nonsense://x"])
def test_an_address_nobody_listens_at_is_one_sentence(address, tmp_path, monkeypatch):
    monkeypatch.setattr(_dask, "ANSWER", 2.0)
    result = command("reproduce", "fig1", "--dask", address, "--out", tmp_path / "out")
    said = " ".join(result.stderr.split())
    assert result.returncode == 2
    assert f"--dask {address}: no scheduler answers there" in said
    assert "Traceback" not in said
    assert not (tmp_path / "out" / "cache").exists()


def test_a_scheduler_without_workers_is_said(tmp_path, monkeypatch):
    monkeypatch.setattr(_dask, "LOOK", 0.5)
    monkeypatch.setattr(_dask, "WORKER", 1.0)
    figure, settings = figure_of("fig1")
    with (
        distributed.LocalCluster(n_workers=0, dashboard_address=None) as empty,
        _dask.cluster(empty.scheduler_address, 1) as cluster,
        pytest.raises(NaregError, match="has had no worker for 1 s: start one"),
    ):
        _engine.run(figure, settings, tmp_path, cluster=cluster)


def test_a_scheduler_that_dies_is_said_and_points_are_kept(tmp_path, monkeypatch):
    monkeypatch.setattr(_dask, "LOOK", 0.5)
    figure, settings = figure_of("fig3")
    scheduler = subprocess.Popen(
        [sys.executable, "-m", "distributed.cli.dask_scheduler", "--port", "0", "--no-dashboard", "--host", "127.0.0.1",
         "--scheduler-file", str(tmp_path / "scheduler.json")],
        cwd=ROOT, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    worker = None
    try:
        deadline = time.monotonic() + 60
        while not (tmp_path / "scheduler.json").is_file():
            assert time.monotonic() < deadline
            time.sleep(0.1)

        address = json.loads((tmp_path / "scheduler.json").read_text())["address"]
        worker = subprocess.Popen(
            [sys.executable, "-m", "distributed.cli.dask_worker", address, "--nthreads", "1", "--no-nanny", "--no-dashboard"],
            cwd=ROOT, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )  # fmt: skip

        def stop(done: int, total: int) -> None:
            if done:
                scheduler.kill()

        with (
            _dask.cluster(address, 1) as cluster,
            pytest.raises(NaregError, match="is gone; finished points are kept"),
        ):
            _engine.run(figure, settings, tmp_path / "out", cluster=cluster, progress=stop)
    finally:
        for process in (scheduler, worker):
            if process is not None:
                process.kill()
                process.wait()
    assert list((tmp_path / "out").rglob("0*.json"))


@pytest.mark.nightly
def test_ctrl_c_keeps_points_and_says_how_to_go_on(tmp_path):
    arguments = ["reproduce", "fig2", "--quick", *LITTLE, "--dask", "local", "--jobs", "2", "--out", str(tmp_path)]
    heed = "import signal; signal.signal(signal.SIGINT, signal.default_int_handler)"  # a job in the background ignores it
    run = subprocess.Popen(
        [sys.executable, "-c", f"{heed}; from nareg.cli import run; run()", *arguments],
        cwd=ROOT, stderr=subprocess.PIPE, text=True, start_new_session=True,
    )  # fmt: skip
    while run.poll() is None and not list(tmp_path.rglob("0*.json")):
        time.sleep(0.1)
    os.killpg(run.pid, signal.SIGINT)
    _, stated = run.communicate(timeout=120)
    assert run.returncode == 130, stated
    assert "run it again to continue" in " ".join(stated.split())
    assert "Traceback" not in stated
    assert list(tmp_path.rglob("0*.json"))


def test_without_distributed_the_extra_is_named(monkeypatch, tmp_path):
    monkeypatch.setitem(sys.modules, "distributed", None)
    result = command("reproduce", "fig1", "--dask", "local", "--out", tmp_path / "out")
    assert result.returncode == 2
    assert "pip install 'nareg[dask]'" in " ".join(result.stderr.split())
