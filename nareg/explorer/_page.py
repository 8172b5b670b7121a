"""The page: one file, with styles, scripts and data inside, and no request to anywhere."""

from __future__ import annotations

import base64
import hashlib
import json
from importlib.resources import files
from pathlib import Path
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined, select_autoescape
from markupsafe import Markup

from nareg.errors import TooLargeError
from nareg.results import atomic_write

#: The scripts in the order in which they need each other.
SCRIPTS = (
    "unpack", "random", "solve", "state", "model", "colors", "draw", "map", "chart", "suspects", "advice", "export", "controls",
    "main",
)  # fmt: skip
#: What the browser lets the page do: run this script, and load nothing.
POLICY = "default-src 'none'; style-src 'unsafe-inline'; script-src 'sha256-{digest}'; img-src data: blob:; base-uri 'none'"
#: Largest page in bytes.
LARGEST = 5_000_000


def write(data: dict[str, Any], path: Path) -> Path:
    """Write the page, whole or not at all."""
    page = render(data).encode()
    if len(page) > LARGEST:
        raise TooLargeError(
            f"the page would have {len(page) / 1e6:.1f} MB, more than {LARGEST / 1e6:g}: pass fewer times or stations."
        )
    with atomic_write(path) as handle:
        handle.write(page)
    return path


def render(data: dict[str, Any]) -> str:
    """The page as text."""
    environment = Environment(
        loader=PackageLoader("nareg"), autoescape=select_autoescape(default=True), undefined=StrictUndefined, trim_blocks=True,
        lstrip_blocks=True,
    )  # fmt: skip
    folder = files("nareg") / "templates" / "explore"
    script = "\n".join((folder / f"{name}.js").read_text(encoding="utf-8") for name in SCRIPTS)
    script = f'"use strict";\n(() => {{\n{script}\n}})();'
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    return environment.get_template("explore/page.html.j2").render(
        style=Markup((folder / "style.css").read_text(encoding="utf-8")),
        script=Markup(script),
        policy=POLICY.format(digest=digest),
        data=Markup(as_json(data)),
        title=data["title"],
        n_stations=len(data["names"]),
        n_times=len(data["times"]),
        version=data["version"],
    )


def as_json(data: dict[str, Any]) -> str:
    """JSON that no text inside can break out of: in a script element, ``<``, ``>`` and ``&`` are escaped."""
    text = json.dumps(data, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    for character in "<>&\u2028\u2029":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return text
