"""The 26 commands of the guide "Your file", one by one, and readings whose times jitter.

    python benchmarks/files.py             every command, and four networks with jitter: a quarter of an hour
    python benchmarks/files.py metobs      commands of folders whose name begins so

A command runs in a process of its own, on the file as its owner published it. Printed are its processor seconds, start and
imports included, whether it names more than files and a quantity, and how it ended. Jitter of two minutes, in a network with a
reading every ten minutes, is judged by the error against the truth, over that of the same readings on the grid.
NAREG_DATA names the folder of the data sets; by default ../shared/data beside the checkout.
"""

from __future__ import annotations

import os
import re
import resource
import shlex
import subprocess
import sys
import tempfile
from glob import glob
from pathlib import Path

import numpy as np
import pandas as pd
from rich.console import Console
from rich.table import Table

import nareg

DATA = Path(os.environ.get("NAREG_DATA", Path(__file__).resolve().parents[2] / "shared" / "data")) / "files"
PAGE = Path(__file__).resolve().parents[1] / "docs" / "guides" / "your-file.md"
COMMAND = re.compile(r"^\| [^|]+ \| `nareg (clean [^`]+)` \|", re.MULTILINE)
#: Readings every so many minutes, and the largest jitter, as in a file of the issue that asked for grids.
STEP, JITTER, NETWORKS = 10, 2.0, 4


def run(words: list[str], out: str) -> tuple[float, int]:
    """Processor seconds and exit status of one command."""
    files = [path for word in words for path in (sorted(glob(word, root_dir=DATA)) or [word])]
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run([sys.executable, "-m", "nareg", *files, "--out", out], cwd=DATA, capture_output=True, check=False)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime, done.returncode


def jittered(seed: int) -> float:
    """Error of readings at times that jitter, over that of the same readings on the grid."""
    rng = np.random.default_rng(seed)
    network = nareg.datasets.simulated(12, 600, faults=(), rng=rng)
    grid = pd.date_range("2024-05-01", periods=network.readings.shape[1], freq=f"{STEP}min", name="time")
    places = pd.DataFrame(network.coordinates, index=network.names, columns=["latitude", "longitude"])
    errors = []
    for minutes in (JITTER, 0.0):
        off = pd.to_timedelta(np.round(60 * minutes * rng.uniform(-1, 1, network.readings.size)), unit="s")
        tidy = pd.DataFrame(
            {
                "time": np.tile(grid.to_numpy(), len(network.names)) + off.to_numpy(),
                "station": np.repeat(network.names, grid.size), "value": network.readings.ravel(),
            }
        )  # fmt: skip
        x = nareg.clean(tidy, places).x
        errors.append(np.sqrt(np.mean((x.to_numpy().T - network.truth) ** 2)) if x.shape == network.truth.T.shape else np.inf)
    return errors[0] / errors[1]


def main(folders: list[str]) -> None:
    shown, seconds, plain = Table("command", "seconds", "options", "status"), [], 0
    for command in COMMAND.findall(PAGE.read_text()):
        words = shlex.split(command)
        if folders and not any(words[1].startswith(folder) for folder in folders):
            continue
        options = [word for word in words if word.startswith("--") and word != "--value"]
        with tempfile.TemporaryDirectory() as out:
            taken, status = run(words, str(Path(out) / "clean"))
        seconds.append(taken)
        plain += not options
        shown.add_row(words[1], f"{taken:.1f}", " ".join(options) or "none", "done" if status == 0 else str(status))
    console = Console()
    console.print(shown)
    console.print(f"{len(seconds)} commands, {plain} of them without an option; median {np.median(seconds):.1f} s")
    if not folders:
        ratios = [jittered(seed) for seed in range(NETWORKS)]
        console.print(f"jitter of {JITTER:g} minutes: errors {', '.join(f'{ratio:.3f}' for ratio in ratios)} times as large")


if __name__ == "__main__":
    main(sys.argv[1:])
