"""Texts in CSV files that a spreadsheet would run as formulas: an apostrophe before them keeps them texts, and is read away."""

from __future__ import annotations

import re

from nareg.io._numbers import NUMBER

#: What begins a formula; more apostrophes before it are part of the text.
_FORMULA = re.compile(r"'*[=+\-@\t\r＝＋－＠].", re.DOTALL)


def shield(text: str) -> str:
    """The text, with an apostrophe where a spreadsheet would take it for a formula.

    Examples
    --------
    >>> shield("=cmd()"), shield("-12.5"), shield("Weir 2")
    ("'=cmd()", '-12.5', 'Weir 2')
    """
    return f"'{text}" if _FORMULA.match(text) and not NUMBER.fullmatch(text) else text


def unshield(text: str) -> str:
    """The text that :func:`shield` was given."""
    return text[1:] if text[:1] == "'" and _FORMULA.match(text) else text
