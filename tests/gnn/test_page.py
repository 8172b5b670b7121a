"""The documentation page's code runs as written."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

PAGE = Path(__file__).resolve().parents[2] / "docs" / "guides" / "gnn.md"


@pytest.mark.slow
def test_code_of_the_page_runs(tmp_path):
    blocks = re.findall(r"```python\n(.*?)```", PAGE.read_text(), flags=re.DOTALL)
    assert len(blocks) == 2
    code = "\n".join([*blocks, "print(out.shape)"])
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert re.search(r"GCN +\d+\.\d ± \d\.\d \(n = 5\)", done.stdout)
    assert "torch.Size([1000, 5])" in done.stdout
    assert (tmp_path / "runs.csv").is_file()
    assert (tmp_path / "runs.png").read_bytes().startswith(b"\x89PNG")
