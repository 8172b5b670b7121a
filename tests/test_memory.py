"""Memory in force: of the machine, of control groups, and of the process."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from nareg._core import memory as _memory

GIB = 2**30
linux = pytest.mark.skipif(sys.platform != "linux", reason="control groups and /proc are Linux's")


def written(root: Path, **files: object) -> None:
    for name, content in files.items():
        path = root / name.replace("__", "/")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"{content}\n")


def test_a_group_of_version_2_leaves_what_it_has_not_used(tmp_path):
    written(tmp_path, proc__self__cgroup="0::/job/step")
    group = tmp_path / "cg" / "job"
    (group / "step").mkdir(parents=True)
    (group / "memory.max").write_text(f"{4 * GIB}\n")
    (group / "memory.current").write_text(f"{3 * GIB}\n")
    (group / "memory.stat").write_text(f"anon 17\ninactive_file {GIB}\nactive_file 12\n")
    (group / "step" / "memory.max").write_text("max\n")
    (group / "step" / "memory.current").write_text(f"{GIB}\n")
    free, limit = _memory.room(1.0, tmp_path / "proc", tmp_path / "cg")
    assert free == min(2 * GIB, _memory.room()[0])
    assert limit == "the control group of this process allows 4.0 GiB, of which 2.0 GiB are free"


def test_a_group_of_version_1_is_found_at_the_top_of_a_container(tmp_path):
    written(tmp_path, proc__self__cgroup="9:name=systemd:/docker/1f\n4:cpu,memory:/docker/1f")
    top = tmp_path / "cg" / "memory"
    top.mkdir(parents=True)
    (top / "memory.limit_in_bytes").write_text(f"{GIB}\n")
    (top / "memory.usage_in_bytes").write_text(f"{GIB // 2}\n")
    (top / "memory.stat").write_text("total_inactive_file 0\n")
    assert _memory.room(1.0, tmp_path / "proc", tmp_path / "cg")[0] == GIB // 2


def test_what_other_processes_hold_is_not_free(tmp_path):
    written(tmp_path, proc__meminfo="MemTotal: 9 kB\nMemAvailable:   2048 kB\nSwapTotal: 0 kB")
    assert _memory.room(1.0, tmp_path / "proc", tmp_path) == (2**21, "0.0 GiB of this machine's memory are free")


def test_without_any_of_these_files_the_machine_counts(tmp_path):
    free, limit = _memory.room(1.0, tmp_path / "proc", tmp_path)
    assert free == float("inf") or "machine has" in limit or "ulimit" in limit


@pytest.mark.slow
@linux
def test_work_beyond_a_limit_of_addresses_is_refused_before_it_starts(tmp_path):
    """As under ``ulimit -v 4000000``."""
    script = """
import resource
import numpy as np, nareg
from nareg._core.checks import memory

resource.setrlimit(resource.RLIMIT_AS, (4_000_000 * 1024,) * 2)
g = nareg.graphs.grid((150, 140))
for call in (
    lambda: memory("a test", 4e9, alternative="take less"),
    lambda: nareg.baselines.graph_trss(g, np.ones((g.n_nodes, 4)), weight=1.0, epsilon=0.1),
):
    try:
        call()
    except nareg.errors.TooLargeError as error:
        print(error)
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("this process may take 3.8 GiB of addresses (ulimit -v), of which") == 2
