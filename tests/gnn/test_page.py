"""The documentation page's code runs as written."""

from __future__ import annotations

import re
from pathlib import Path

PAGE = Path(__file__).resolve().parents[2] / "docs" / "gnn.md"


def test_code_of_the_page_runs(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    blocks = re.findall(r"```python\n(.*?)```", PAGE.read_text(), flags=re.DOTALL)
    assert len(blocks) == 2
    scope: dict[str, object] = {}
    for block in blocks:
        exec(compile(block, str(PAGE), "exec"), scope)
    assert (tmp_path / "runs.csv").is_file()
    assert (tmp_path / "runs.png").read_bytes().startswith(b"\x89PNG")
    told = capsys.readouterr().out
    assert re.search(r"GCN +\d+\.\d ± \d\.\d \(n = 5\)", told)
    assert scope["out"].shape == (1000, 5)
