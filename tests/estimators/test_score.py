"""Scores: against a clean field, at hidden readings, at hidden stations."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from sklearn.impute import KNNImputer
from sklearn.model_selection import cross_val_score

from nareg.errors import InputError
from nareg.estimators import EdgeDenoiser, GraphInterpolator, HeldOutStations, NodeAdaptiveDenoiser
from nareg.estimators._validation import hidden_readings


def test_against_a_clean_field(grid, waves, rng):
    denoiser = NodeAdaptiveDenoiser(grid).fit(waves)
    clean = waves + 0.1 * rng.standard_normal(waves.shape)
    assert denoiser.score(waves, clean) == pytest.approx(-np.mean((denoiser.transform(waves) - clean) ** 2))
    known = np.where(rng.random(clean.shape) < 0.5, clean, np.nan)
    expected = -np.nanmean((denoiser.transform(waves) - known) ** 2)
    assert denoiser.score(waves, pd.DataFrame(known)) == pytest.approx(expected)
    with pytest.raises(InputError, match="no finite value"):
        denoiser.score(waves, np.full(waves.shape, np.nan))


def test_hidden_readings_are_not_seen(grid, waves):
    """Change a reading: the estimate it is compared with stays, so that the score moves by the reading alone."""
    denoiser = NodeAdaptiveDenoiser(grid, random_state=3).fit(waves)
    hidden = hidden_readings(np.isfinite(waves), np.random.default_rng(3))
    t, i = np.argwhere(hidden)[0]
    estimate = denoiser.transform(np.where(hidden, np.nan, waves))
    expected = -np.mean((estimate - waves)[hidden] ** 2)
    assert denoiser.score(waves) == pytest.approx(expected)
    changed = waves.copy()
    changed[t, i] += 5.0
    shift = ((estimate - changed)[t, i] ** 2 - (estimate - waves)[t, i] ** 2) / hidden.sum()
    assert denoiser.score(changed) == pytest.approx(expected - shift)


def test_a_fifth_is_hidden_at_every_time_in_few_patterns(rng):
    seen = rng.random((300, 40)) > 0.1
    hidden = hidden_readings(seen, rng)
    assert not (hidden & ~seen).any()
    assert hidden.sum() / seen.sum() == pytest.approx(0.2, abs=0.01)
    whole = hidden_readings(np.ones((300, 40), bool), rng)
    assert len(np.unique(whole, axis=0)) == 5
    assert (whole.sum(axis=1) == 8).all()
    one = np.zeros((4, 3), bool)
    one[2, 1] = True
    assert hidden_readings(one, rng)[2, 1]


def test_scores_repeat_and_random_state_moves_them(grid, waves):
    def score(random_state):
        return NodeAdaptiveDenoiser(grid, design="gcv", random_state=random_state).fit(waves).score(waves)

    assert score(None) == score(None) == score(0)
    assert score(1) != score(0)


def test_held_out_readings_rank_as_the_clean_field_does(network, clean):
    noisy = clean + 5 * np.random.default_rng(1).standard_normal(clean.shape)
    weights = (0.02, 1.0, 20.0)
    fitted = [GraphInterpolator(network.graph, weights=w).fit(noisy) for w in weights]
    hidden = HeldOutStations()
    by_readings = [e.score(noisy) for e in fitted]
    by_field = [hidden(e, noisy, clean) for e in fitted]
    assert np.argmax(by_readings) == np.argmax(by_field) == 1


def test_hidden_stations(network, clean, noisy):
    denoiser = EdgeDenoiser(network.graph, noise=4.0).fit(noisy)
    scorer = HeldOutStations(3, random_state=1)
    group = np.random.default_rng(1).permutation(np.arange(30) % 3)
    errors = []
    for k in range(3):
        x = denoiser.transform(noisy.mask(np.broadcast_to(group == k, noisy.shape)))
        errors.append((x - clean.to_numpy())[:, group == k] ** 2)
    assert scorer(denoiser, noisy, clean) == pytest.approx(-np.mean(np.concatenate(errors, axis=1)))
    assert scorer(denoiser, noisy) < scorer(denoiser, noisy, clean)  # readings have noise of their own
    assert repr(scorer) == "HeldOutStations(n_splits=3, random_state=1)"


def test_the_scorer_takes_any_imputer(clean):
    scores = cross_val_score(KNNImputer(), clean.to_numpy(), scoring=HeldOutStations(), cv=3)
    assert (scores < 0).all()


def test_the_scorer_refuses_what_cannot_work(grid, waves):
    denoiser = GraphInterpolator(grid).fit(waves)
    with pytest.raises(InputError, match="n_splits is 10 but X has 9 stations"):
        HeldOutStations(10)(denoiser, waves)
    with pytest.raises(InputError, match=r"y has shape \(40,\)"):
        HeldOutStations()(denoiser, waves, waves[:, 0])
    with pytest.raises(InputError, match="no finite value"):
        HeldOutStations()(denoiser, np.full((4, 9), np.nan))
