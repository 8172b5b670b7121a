"""constraints.txt and its twin with hashes agree."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]


def pins(text: str) -> dict[str, str]:
    """Version of every package, by its normalized name."""
    found = re.findall(r"^([A-Za-z0-9._-]+)==([^\s;\\]+)", text, flags=re.MULTILINE)
    return {re.sub(r"[-_.]+", "-", name).lower(): version for name, version in found}


def test_both_files_pin_the_same_versions():
    ours = pins((ROOT / "constraints.txt").read_text())
    hashed = pins((ROOT / "constraints" / "hashed.txt").read_text())
    assert len(ours) > 100
    assert set(ours) <= set(hashed)
    assert {name: version for name, version in hashed.items() if name in ours} == ours


def test_every_pin_has_a_hash_and_no_address():
    text = (ROOT / "constraints" / "hashed.txt").read_text()
    entries = re.split(r"\n(?=\S)", text.strip())
    assert len(entries) > 100
    for entry in entries:
        assert re.search(r"--hash=sha256:[0-9a-f]{64}", entry), entry
    assert "://" not in text
