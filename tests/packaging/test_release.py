"""The files of a release: what is in them, their metadata, and that they work where nothing else is."""

from __future__ import annotations

import email
import shutil
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

import nareg
from tests.packaging.conftest import ROOT, command

pytestmark = pytest.mark.nightly


def members(path: Path) -> dict[str, bytes]:
    with zipfile.ZipFile(path) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def is_metadata(name: str) -> bool:
    return ".dist-info/" in name


def test_the_sdist_builds_the_wheel_that_the_tree_builds(wheel, tmp_path):
    command(sys.executable, "-m", "build", "--wheel", "--outdir", tmp_path, ROOT, cwd=tmp_path)
    assert members(tmp_path / wheel.name) == members(wheel)


def test_the_wheel_has_every_file_of_the_package_and_no_other(wheel):
    if shutil.which("git") is None or not (ROOT / ".git").exists():
        pytest.skip("no git checkout to compare with")
    tracked = set(
        subprocess.run(["git", "ls-files", "nareg"], cwd=ROOT, capture_output=True, text=True, check=True).stdout.split()
    )
    assert {name for name in members(wheel) if not is_metadata(name)} == tracked
    assert {"nareg/py.typed", "nareg/templates/report.html.j2", "nareg/datasets/bundled/us_weather_2025.npz"} <= tracked


def test_the_sdist_has_the_package_and_its_pages_alone(release):
    (path,) = release.glob("*.tar.gz")
    with tarfile.open(path) as archive:
        tops = {name.split("/")[1] for name in archive.getnames() if "/" in name}
    assert tops == {
        "nareg", "nareg.egg-info", "LICENSE", "README.md", "CHANGELOG.md", "CITATION.cff", "MANIFEST.in", "PKG-INFO",
        "pyproject.toml", "setup.cfg",
    }  # fmt: skip


def test_metadata(release, wheel):
    pytest.importorskip("twine", reason="twine is not installed (extra release)")
    command(sys.executable, "-m", "twine", "check", "--strict", *sorted(release.iterdir()), cwd=release)
    (name,) = (name for name in members(wheel) if name.endswith(".dist-info/METADATA"))
    facts = email.message_from_bytes(members(wheel)[name])
    assert facts["Version"] == nareg.__version__
    assert facts["License-Expression"] == "BSD-3-Clause"
    assert facts["Requires-Python"] == ">=3.11"
    assert len(facts.get_all("License-File")) == 2


def test_a_new_user_cleans_exported_readings(environment, tmp_path):
    """Core dependencies alone, in an empty folder."""
    python = environment("")
    program = python.with_name("nareg")
    assert command(program, "--version", cwd=tmp_path).strip() == f"nareg {nareg.__version__}"
    command(program, "datasets", "export", "us-weather", cwd=tmp_path)
    tables = [tmp_path / "us-weather" / name for name in ("stations.csv", "readings.csv")]
    rows = tables[1].read_text().splitlines(keepends=True)
    tables[1].write_text("".join(rows[:61]))
    command(program, "clean", *tables, "--out", "clean", cwd=tmp_path)
    assert {"clean.csv", "std.csv", "report.html"} <= {path.name for path in (tmp_path / "clean").iterdir()}
    command(program, "explore", "us-weather", cwd=tmp_path)
    assert (tmp_path / "explore.html").stat().st_size > 100_000


def test_a_users_program_has_types(environment, tmp_path):
    """mypy --strict reads the installed package as a user's does."""
    pytest.importorskip("mypy", reason="mypy is not installed (extra dev)")
    python = environment("")
    shutil.copy(ROOT / "tests" / "typing" / "sensors.py", tmp_path)
    found = command(sys.executable, "-m", "mypy", "--strict", "--python-executable", python, "sensors.py", cwd=tmp_path)
    assert "no issues found" in found
