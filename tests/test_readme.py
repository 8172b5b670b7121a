"""The README's Python is run and prints what the README says it prints."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent


def test_readme_example_prints_what_it_says():
    text = (ROOT / "README.md").read_text()
    code, printed = re.search(r"```python\n(.*?)```\s*\n```\n(.*?)```", text, re.DOTALL).groups()
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    # which factorization is used depends on what is installed
    assert re.sub(r"\[\w+\]", "[]", done.stdout) == re.sub(r"\[\w+\]", "[]", printed)


def test_guide_examples_run():
    blocks = re.findall(r"```python\n(.*?)```", (ROOT / "docs" / "guides" / "denoise.md").read_text(), re.DOTALL)
    assert len(blocks) == 4
    code = "\n".join([*blocks[:2], "y = X[:, 200]", "import numpy as np", "observed = np.arange(140) % 5 > 0", *blocks[2:]])
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_links_in_the_documents_lead_somewhere():
    for document in (ROOT / "README.md", ROOT / "CONTRIBUTING.md", *(ROOT / "docs").rglob("*.md")):
        for target in re.findall(r"\]\(([^)#]+)\)", document.read_text()):
            if not target.startswith("http"):
                assert (document.parent / target).exists(), f"{document.name} links to {target}"
