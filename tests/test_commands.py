"""Every command in README and docs is run by a test, or stands in a list of those that are not, with the reason."""

from __future__ import annotations

import gzip
import itertools
import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import scipy.io
import scipy.sparse as sp

import nareg
from tests.command_line import run

ROOT = Path(__file__).resolve().parents[1]
PAGES = [ROOT / "README.md", ROOT / "data" / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
BLOCK = re.compile(r"^```([^\n]*)\n(.*?)^```", re.DOTALL | re.MULTILINE)
#: How a command begins; of a program alone, or one of its commands without arguments, prose speaks.
PROGRAM = re.compile(r"(\S+/)?(nareg|python[\d.]*|pip|make|pytest|dask|mpiexec|git)( |$)")
BARE = re.compile(r"nareg( [a-z]+)?( prove| renew| fetch)?")

#: Run below in this order, in an empty folder.
ON_STATIONS = (
    """python -c "import numpy as np, nareg; nareg.datasets.simulated(rng=np.random.default_rng(3)).to_csv('.')\"""",
    "nareg clean stations.csv readings.csv --unit °C --out clean/",
    "nareg inspect stations.csv readings.csv",
    "nareg design stations.csv readings.csv --noise 0.25 --out design.npz",
    "nareg interpolate stations.csv readings.csv --weights design.npz --out clean.csv",
    "nareg explore stations.csv readings.csv --unit °C --out explore.html",
    'python -c "import numpy as np, nareg; n = nareg.datasets.simulated(20, faults=(), rng=np.random.default_rng(3)); '
    """n.readings[3, 150:350] += np.linspace(0, 8, 200); n.to_csv('.')\"""",
    "nareg clean stations.csv readings.csv --unit °C --correct --out corrected/",
    "nareg datasets list",
    "nareg datasets export us-weather",
)
#: The same, in a folder with a graph and numbers of its nodes. Each conversion to a graph begins anew.
ON_A_GRAPH = (
    "nareg convert readings.csv readings.npy --float32",
    "nareg convert edges.csv.gz network.graph --nodes 1000000 --float32",
    "nareg convert adjacency.npz network.graph",
    "nareg convert network.graph adjacency.mtx",
    "nareg convert edges.csv network.graph",
    "nareg denoise network.graph y.npy --weights w.npy --out clean.npy",
    "nareg unlearn fit service.store graph.mtx features.npy labels.csv",
    "nareg unlearn remove service.store --nodes 17,1500 --edges 3-5",
    "nareg unlearn add service.store --nodes new.npy --labels 2,-1 --edges 2000-3",
    "nareg unlearn predict service.store --out classes.csv",
    "nareg unlearn preview service.store --edge 3-7",
    "nareg unlearn certificate service.store --out certificates.json",
    "nareg unlearn prove service.store --nodes 17,1500",
    "nareg unlearn renew service.store",
    "nareg unlearn verify service.store",
    "nareg unlearn fit forgetting network.graph y.npy labels.csv --folder --memory 4000",
    "nareg unlearn remove forgetting --nodes 17,900",
    "nareg unlearn predict forgetting --out classes.csv",
    "nareg unlearn verify forgetting",
)
RUN = ON_STATIONS + ON_A_GRAPH
#: Pages whose commands another test runs: tests/io/test_files_as_published.py reads what they read.
RUN_ELSEWHERE = {"your-file.md"}
#: Commands that no test runs as they stand: how they begin, and why.
NOT_RUN = {
    "nareg reproduce ": "hours; tests/experiments runs quick settings, and below names and settings are read",
    "nareg datasets fetch ": "needs the network; tests/datasets/test_fetch.py fetches from a server of its own",
    "nareg inspect metadatafile.csv ": "MetObs' files, which tests/io/test_files_as_published.py reads",
    "nareg clean metadatafile.csv ": "the same",
    "nareg datasets export NAME": "a placeholder",
    "nareg datasets info NAME": "a placeholder",
    "nareg clean stations.csv readings.csv --out ": "a minute; the same command with a unit is run",
    "nareg clean stations.csv readings.csv --recipe": "a minute; tests/test_cli_inspect.py cleans by a recipe",
    "nareg clean readings.csv": "a file of the user's; tests/io/test_untidy.py reads one",
    "nareg clean us-weather/": "minutes; the same command on simulated readings is run",
    "nareg clean readings/": "the tutorial's own files; the same command on simulated readings is run",
    "nareg explore us-weather": "a minute; the same command on simulated readings is run",
    "nareg explore readings/": "the tutorial's own files; the same command on simulated readings is run",
    "nareg apply clean/model.npz": "needs tomorrow's readings; tests/cleaning/test_apply.py",
    "nareg place model.npz": "needs a fitted model; tests/test_cli_place.py",
    "nareg unlearn compare ": "minutes; tests/test_cli_unlearning.py compares on less",
    "nareg --install-completion": "writes to the user's shell; tests/test_completion.py",
    "make ": "sets up an environment; .ci/run runs demo, test, docs, lint and types",
    "pip install ": "needs the network; tests/packaging installs every extra (make extras)",
    "pytest tests/": "the tests themselves",
    "python benchmarks/": "minutes to hours, beside peers; below the scripts are looked for",
    "git clone ": "needs the network and PETSc",
    "python3.12 -m venv ": "needs PETSc's environment; make petsc",
    "env/bin/": "needs PETSc's environment; make petsc runs its tests on one to three ranks",
    "dask ": "runs until it is stopped; tests/experiments/test_dask.py has a cluster of its own",
}


def texts() -> Iterator[tuple[str, str]]:
    """Every page, and what pages include: recorded tables, and the commands of claims."""
    from experiments import _claims, _record

    yield from ((page.name, page.read_text()) for page in PAGES)
    for name, record in _record.read().items():
        yield name, "\n".join(line for lines in record["tables"].values() for line in lines)
    said = [one.get("command", "") for of in _claims.toml("summaries.toml").values() for one in of.values()]
    yield "summaries.toml", " ".join(f"`{command}`" for command in "; ".join(said).split("; ") if command)


def commands() -> dict[str, str]:
    """Command -> the page that has it: lines of blocks that are no Python, and inline code."""
    found: dict[str, str] = {}
    for page, text in texts():
        blocks = [block for kind, block in BLOCK.findall(text) if kind in ("", "sh", "text")]
        lines = [re.sub(r"^\$ ", "", line) for block in blocks for line in block.splitlines()]
        inline = re.findall(r"`([^`\n]+)`", BLOCK.sub("", text))
        for command in (re.sub(r"\s+#.*$", "", line).strip() for line in [*lines, *inline]):
            if PROGRAM.match(command) and not BARE.fullmatch(command) and len(command.split()) > 1:
                found.setdefault(command, page)
    return found


def test_every_command_is_run_or_said_not_to_be():
    found = commands()
    assert len(found) > 100
    known = {command: [start for start in NOT_RUN if command.startswith(start)] for command in found}
    neither = [
        f"{page}: {command}"
        for command, page in found.items()
        if page not in RUN_ELSEWHERE and command not in RUN and len(known[command]) != 1
    ]
    assert not neither
    assert set(RUN) <= set(found), "a page no longer has a command that is run here"
    assert {start for starts in known.values() for start in starts} == set(NOT_RUN), "no page has such a command any more"


def test_commands_that_are_not_run_name_what_is_there():
    from experiments import _engine, _main

    for command in commands():
        words = shlex.split(command)
        if words[:2] == ["nareg", "reproduce"]:
            names = [word for word in words[2:] if not word.startswith("-") and word in (*_main.FIGURES, *_main.GROUPS)]
            assert words[2] in names, command
            for text in (value for word, value in itertools.pairwise(words) if word == "--set"):
                (name,) = names
                _main.changed(_engine.load(name).full, [text])
        elif words[0] == "python" and words[1] != "-c":
            assert (ROOT / words[1]).is_file(), command
        elif words[0] == "make":
            assert re.search(rf"^{words[1]}:", (ROOT / "Makefile").read_text(), re.MULTILINE), command


def graph_files(folder):
    """Files that the guides' commands on a graph are about."""
    rng = np.random.default_rng(0)
    data = nareg.datasets.node_classification.synthetic(2000, 3, rng=rng)
    pairs = {(3, 5), (3, 7)} | {(int(u), int(v)) for u, v in np.argwhere(sp.triu(data.graph.adjacency).toarray())}
    u, v = np.array(sorted(pairs)).T
    one_way = sp.coo_array((np.ones(len(u)), (u, v)), shape=(2000, 2000))
    adjacency = (one_way + one_way.T).tocsr()
    sp.save_npz(folder / "adjacency.npz", adjacency)
    scipy.io.mmwrite(folder / "graph.mtx", adjacency.tocoo())
    text = "".join(f"{a},{b}\n" for a, b in pairs)
    (folder / "edges.csv").write_text(text)
    (folder / "edges.csv.gz").write_bytes(gzip.compress(text.encode()))
    features = data.dense_features()
    np.savetxt(folder / "readings.csv", features, delimiter=",")
    for name, array in {"features": features, "y": features, "new": features[:2], "w": rng.uniform(0.1, 1, 2000)}.items():
        np.save(folder / f"{name}.npy", array)
    rows = "".join(f"{k},{label},1\n" for k, label in enumerate(data.labels))
    (folder / "labels.csv").write_text("node,label,train\n" + rows)


@pytest.mark.guide
@pytest.mark.parametrize(("lines", "files"), [(ON_STATIONS, None), (ON_A_GRAPH, graph_files)], ids=["stations", "graph"])
def test_the_commands_run_in_their_order(lines, files, tmp_path):
    if files is not None:
        files(tmp_path)
    for command in lines:
        program, *arguments = shlex.split(command)
        if program == "python":
            environment = os.environ | {"PYTHONPATH": str(ROOT)}
            subprocess.run([sys.executable, *arguments], cwd=tmp_path, env=environment, check=True)
            continue
        if arguments[0] == "convert" and "network.graph" in arguments[2:]:
            shutil.rmtree(tmp_path / "network.graph", ignore_errors=True)
        done = run(*arguments, cwd=tmp_path)
        assert done.returncode == 0, (command, done.stdout, done.stderr)
