"""Options say what is wrong with them when they are made, before any graph is read."""

from __future__ import annotations

import re

import numpy as np
import pytest

from nareg.errors import InputError
from nareg.herta import Optimizer, Regularized, Sketched, Unfolding


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: Unfolding(-1.0), "lam is -1.0, it must be at least 0."),
        (lambda: Unfolding(np.nan), "lam is nan, it must be at least 0."),
        (lambda: Unfolding("combinatorial"), "lam is 'combinatorial', a number is expected."),
        (lambda: Unfolding(1.0, "signless"), "kind is 'signless'; choose one of 'augmented', 'combinatorial', 'operator'."),
        (lambda: Unfolding(1.0, "normalized"), 'pass "augmented".'),
        (lambda: Unfolding(unrolled=0), "unrolled is 0, an integer of at least 1 is expected."),
        (lambda: Unfolding(unrolled=2.5), "unrolled is 2.5, an integer of at least 1 is expected."),
        (lambda: Regularized("mae"), "loss is 'mae'; choose one of 'mse', 'ce'."),
        (lambda: Regularized(0.1), "loss is 0.1; choose one of 'mse', 'ce'."),
        (lambda: Regularized("ce", -0.5), "weight_decay is -0.5, it must be at least 0."),
        (lambda: Regularized("ce", None), "weight_decay is None, a number is expected."),
        (lambda: Sketched(0), "rows is 0, an integer of at least 1 is expected."),
        (lambda: Sketched(10.0), "rows is 10.0, an integer of at least 1 is expected."),
        (lambda: Optimizer("sgd"), "optimizer is 'sgd'; choose one of"),
        (lambda: Optimizer("gd", learning_rate=0), "learning_rate is 0, it must be above 0."),
        (lambda: Optimizer("adam", dropout=1.0), "dropout is 1.0: it must be below 1"),
        (lambda: Optimizer("adam", dropout=-0.1), "dropout is -0.1, it must be at least 0"),
        (lambda: Optimizer(tol=0.0), "tol is 0.0, it must be above 0 and below 1."),
        (lambda: Optimizer(inner_tol=1.0), "inner_tol is 1.0, it must be above 0 and below 1."),
        (lambda: Optimizer(max_iterations=0), "max_iterations is 0, an integer of at least 1 is expected."),
        (lambda: Optimizer(stop_below=np.inf), "stop_below is inf, it must be finite."),
        (lambda: Optimizer(patience=True), "patience is True, an integer of at least 1 is expected."),
    ],
)
def test_a_value_outside_its_range_is_refused_in_one_sentence(build, message):
    with pytest.raises(InputError, match=re.escape(message)) as caught:
        build()
    assert str(caught.value).count(". ") == 0


def test_values_within_their_range_are_stored_as_they_are():
    assert Unfolding(0, "operator", np.int64(3)) == Unfolding(0, "operator", 3)
    assert Regularized("ce", 0) == Regularized("ce")
    assert Sketched() == Sketched(None) != Sketched(1)
    assert Optimizer("adam", learning_rate=np.float32(0.5), stop_below=-1.0).learning_rate == 0.5
