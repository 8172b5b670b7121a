"""Files that strangers brought, and what an adversary broke: what is right of each, checked.

    python benchmarks/strangers.py                     the 27 cases and the 18 scripts
    python benchmarks/strangers.py --cases 13 31       these cases only
    python benchmarks/strangers.py --adversary 02 14   these scripts only; without numbers all of them
    python benchmarks/strangers.py --healthy           false suspects on healthy records, simulated and real, 3 minutes
    python benchmarks/strangers.py --coverage          coverage of 90 % bands
    python benchmarks/strangers.py --found             faults that are found
    python benchmarks/strangers.py --healthy rain 1440 only records that have one of these words

--quick runs fewer and smaller records of the last three. The files lie in ../shared/cases beside the checkout, or where --files
says. Every case and every script is a process of its own, two at a time; a crash or a timeout is a wrong. The modules of
``_strangers`` say what must hold. The exit status is 0 where all is right.
"""

from __future__ import annotations

import argparse
import importlib
import json
import multiprocessing
import os
import subprocess
import sys
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor, as_completed
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
#: Seconds that one case may take.
LIMIT = 600
#: Option to module, function that measures one record, and what it counts.
BARS = {
    "healthy": ("healthy", "count", "false suspects"),
    "coverage": ("coverage", "share", "coverage of bands"),
    "found": ("faults", "find", "faults found"),
}
THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMBA_NUM_THREADS")
#: Processes at a time.
WORKERS = 2
Checks = list[tuple[str, bool]]


def one_case(number: str, files: Path) -> Checks:
    """Judge a case in a process of its own."""
    command = [sys.executable, __file__, "--child", number, "--files", str(files)]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=LIMIT)
    except subprocess.TimeoutExpired:
        return [(f"still running after {LIMIT} s", False)]
    if done.returncode != 0:
        last = done.stderr.strip().splitlines()[-1:] or ["no message"]
        return [(f"ended with {done.returncode}: {last[0]}", False)]
    return [(text, right) for text, right in json.loads(done.stdout.splitlines()[-1])]


def tell(judge: Callable[[str], Checks], names: dict[str, str], what: str) -> bool:
    """Judge all, print each as it ends, and whether all are right."""
    print(f"{what}:", flush=True)
    right = 0
    with ThreadPoolExecutor(WORKERS) as pool:
        started = time.perf_counter()
        waiting = {pool.submit(judge, number): number for number in names}
        for task in as_completed(waiting):
            number, checks = waiting[task], task.result()
            holds = bool(checks) and all(ok for _, ok in checks)
            right += holds
            print(f"  {number:4} {'right' if holds else 'WRONG'}  {names[number]}", flush=True)
            for text, ok in checks:
                print(f"         {'ok   ' if ok else 'WRONG'}  {' '.join(text.split())}", flush=True)
    print(f"{what}: {right} of {len(names)} right, {time.perf_counter() - started:.0f} s\n", flush=True)
    return right == len(names)


def measure(name: str, words: list[str], quick: bool) -> bool:
    """Measure a bar on records, print its table, and whether it is kept."""
    of, work, _ = BARS[name]
    module = importlib.import_module(f"_strangers.{of}")
    tasks = [task for task in module.tasks(quick) if not words or set(words) & {str(part) for part in task}]
    if not tasks:
        sys.exit(f"--{name}: no record has a word of {', '.join(words)}")
    started = time.perf_counter()
    print(f"{name}: {len(tasks)} records", flush=True)
    with ProcessPoolExecutor(WORKERS, mp_context=multiprocessing.get_context("spawn")) as pool:
        waiting = {pool.submit(getattr(module, work), *task): task for task in tasks}
        for done, task in enumerate(as_completed(waiting), 1):
            task.result()
            print(
                f"  {done}/{len(tasks)} {' '.join(map(str, waiting[task]))}, {time.perf_counter() - started:.0f} s",
                file=sys.stderr,
            )
    holds = True
    for text, ok in module.table([task.result() for task in waiting]):
        print(f"  {'ok   ' if ok else 'WRONG'} {text}", flush=True)
        holds &= ok
    print(f"{name}: {'the bar is kept' if holds else 'WRONG'}, {time.perf_counter() - started:.0f} s\n", flush=True)
    return holds


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cases", nargs="*", metavar="CASE", help="only cases; these, or all")
    parser.add_argument("--adversary", nargs="*", metavar="SCRIPT", help="only scripts; these, or all")
    for name, (_, _, what) in BARS.items():
        parser.add_argument(f"--{name}", nargs="*", metavar="WORD", help=f"{what} on records of known truth; on these, or all")
    parser.add_argument("--quick", action="store_true", help="fewer and smaller records")
    parser.add_argument("--files", type=Path, default=ROOT.parent / "shared" / "cases", help="folder of the cases")
    parser.add_argument("--child", help=argparse.SUPPRESS)
    options = parser.parse_args()
    for name in THREADS:
        os.environ[name] = "1"  # for the processes that follow
    os.environ["PYTHONPATH"] = os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])
    sys.path.insert(0, str(ROOT))
    bars = [name for name in BARS if getattr(options, name) is not None]
    holds = all([measure(name, getattr(options, name), options.quick) for name in bars])
    from _strangers import adversary, cases

    if bars and options.cases is None and options.adversary is None:
        sys.exit(0 if holds else 1)
    if not (options.files / "README.md").is_file():
        parser.error(f"{options.files} has no cases: clone beside the folder shared/, or pass --files FOLDER.")
    if options.child:
        print(json.dumps(cases.judge(options.child, options.files / options.child)))
        return
    titles = {number: title for number, (title, _) in cases.CASES.items()}
    scripts = {number: script.name for number, script in adversary.SCRIPTS.items()}
    chosen = {}
    for name, wanted, all_of in (("cases", options.cases, titles), ("adversary", options.adversary, scripts)):
        for number in wanted or ():
            if number not in all_of:
                parser.error(f"--{name} {number!r} is none; choose from {', '.join(all_of)}.")
        chosen[name] = all_of if wanted == [] else {number: all_of[number] for number in wanted or ()}
    if options.cases is None and options.adversary is None:
        chosen = {"cases": titles, "adversary": scripts}
    if chosen["cases"]:
        holds &= tell(lambda number: one_case(number, options.files), chosen["cases"], "cases")
    if chosen["adversary"]:
        holds &= tell(lambda number: adversary.judge(number, options.files), chosen["adversary"], "adversary")
    sys.exit(0 if holds else 1)


if __name__ == "__main__":
    main()
