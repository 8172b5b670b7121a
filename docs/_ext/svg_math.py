"""Formulas as drawings that the pages carry: no script, no font of the reader's and no network is needed."""

from __future__ import annotations

import re
from functools import cache
from html import escape

import ziamath
from docutils import nodes
from sphinx.application import Sphinx
from sphinx.util.math import get_node_equation_number
from sphinx.writers.html5 import HTML5Translator

#: Size in the drawing's unit; the page scales it with the text around it.
SIZE = 16.0
VIEW = re.compile(r'viewBox="\S+ (\S+) (\S+) (\S+)"')
OWN_SIZE = re.compile(r' width="[^"]*" height="[^"]*"')
ENVIRONMENT = re.compile(r"^\\begin\{(align|equation)\*?\}(.*)\\end\{\1\*?\}$", re.DOTALL)


@cache
def drawing(latex: str, inline: bool) -> str:
    """An SVG element in the color of the text, whose size and place on the line follow it."""
    svg = ziamath.Latex(latex, size=SIZE, inline=inline, color="currentColor").svg()
    whole = VIEW.search(svg)
    assert whole is not None, f"no viewBox in the drawing of {latex}"
    top, width, height = (float(number) / SIZE for number in whole.groups())
    # the drawing's zero is the line that the letters stand on
    style = f"width:{width:.3f}em;height:{height:.3f}em;vertical-align:{-top - height:.3f}em"
    label = escape(re.sub(r"\s+", " ", latex), quote=True)
    return OWN_SIZE.sub("", svg, count=1).replace("<svg", f'<svg role="img" aria-label="{label}" style="{style}"', 1)


def visit_inline(translator: HTML5Translator, node: nodes.math) -> None:
    translator.body.append(drawing(node.astext(), True))
    raise nodes.SkipNode


def visit_block(translator: HTML5Translator, node: nodes.math_block) -> None:
    latex = node.astext().strip()
    if whole := ENVIRONMENT.match(latex):
        latex = "\\begin{aligned}" + whole[2] + "\\end{aligned}" if whole[1] == "align" else whole[2]
    translator.body.append(translator.starttag(node, "div", CLASS="math"))
    if node.get("number"):
        translator.body.append(f'<span class="eqno">({get_node_equation_number(translator, node)})</span>')
    translator.body.append(drawing(latex, False) + "</div>\n")
    raise nodes.SkipNode


def setup(app: Sphinx) -> dict[str, bool]:
    app.add_html_math_renderer("svg", (visit_inline, None), (visit_block, None))
    return {"parallel_read_safe": True, "parallel_write_safe": True}
