"""The scripts of ``shared/cases/adversary``: what must hold of what each prints.

Every run is a process of its own, in a copy of the cases, with a limit of time. One that is killed by a signal, hangs, or ends
in anything but a result or an error of nareg is wrong.
"""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

import nareg

#: Seconds that one run may take.
LIMIT = 400
ERRORS = "|".join(name for name in vars(nareg.errors) if name.endswith("Error"))
Checks = Iterator[tuple[str, bool]]


@dataclass(frozen=True)
class Run:
    """One run of a script."""

    arguments: str
    code: int | None
    text: str

    @property
    def refused(self) -> bool:
        """Whether it says an error of nareg."""
        return re.search(rf"\b({ERRORS})\b|nareg error", self.text) is not None

    @property
    def ended(self) -> tuple[str, bool]:
        """Whether the process ended by itself, and by no error but nareg's."""
        if self.code is None:
            return self._named(f"still running after {LIMIT} s"), False
        if self.code < 0 or "Terminating: fork()" in self.text or "Fatal Python error" in self.text:
            return self._named(f"killed by a signal ({self.code})"), False
        last = self.text.strip().splitlines()[-1:] or [""]
        return self._named(f"exit code {self.code}: {last[0]}"), self.code == 0 or self.refused

    def _named(self, text: str) -> str:
        return f"{self.arguments}: {text}" if self.arguments else text


@dataclass(frozen=True)
class Script:
    """A script, the arguments of its runs, and what must hold of them."""

    name: str
    judge: Callable[[list[Run]], Checks]
    arguments: tuple[str, ...] = ("",)
    edits: tuple[tuple[str, str], ...] = ()
    #: Changes for one run more.
    again: tuple[tuple[str, str], ...] = field(default=())


def judge(number: str, cases: Path) -> list[tuple[str, bool]]:
    """All checks of a script."""
    script = SCRIPTS[number]
    with tempfile.TemporaryDirectory(prefix="nareg-adversary-") as folder:
        copy = Path(folder) / "cases"
        shutil.copytree(cases / "adversary", copy / "adversary")
        (copy / "adversary-out").mkdir()
        path = copy / "adversary" / script.name
        source = path.read_text()
        runs = []
        for edits, arguments in ((script.edits, script.arguments), (script.again, ("",) if script.again else ())):
            text = source
            for old, new in edits:
                if old not in text:
                    return [(f"{script.name} has no {old!r}: mend benchmarks/_strangers/adversary.py", False)]
                text = text.replace(old, new)
            path.chmod(0o644)
            path.write_text(text)
            runs += [_run(path, each, copy) for each in arguments]
    checks = [run.ended for run in runs]
    if all(right for _, right in checks):
        checks += [(text, bool(right)) for text, right in script.judge(runs)]
    return checks


def _run(path: Path, arguments: str, folder: Path) -> Run:
    environment = dict(os.environ)
    # scripts choose their threads, and one is about the layer
    for name in ("NUMBA_NUM_THREADS", "OMP_NUM_THREADS", "NUMBA_THREADING_LAYER"):
        environment.pop(name, None)
    process = subprocess.Popen(
        [sys.executable, str(path.relative_to(folder)), *arguments.split()], cwd=folder, env=environment, text=True,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, start_new_session=True, errors="replace",
    )  # fmt: skip
    try:
        text, _ = process.communicate(timeout=LIMIT)
        return Run(arguments, process.returncode, text)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)  # with its forked children
        text, _ = process.communicate()
        return Run(arguments, None, text)


def line(run: Run, pattern: str) -> str:
    """The first line with a pattern, or empty."""
    return next((text for text in run.text.splitlines() if re.search(pattern, text)), "")


def victim(runs: list[Run]) -> Checks:
    yield line(runs[0], "victim now"), "victim now begins with: b'xxxxxxxxxxxx" in runs[0].text
    yield f"the folder is refused: {runs[0].text.splitlines()[0]}", runs[0].refused


def two_writers(runs: list[Run]) -> Checks:
    for run in runs:
        acknowledged = re.findall(r"(parent|child) removed (\d+)", run.text)
        left = re.search(r"remaining on disk (\d+)", run.text)
        text = (
            f"{run.arguments}: {len(acknowledged)} removals acknowledged to {len({who for who, _ in acknowledged})} writers, "
        )
        yield text + f"{left[1] if left else '?'} of 60 nodes on disk", bool(left) and int(left[1]) == 60 - len(acknowledged)
        holds = line(run, "certificate (holds|does)")
        yield f"{run.arguments}: {holds}", "holds" in holds
        both = {who for who, _ in acknowledged} == {"parent", "child"}
        yield f"{run.arguments}: the second writer is refused, or both are kept", both or run.refused


def refused(runs: list[Run]) -> Checks:
    for run in runs:
        if run.arguments == "dia":  # a diagonal outside the matrix is an empty graph to SciPy, too
            yield f"dia: {run.text.strip()[:90]}", run.refused or "n_edges=0" in run.text
        else:
            yield f"{run.arguments}: {run.text.strip()[-90:]}", run.refused


def own_file(runs: list[Run]) -> Checks:
    text = runs[0].text
    yield "no name from another file of the user", "hunter2" not in text
    yield line(runs[0], "requests made") or "no end", "requests made: []" in text
    yield "both files are refused by an error of nareg", len(re.findall(rf"^({ERRORS}) ", text, re.MULTILINE)) == 2


def no_numbers(runs: list[Run]) -> Checks:
    yield f"no numbers of another file: {runs[0].text.strip()[:90]}", "65." not in runs[0].text and runs[0].refused


def ended(runs: list[Run]) -> Checks:
    for run in runs:
        # threads that meet at one model get nareg's own refusal, and no crash
        yield f"{run.arguments or 'run'}: {run.text.strip().splitlines()[-1][:90]}", run.code == 0 or "BusyError" in run.text


def child(runs: list[Run]) -> Checks:
    yield line(runs[0], "child exit code"), "child exit code 0" in runs[0].text


def generator(runs: list[Run]) -> Checks:
    match = re.search(r"(\d+) draws, (\d+) are repeats; (\d+) are of", runs[0].text)
    yield runs[0].text.strip()[-90:], bool(match) and int(match[1]) > 1000 and match[2] == match[3] == "0"


def noise_terms(runs: list[Run]) -> Checks:
    for name in ("two processes", "deepcopy", "pickled copy"):
        text = line(runs[0], f"{name}.*equal")
        yield text or f"{name}: refused", "True" not in text and (text != "" or runs[0].refused)


def code_point(runs: list[Run]) -> Checks:
    lines = [text for text in runs[0].text.splitlines() if "<class" in text or text == "read"]
    for text in lines:
        yield text[:110], "nareg.errors" in text
    yield f"{len(lines)} files tried", len(lines) == 3


def converged(runs: list[Run]) -> Checks:
    for text in runs[0].text.splitlines():
        if match := re.match(r"w=(\S+) (\S+) residual (\S+) x \[(\S+)", text):
            off = abs(float(match[4].rstrip("]")) - 1)
            yield (
                f"w = {match[1]}: {match[2]}, off by {off:.2g}, at most 1e-6 where converged",
                match[2] != "CONVERGED" or off <= 1e-6,
            )
        elif text.startswith("uncoupled"):
            stated = float(text.split()[2])
            x = np.array([float(part) for part in re.findall(r"\[([^]]*)\]", text)[0].split()])
            true = _residual_of_uncoupled(x)
            yield (
                f"uncoupled: states a residual of {stated:.2g}, of the parts it is {true:.2g}",
                abs(stated - true) <= 1e-3 * true + 1e-16,
            )


def _residual_of_uncoupled(x: np.ndarray) -> float:
    """Relative residual of the script's last system, from its parts: there weights of 1e-9 stand beside 1."""
    w, c, y = np.array([1e-9, 1.0, 1.0]), np.array([13.0, 1e-6, 1e-6]), np.array([1.0, 0.0, 0.0])
    A = np.array([[0.0, 20, 0], [20, 0, 2], [0, 2, 0]])
    u = w * x
    return float(np.linalg.norm(c * y - c * x - w * (A.sum(axis=1) * u - A @ u)) / np.linalg.norm(c * y))


def no_suspects(runs: list[Run]) -> Checks:
    lines = [text for text in runs[0].text.splitlines() if text.startswith("[")]
    for text in lines:
        yield f"suspects among healthy readings: {text[:90]}", text == "[]"
    yield f"{len(lines)} records", len(lines) == 3


def certificate(runs: list[Run]) -> Checks:
    match = re.search(r"spent (\S+) of (\S+) ; true gradient on the remaining data (\S+)", runs[0].text)
    if match is None:
        yield f"the flipped bit is refused: {runs[0].text.strip()[-90:]}", runs[0].refused
    else:
        yield f"certificate {match[1]}, true gradient {match[3]}", float(match[3]) <= float(match[1])


def pickles(runs: list[Run]) -> Checks:
    for run in runs:
        tries = [text for text in run.text.splitlines() if "->" in text]
        wrong = [text for text in tries if not re.search(rf"-> ({ERRORS}|<class)", text)]
        yield (
            f"{run.arguments}: {len(tries)} pickles, none read by another error {wrong[0][:90] if wrong else ''}",
            bool(tries) and not wrong,
        )
        slow = [
            text
            for text in tries
            if (t := re.search(r"([\d.]+)s rss (\d+) MB", text)) and (float(t[1]) > 5 or int(t[2]) > 1000)
        ]
        yield f"{run.arguments}: none takes over 5 s or 1,000 MB {slow[0][:60] if slow else ''}", not slow
        yield f"{run.arguments}: no code ran", "PWNED" not in run.text.split()


def order(runs: list[Run]) -> Checks:
    permuted, as_given = ([*re.finditer(r"permuted: .*", run.text)][-1][0] for run in runs)
    yield f"columns permuted: {permuted}", permuted == as_given
    yield f"columns as given: {as_given}", "st1" in as_given and "st3" in as_given


def stream(runs: list[Run]) -> Checks:
    lines = re.findall(r"^seed (\d+) (.*)", runs[0].text, re.MULTILINE)
    for seed, text in lines:
        if match := re.match(r"MSE (\S+) bands (\S+)", text):
            right = float(match[1]) <= 1.05 and float(match[2]) <= 0.1
            yield f"seed {seed}: squared error {match[1]} of the Kalman filter's, 95 % of bands off by up to {match[2]}", right
        else:
            yield f"seed {seed}: {text[:90]}", re.match(ERRORS, text) is not None
    yield f"{len(lines)} streams", len(lines) == 5


def renames(runs: list[Run]) -> Checks:
    text = runs[0].text
    yield f"after the kill: {text.splitlines()[1][:90]}", re.search(r"^Graph\(n_nodes=(25|36),", text, re.MULTILINE) is not None
    yield line(runs[0], "after the next save"), "after the next save: ['g.graph']" in text


#: The script measures with settings of its own; this is the stream as users get it, and its bands: within 5 % and 10 %.
STREAM = """
        S=model_of(g,p,y[:,:60]).stream(robust=None)
        try: steps=[S.update(y[:,t]) for t in range(60,160)]
        except nareg.errors.NaregError as e: print("seed",seed,type(e).__name__,e); break
        x=np.array([s.x for s in steps]); sd=np.array([s.std for s in steps]); ex=dense(p,y,smooth=False)
        mse=lambda x: np.mean((x-truth.T[60:])**2); r=sd/np.sqrt(ex.var[60:])
        print("seed",seed,"MSE %.3f bands %.3f"%(mse(x)/mse(ex.x[60:]),np.quantile(abs(r-1),.95))); break
"""
OWN = (
    ("st.SparseStream._solve=counted", ""),
    ("orig=st.SparseStream._solve", ""),
    ("        st.TOL,st.STEPS=tol,steps; cnt[:]=[0,0]\n", STREAM),
)

#: Links are relative to their own folder: this one would lead nowhere.
ABSOLUTE = ('Path("adversary-out/sym")', 'Path("adversary-out/sym").absolute()')
#: What writes to a file has one name with what is in memory.
RENAMED = (("nareg.outofcore.denoise", "nareg.filters.denoise"), ('f / "x.npy", fit', 'out=f / "x.npy", fit'))
SPARSE = ("weights", "operator", "design", "adjacency", "edge_index", "weights -7", "operator -7")
DAMAGED = ("lil", "targets", "features", "csr_ptr", "torch_csr", "dia", "edge_index")

SCRIPTS = {
    "01": Script("01_symlink_folder.py", victim, edits=(ABSOLUTE,)),
    "02": Script("02_fork.py", two_writers, ("store", "folder")),
    "03": Script("03_bad_csr.py", refused, SPARSE),
    "03b": Script("03b_bad_lil_targets.py", refused, DAMAGED),
    "05": Script("05_vrt_geojson.py", own_file),
    "06": Script("06_hdf5_external.py", no_numbers),
    "07": Script("07_workqueue_threads.py", ended, ("denoise", "unlearning")),
    "08": Script("08_fork_numba.py", child),
    "09": Script("09_np_random.py", generator),
    "10": Script("10_fork_noise.py", noise_terms),
    "11": Script("11_bad_codepoint.py", code_point),
    "12": Script("12_outofcore_huge_weights.py", converged, edits=RENAMED),
    "13": Script("13_false_clock.py", no_suspects),
    "14": Script("14_mapped_bit_flip.py", certificate),
    "15": Script("15_pickle_dag.py", pickles, ("hash", "repr", "misc")),
    "16": Script("16_column_order.py", order, again=(("go(df[p],pl)", "go(df,pl)"),)),
    "17": Script("17_sparse_stream.py", stream, edits=OWN),
    "18": Script("18_kill_between_renames.py", renames),
}  # fmt: skip
