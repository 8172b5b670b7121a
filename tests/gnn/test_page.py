"""The documentation page's code runs as written, and the script that swaps a layer changes one line."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

PAGE = Path(__file__).resolve().parents[2] / "docs" / "guides" / "gnn.md"
BLOCKS = re.findall(r"```python\n(.*?)```", PAGE.read_text(), flags=re.DOTALL)
#: The line that is written in the place of another
SWAP = next(block for block in BLOCKS if block.startswith(" "))
SCRIPT = next(block for block in BLOCKS if "SSGConv" in block)


def output(code: str, folder: Path) -> str:
    done = subprocess.run(
        [sys.executable, "-W", "error", "-W", "ignore::DeprecationWarning", "-c", code],
        capture_output=True,
        text=True,
        check=False,
        cwd=folder,
    )
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    return done.stdout


@pytest.mark.guide
def test_code_of_the_page_runs(tmp_path):
    pytest.importorskip("torch_geometric")
    blocks = [block for block in BLOCKS if block is not SWAP]
    assert len(blocks) == 7
    stdout = output("\n".join([*blocks, "print(data, again)"]), tmp_path)
    assert re.search(r"GCN +\d+\.\d ± \d\.\d \(n = 5\)", stdout)
    assert "NodeClassification('mine', 1000 nodes" in stdout
    assert (tmp_path / "runs.csv").is_file()
    assert (tmp_path / "runs.png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.guide
def test_one_line_of_a_script_swaps_the_layer(tmp_path):
    pytest.importorskip("torch_geometric")
    lines = SCRIPT.splitlines(keepends=True)
    (place,) = [k for k, line in enumerate(lines) if "SSGConv(" in line]
    assert SWAP.count("\n") == 1
    accuracies = []
    for line in (lines[place], SWAP):
        lines[place] = line
        (said,) = re.findall(r"test accuracy (0\.\d+)", output("".join(lines), tmp_path))
        accuracies.append(float(said))
    # five classes: guessing gives 0.2
    assert min(accuracies) > 0.6
    assert accuracies[1] > accuracies[0] - 0.05
