"""The size of the house, and its picture.

    python benchmarks/house.py          lines, files, rooms, floors, words, beside what they may be
    python benchmarks/house.py --draw   also writes docs/images/house.svg, which CONTRIBUTING.md shows

A room is a folder of modules, or a module that lies loose in ``nareg/``. A part is what lies directly in ``nareg/``; it stands
one floor above the highest part that it imports.
"""

from __future__ import annotations

import argparse
import ast
import io
import subprocess
import tokenize
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = ROOT / "nareg"
PICTURE = ROOT / "docs" / "images" / "house.svg"
#: What is counted, and the most that it may be.
BARS = {
    "lines of nareg/": 57_000, "of them code": 36_500, "files": 420, "rooms": 40, "floors": 16, "circles of parts": 0,
    "public functions named denoise": 1, "words under docs/": 55_000,
    "words of README.md": 700,
}  # fmt: skip
#: Of a box, and of the space between two.
WIDTH, HEIGHT, GAP, RISE = 118, 30, 14, 30


@cache
def files() -> list[Path]:
    """Modules that git tracks, without empty ones."""
    names = subprocess.run(["git", "ls-files", "nareg"], cwd=ROOT, capture_output=True, text=True, check=True).stdout.split()
    return [ROOT / name for name in names if name.endswith(".py")]


def part_of(path: Path) -> str:
    """The folder or module directly in the package."""
    return path.relative_to(PACKAGE).with_suffix("").parts[0]


@cache
def imports() -> dict[str, set[str]]:
    """Part -> the parts that it imports when it runs, here or in a function; the package's own names aside."""
    parts = {part_of(path) for path in files()} - {"__init__"}
    needs: dict[str, set[str]] = {part: set() for part in sorted(parts)}
    for path in files():
        part = part_of(path)
        if part == "__init__":
            continue
        tree = ast.parse(path.read_text())
        typing = {
            inner for node in ast.walk(tree) if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.dump(node.test)
            for statement in node.body for inner in ast.walk(statement)
        }  # fmt: skip
        for node in ast.walk(tree):
            if isinstance(node, ast.ImportFrom) and node not in typing and node.module is not None:
                names = [f"nareg.{a.name}" for a in node.names] if node.module == "nareg" else [node.module]
                needs[part] |= {name.split(".")[1] for name in names if name.startswith("nareg.")} & parts - {part}
    return needs


@cache
def floors() -> dict[str, int]:
    """Part -> floor, from 0; parts of a circle have none."""
    of: dict[str, int] = {}
    below = imports()
    while ready := [part for part in below if part not in of and below[part] <= of.keys()]:
        of |= {part: max((of[other] + 1 for other in below[part]), default=0) for part in ready}
    return of


def code(path: Path) -> int:
    """Lines that hold more than a comment or a docstring."""
    text = path.read_text()
    prose: set[int] = set()
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            prose |= set(range(node.lineno, (node.end_lineno or node.lineno) + 1))
    silent = (tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER)
    lines: set[int] = set()
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type not in silent:
            lines |= set(range(token.start[0], token.end[0] + 1))
    return len(lines - prose)


def words(paths: list[Path]) -> int:
    return sum(len(path.read_text().split()) for path in paths)


def measured() -> dict[str, int]:
    """What stands beside :data:`BARS`."""
    docs = subprocess.run(["git", "ls-files", "docs"], cwd=ROOT, capture_output=True, text=True, check=True).stdout.split()
    folders = {path.parent for path in files() if path.parent != PACKAGE and path.name != "__init__.py"}
    loose = {path for path in files() if path.parent == PACKAGE and path.name != "__init__.py"}
    public = [
        path for path in files()
        if "def denoise(" in path.read_text() and not any(p.startswith("_") for p in path.relative_to(PACKAGE).parts)
        and "\ndef denoise(" in path.read_text() and "cli" not in path.parts
    ]  # fmt: skip
    values = (
        sum(len(path.read_text().splitlines()) for path in files()), sum(code(path) for path in files()), len(files()),
        len(folders) + len(loose), max(floors().values()) + 1, len(imports().keys() - floors().keys()), len(public),
        words([ROOT / name for name in docs if name.endswith(".md")]), words([ROOT / "README.md"]),
    )  # fmt: skip
    return dict(zip(BARS, values, strict=True))


def drawing() -> str:
    """The parts on their floors as SVG, the lowest at the bottom; lines lead to what no other import brings along."""
    of, below = floors(), imports()
    rows = [sorted(part for part in of if of[part] == floor) for floor in range(max(of.values()) + 1)]
    width = max(len(row) for row in rows) * (WIDTH + GAP) + GAP
    height = len(rows) * (HEIGHT + RISE) + RISE
    place = {}
    for floor, row in enumerate(rows):
        left = (width - len(row) * (WIDTH + GAP) + GAP) / 2
        for k, part in enumerate(row):
            place[part] = left + k * (WIDTH + GAP), height - (floor + 1) * (HEIGHT + RISE)

    @cache
    def reached(part: str) -> frozenset[str]:
        return frozenset(below[part]).union(*(reached(other) for other in below[part]))

    text = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" font-family="sans-serif" font-size="12">']
    for part in sorted(of):
        direct = [o for o in sorted(below[part]) if not any(o in reached(other) for other in below[part] - {o})]
        for other in direct:
            (x, y), (u, v) = place[part], place[other]
            ends = f'x1="{x + WIDTH / 2:g}" y1="{y + HEIGHT:g}" x2="{u + WIDTH / 2:g}" y2="{v:g}"'
            text.append(f'<line {ends} stroke="#b0b8c0"/>')
    for part, (x, y) in sorted(place.items()):
        text.append(f'<rect x="{x:g}" y="{y:g}" width="{WIDTH}" height="{HEIGHT}" rx="4" fill="#eef3f8" stroke="#5a7fa5"/>')
        text.append(f'<text x="{x + WIDTH / 2:g}" y="{y + 19:g}" text-anchor="middle" fill="#1c2833">{part}</text>')
    return "\n".join([*text, "</svg>"]) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--draw", action="store_true", help="write the picture")
    if parser.parse_args().draw:
        PICTURE.write_text(drawing())
    for name, value in measured().items():
        print(f"{name:<46}{value:>8,}   at most {BARS[name]:,}{'' if value <= BARS[name] else '   MISSED'}")


if __name__ == "__main__":
    main()
