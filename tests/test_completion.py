"""TAB in a shell: what bash offers for a command line that is not finished."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = [pytest.mark.slow, pytest.mark.skipif(shutil.which("bash") is None, reason="bash is not installed")]

#: What bash does when TAB is pressed: the words so far, the number of the last one, the function of the command.
PRESS_TAB = """
source "$1"; shift
COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1))
_nareg_completion nareg
printf '%s\\n' "${COMPREPLY[@]}"
"""


@pytest.fixture(scope="module")
def environment(tmp_path_factory) -> dict[str, str]:
    """A PATH on which this Python's ``nareg`` comes first."""
    folder = tmp_path_factory.mktemp("bin")
    program = folder / "nareg"
    program.write_text(f"#!{sys.executable}\nimport sys\nfrom nareg.cli import run\nsys.argv[0] = 'nareg'\nrun()\n")
    program.chmod(0o755)
    root = str(Path(__file__).parents[1])
    return os.environ | {"PATH": f"{folder}{os.pathsep}{os.environ['PATH']}", "PYTHONPATH": root}


def script_of(shell: str, environment: dict[str, str]) -> str:
    asked = environment | {"_NAREG_COMPLETE": f"source_{shell}"}
    return subprocess.run(["nareg"], env=asked, capture_output=True, text=True, check=True).stdout


@pytest.fixture(scope="module")
def script(environment, tmp_path_factory) -> Path:
    path = tmp_path_factory.mktemp("script") / "nareg.sh"
    path.write_text(script_of("bash", environment))
    return path


@pytest.mark.parametrize(
    ("line", "offered"),
    [
        (["cl"], {"clean"}),
        (["datasets", "export", "us"], {"us-weather"}),
        (["clean", "--no"], {"--no-correct", "--noise", "--noise-std"}),
        (["clean", "no-such-file"], {""}),
    ],
)
def test_bash_offers(environment, script, line, offered):
    command = ["bash", "-c", PRESS_TAB, "bash", script, "nareg", *line]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    assert done.stderr == ""
    assert set(done.stdout.rstrip("\n").split("\n")) == offered


def test_bash_completes_file_names_where_nareg_offers_nothing(script):
    assert "complete -o default -F _nareg_completion nareg" in script.read_text()


@pytest.mark.parametrize("shell", ["zsh", "fish"])
def test_other_shells_have_a_script(environment, shell):
    assert f"_NAREG_COMPLETE=complete_{shell}" in script_of(shell, environment)
