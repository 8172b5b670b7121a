"""The three questions: every answer leads on, every code runs, and the guide says the same."""

from __future__ import annotations

import contextlib
from pathlib import Path

import numpy as np
import pytest

import nareg
from nareg.explorer._advice import ADVICE, QUESTIONS

PAGE = Path(__file__).resolve().parents[2] / "docs" / "choose.md"
#: What the guide's table calls each advice.
IN_GUIDE = {
    "clean": "[`nareg clean`](guides/clean.md)", "gcv": '`node_invariant(rule="gcv")`', "blind": "`blind`",
    "kriging": "kriging", "edge": "`edge`", "lmmse": "`baselines.lmmse`",
}  # fmt: skip


def test_every_answer_leads_to_a_question_or_an_advice():
    targets = {following for question in QUESTIONS.values() for _, following in question["answers"]}
    assert targets == (set(QUESTIONS) | set(ADVICE)) - {"time"}


def test_the_guide_recommends_the_same():
    guide = PAGE.read_text()
    assert set(IN_GUIDE) == set(ADVICE)
    for name, words in IN_GUIDE.items():
        assert words in guide, name
    for claim in ("10 times or more", "30 readings per station and more", "20 of 30 cases", "7 % above the Wiener filter"):
        assert claim in guide


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    network = nareg.datasets.simulated(12, 60, faults=(), rng=np.random.default_rng(2))
    filled = np.where(np.isfinite(network.readings), network.readings, network.truth)
    target = tmp_path_factory.mktemp("advice")
    network.to_csv(target)
    nareg.io.write_readings(target / "readings.csv", nareg.io.Readings(network.names, tuple(map(str, network.times)), filled))
    return target


@pytest.mark.slow
@pytest.mark.parametrize("name", list(ADVICE))
def test_its_code_runs(name, folder):
    names = {}
    with contextlib.chdir(folder):
        exec(ADVICE[name]["code"], names)  # without names but its own, and without a warning
    assert np.isfinite(np.asarray(names["cleaned"].x if "cleaned" in names else names["x"])).all()
    assert max(map(len, ADVICE[name]["code"].splitlines())) <= 88
