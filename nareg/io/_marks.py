"""Columns that mark the quality of readings: what their marks mean, and which readings they call bad."""

from __future__ import annotations

import re
from collections.abc import Sequence

import numpy as np

from nareg.errors import InputError
from nareg.io._notes import Notes, count, listed, verb
from nareg.io._recipe import Recipe
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
ENDINGS = ("qc", "flag", "flags", "quality", "qualityflag", "qual", "attributes", "品質情報")
#: A mark that would take away more than this share of the readings means something else.
MOST = 0.5
#: Ends of names of columns that say yes or no, and what yes means.
YES = {
    "invalid": "bad",
    "valid": "good",
    "suspect": "bad",
    "outlier": "bad",
    "anomaly": "bad",
    "anomalous": "bad",
    "finalqf": "bad",
}
ANSWERS = {"1": True, "true": True, "yes": True, "y": True, "0": False, "false": False, "no": False, "n": False}
#: Approved and provisional readings of the United States Geological Survey, with remarks such as e, estimated.
SURVEY = re.compile(r"(?P<status>[apr])(?P<remark>[\s:\[].*)?")
#: Marks of measurement, quality and source of NOAA's daily summaries: with a letter in the middle, a check has failed.
ATTRIBUTES = re.compile(r"[^,]*,(?P<failed>[^,]*),[^,]*(,[^,]*)?")
#: Quality of readings of the Japan Meteorological Agency.
JAPAN = {"8": "good", "5": "doubtful", "4": "doubtful", "2": "bad", "1": "missing", "0": "missing"}
#: Validity of readings of the European Environment Agency.
EUROPE = {"1": "good", "2": "good", "3": "good", "4": "good", "-1": "bad", "-99": "bad"}
#: What notes say of columns of marks.
ABOUT_MARKS = re.compile(r"columns? .* marks? |columns? .* mark the quality ")


def marked_bad(cells: np.ndarray, read: np.ndarray, names: Sequence[str], notes: Notes, recipe: Recipe) -> np.ndarray | None:
    """Readings (R,) that columns of marks call bad or missing; None where they are not used.

    Parameters
    ----------
    cells : (R,) array of str
        The marks.
    read : (R,) bool array
        Where there is a reading.
    names : sequence of str
        Names of the columns.
    notes : Notes
        Receives what was found.
    recipe : Recipe
        Whether to use the marks, and which mean bad readings.
    """
    column = f"column {names[0]!r}" if len(names) == 1 else f"columns such as {names[0]!r}"
    marks, of_row = np.unique(cells.astype(str), return_inverse=True)
    used = np.unique(of_row[read])
    shown = [str(marks[k]) for k in used if str(marks[k]).strip().lower() not in MISSING]
    asked = recipe.use_flags or bool(recipe.bad)
    if recipe.use_flags is False:
        if shown:
            notes.fact(f"what {column} marks is not used, as asked for")
        return None
    words = [str(mark).strip().lower() for mark in marks]
    meanings = _meanings(words, names[0])
    if meanings is None:  # what marks missing readings alone need not be known
        meanings = _meanings([word if k in used else "" for k, word in enumerate(words)], names[0])
    if recipe.bad:
        bad = {word.strip().lower() for word in recipe.bad}
        meanings = ["bad" if str(mark).strip().lower() in bad else "good" for mark in marks]
    elif asked and meanings is None:
        meanings = [_meaning(str(mark).strip().lower()) or "bad" for mark in marks]
    if meanings is None or (not asked and all(meanings[k] in ("untested", "missing") for k in used)):
        if len(shown) > 1 or (shown and meanings is None):
            remedy = "" if meanings is not None else ": name those of bad readings by --bad, or pass --use-flags"
            notes.fact(
                f"{column} seems to mark the quality of readings; what {listed(shown)} means is not known, and not used{remedy}"
            )
        return None
    if recipe.use_flags and not recipe.bad:
        meanings = _all_but_good(meanings, marks, f"{notes.source}: {column}")
    kind = np.array(meanings, dtype=object)[of_row]
    out: np.ndarray = read & np.isin(kind, ("bad", "missing"))
    if not asked and out.sum() > MOST * read.sum():
        notes.fact(f"{column} would mark {count(int(out.sum()), 'reading')} of {read.sum():,} as bad and is not used")
        return None
    doubtful = int((read & (kind == "doubtful")).sum())
    which = listed([str(marks[k]) for k in used if meanings[k] in ("bad", "missing")])
    if out.any():
        number = int(out.sum())
        notes.guess(
            f"{count(number, 'reading')} that {column} marks as bad ({which}) {verb(number)} left out",
            "leave their cells empty, and drop the column",
        )
    else:
        notes.fact(f"{column} marks no reading as bad")
    if doubtful:
        notes.fact(f"{count(doubtful, 'reading')} that {column} marks as suspect {verb(doubtful)} used")
    return out


def is_flag(name: str, of: str = "") -> bool:
    """Whether a column marks the quality of readings by its name (of the column ``of``: ``00065_cd`` does of ``00065``)."""
    word = plain(name)
    return word in FLAG or word.endswith((*ENDINGS, *YES)) or (bool(of) and word == plain(of) + "cd")


def _all_but_good(meanings: list[str], marks: np.ndarray, column: str) -> list[str]:
    """What each mark says where all others than good ones are bad."""
    if "good" not in meanings:
        raise InputError(
            f"{column} has the marks {listed([str(mark) for mark in marks], 12)}, of which none is known as good: name those "
            "of bad readings by --bad (bad= of a recipe), or omit use_flags."
        )
    return [meaning if meaning == "good" else "bad" for meaning in meanings]


def _meanings(words: list[str], name: str) -> list[str] | None:
    """What each mark of a column says; None where one is not known."""
    numbers = [word.removesuffix(".0") for word in words]
    title = plain(name)
    yes = next((meaning for end, meaning in YES.items() if title.endswith(end)), None)
    if yes is not None and all(number in ANSWERS or number in MISSING for number in numbers):
        no = "bad" if yes == "good" else "good"
        return ["untested" if number in MISSING else yes if ANSWERS[number] else no for number in numbers]
    if title.endswith("品質情報") and all(number in JAPAN or number in MISSING for number in numbers):
        return [JAPAN.get(number, "untested") for number in numbers]
    if title == "validity" and all(number in EUROPE or number in MISSING for number in numbers):
        return [EUROPE.get(number, "untested") for number in numbers]
    if all(number in CODES or word in MISSING for number, word in zip(numbers, words, strict=True)):
        if not {"1", "4"} <= set(numbers):  # without both it may be any other scale
            return None
        return [CODES.get(number, "untested") for number in numbers]
    if all(map(_meaning, words)):
        return [str(_meaning(word)) for word in words]
    others = [word for word in words if word not in MISSING]
    if title == "qflag" and all(len(word) == 1 and word.isalpha() for word in others):  # of GHCN-Daily: the check that failed
        return ["bad" if word in others else "good" for word in words]
    if title.endswith("attributes") and all(map(ATTRIBUTES.fullmatch, others)):
        parts = [ATTRIBUTES.fullmatch(word) for word in words]
        return ["untested" if part is None else "bad" if part["failed"].strip() else "good" for part in parts]
    if title.endswith(("cd", "qualifier", "qualifiers")) and all(map(SURVEY.fullmatch, others)):
        of_survey = {"a": "good", "p": "untested", "r": "untested"}
        status = [SURVEY.fullmatch(word) for word in words]
        return ["untested" if s is None else "doubtful" if s["remark"] else of_survey[s["status"]] for s in status]
    return None


def _meaning(word: str) -> str | None:
    spelled = re.sub(r"[\s\-]+", "_", word)
    for meaning, known in (("good", GOOD), ("doubtful", DOUBTFUL), ("bad", BAD), ("untested", UNTESTED)):
        if spelled in known:
            return meaning
    return "untested" if word in MISSING else None
