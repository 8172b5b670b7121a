"""Marks of quality beside readings: those whose meaning is known are honored, others named."""

from __future__ import annotations

import re

import numpy as np

from nareg.io._notes import Notes, count, is_or_are, listed
from nareg.io._vocabulary import FLAG, MISSING, plain

GOOD = frozenset(
    ("good", "ok", "okay", "valid", "pass", "passed", "correct", "approved", "accepted", "probably_good", "normal", "unflagged",
     "gut", "bon", "goed", "bueno")
)  # fmt: skip
DOUBTFUL = frozenset(
    ("suspect", "suspicious", "doubtful", "questionable", "uncertain", "probably_bad", "dubious", "warning", "estimated",
     "zweifelhaft", "verdächtig", "douteux")
)  # fmt: skip
BAD = frozenset(
    ("bad", "fail", "failed", "failure", "erroneous", "error", "invalid", "reject", "rejected", "wrong", "faulty", "fault",
     "incorrect", "not_valid", "spike", "outlier", "schlecht", "fehlerhaft", "ungültig", "mauvais", "slecht", "fout", "malo")
)  # fmt: skip
#: Neither tested nor a judgment.
UNTESTED = frozenset(("unknown", "not_evaluated", "untested", "not_tested", "unchecked", "provisional"))
#: QARTOD codes, which those of IODE, SeaDataNet and the World Meteorological Organization share: 4 is bad, 9 missing.
CODES = {"0": "untested", "1": "good", "2": "untested", "3": "doubtful", "4": "bad", "9": "missing"}
#: Ends of names of such columns.
ENDINGS = ("qc", "flag", "flags", "quality", "qualityflag", "qual")
#: A mark that would take away more than this share of the readings means something else.
MOST = 0.5


def marked_bad(cells: np.ndarray, read: np.ndarray, column: str, notes: Notes) -> np.ndarray | None:
    """Readings (R,) that a column of marks calls bad or missing; None where the meaning of its marks is not known.

    Parameters
    ----------
    cells : (R,) array of str
        The marks.
    read : (R,) bool array
        Where there is a reading.
    column : str
        Name of the column in notes.
    notes : Notes
        Receives what was found.
    """
    marks, of_row = np.unique(cells.astype(str), return_inverse=True)
    meanings = _meanings([str(mark) for mark in marks])
    used = np.unique(of_row[read])
    if meanings is None or all(meanings[k] in ("untested", "missing") for k in used):
        shown = [str(marks[k]) for k in used if str(marks[k]).lower() not in MISSING]
        if len(shown) > 1 or (shown and meanings is None):
            notes.fact(f"{column} seems to mark the quality of readings; what {listed(shown)} means is not known, and not used")
        return None
    kind = np.array(meanings, dtype=object)[of_row]
    out: np.ndarray = read & np.isin(kind, ("bad", "missing"))
    if out.sum() > MOST * read.sum():
        notes.fact(f"{column} would mark {count(int(out.sum()), 'reading')} of {read.sum():,} as bad and is not used")
        return None
    doubtful = int((read & (kind == "doubtful")).sum())
    which = listed([str(marks[k]) for k in used if meanings[k] in ("bad", "missing")])
    if out.any():
        number = int(out.sum())
        notes.guess(
            f"{count(number, 'reading')} that {column} marks as bad ({which}) {is_or_are(number)} left out",
            "leave their cells empty, and drop the column",
        )
    else:
        notes.fact(f"{column} marks no reading as bad")
    if doubtful:
        notes.fact(f"{count(doubtful, 'reading')} that {column} marks as suspect {is_or_are(doubtful)} used")
    return out


def is_flag(name: str, of: str = "") -> bool:
    """Whether a column marks the quality of readings by its name (of the column ``of``: ``00065_cd`` does of ``00065``)."""
    word = plain(name)
    return word in FLAG or word.endswith(ENDINGS) or (bool(of) and word == plain(of) + "cd")


def _meanings(marks: list[str]) -> list[str] | None:
    """What each mark says; None where one is not known."""
    words = [mark.strip().lower() for mark in marks]
    numbers = [word.removesuffix(".0") for word in words]
    if all(number in CODES or word in MISSING for number, word in zip(numbers, words, strict=True)):
        if not {"1", "4"} <= set(numbers):  # without both it may be any other scale
            return None
        return [CODES.get(number, "untested") for number in numbers]
    return [meaning for meaning in map(_meaning, words) if meaning] if all(map(_meaning, words)) else None


def _meaning(word: str) -> str | None:
    spelled = re.sub(r"[\s\-]+", "_", word)
    for meaning, known in (("good", GOOD), ("doubtful", DOUBTFUL), ("bad", BAD), ("untested", UNTESTED)):
        if spelled in known:
            return meaning
    return "untested" if word in MISSING else None
