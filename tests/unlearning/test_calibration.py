"""``lam="auto"`` and ``alpha="auto"``: they follow the features' scale, are charged, stay fixed, and are stored."""

from __future__ import annotations

import numpy as np
import pytest

from nareg.errors import InputError
from nareg.unlearning import CertifiedGPR, FeatureScale, verify
from nareg.unlearning.calibration import default_charge
from tests.unlearning.requests import problem, true_gradient


def model_of(seed=3, *, factor=1.0, **settings):
    graph, X, y = problem(np.random.default_rng(0))
    model = CertifiedGPR(rng=np.random.default_rng(seed), **settings)
    return model.fit(graph, factor * X, y, np.arange(40)), graph, factor * X, y


@pytest.mark.slow
@pytest.mark.parametrize("loss", ["logistic", "squared"])
def test_scores_do_not_depend_on_the_unit_of_the_features(loss):
    here, *_ = model_of(loss=loss)
    for exponent in (-20, 3, 20):
        there, *_ = model_of(factor=2.0**exponent, loss=loss)
        assert there.lam == here.lam * 4.0**exponent
        assert there.alpha == here.alpha * 2.0**exponent
        assert np.allclose(there.decision(), here.decision(), rtol=1e-9, atol=1e-9)


def test_a_length_that_is_known_costs_nothing_and_draws_nothing():
    model, *_ = model_of(lam=FeatureScale(norm=2.0))
    assert (model.lam, model.alpha) == (5e-5 * 4, pytest.approx(0.2 * 2e-4 * 40 / 2))
    assert model.certificate().eps_scale == 0
    stated, *_ = model_of(lam=model.lam, alpha=model.alpha)
    assert np.array_equal(stated.coefficients, model.coefficients)


@pytest.mark.slow
def test_noise_changes_scores_by_at_most_the_stated_deviation():
    """Over many noise terms, for the squared loss, whose optimum is linear in the noise."""
    scores, (plain, *_) = [], model_of(lam=FeatureScale(norm=2.0), loss="squared")
    noiseless, *_ = model_of(lam=plain.lam, alpha=0.0, loss="squared")
    for seed in range(60):
        scores.append(model_of(seed, lam=FeatureScale(norm=2.0), loss="squared")[0].decision() - noiseless.decision())
    deviation = np.sqrt(np.mean(np.square(scores), axis=0))
    limit = 0.2 * np.linalg.norm(plain.embedding(), axis=1) / 2.0
    assert (deviation <= 1.5 * limit[:, None]).all()


@pytest.mark.parametrize(
    ("settings", "charged"), [({}, True), ({"lam": 0.1}, True), ({"alpha": 0.1}, True), ({"lam": 0.1, "alpha": 0.1}, False)]
)
def test_each_choice_by_the_features_is_charged(settings, charged):
    model, *_ = model_of(**settings)
    assert model.certificate().eps_scale == (default_charge(60) if charged else 0)
    assert all(getattr(model, name) == value for name, value in settings.items())
    assert ("per removed row" in model.certificate().summary()) == charged


@pytest.mark.slow
def test_no_request_changes_the_choice_and_every_certificate_holds_and_states_it():
    model, graph, X, y = model_of(lam=FeatureScale(eps=1.0))
    chosen, A, train = (model.lam, model.alpha, model.budget), graph.adjacency.toarray(), set(range(40))
    for node in (3, 50, 7):
        certificate = model.remove_nodes([node])
        A[node], A[:, node], X[node] = 0, 0, 0
        train.discard(node)
        assert true_gradient(model, A, X, y, sorted(train)) <= certificate.spent <= certificate.budget
        assert (model.lam, model.alpha, model.budget) == chosen
        assert certificate.eps_scale == 1.0
    assert model.renew().eps_scale == 1.0
    assert (model.lam, model.alpha, model.budget) == chosen


@pytest.mark.slow
def test_a_store_keeps_choice_and_charge(tmp_path):
    model, *_ = model_of()
    model.save(tmp_path / "m.store").remove_nodes([4])
    stated = (model.lam, model.alpha, model.eps_scale)
    model.close()
    assert verify(tmp_path / "m.store").holds
    loaded = CertifiedGPR.load(tmp_path / "m.store")
    assert (loaded.lam, loaded.alpha, loaded.eps_scale) == stated
    assert loaded.remove_nodes([5]).eps_scale == stated[2]
    loaded.close()


def test_a_folder_keeps_choice_and_charge_and_those_of_memory(tmp_path):
    here, graph, X, y = model_of()
    there = CertifiedGPR(rng=np.random.default_rng(3), folder=tmp_path / "m").fit(graph, X, y, np.arange(40))
    assert (there.lam, there.alpha, there.eps_scale) == (here.lam, here.alpha, here.eps_scale)
    assert np.allclose(there.coefficients, here.coefficients)
    there.close()
    loaded = CertifiedGPR.load(tmp_path / "m")
    assert (loaded.lam, loaded.alpha, loaded.eps_scale) == (here.lam, here.alpha, here.eps_scale)
    loaded.close()


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"lam": "best"}, "lam is 'best': pass a number or \"auto\""),
        ({"alpha": "best"}, "alpha is 'best': pass a number or \"auto\""),
        ({"lam": FeatureScale(norm=1.0), "alpha": FeatureScale(norm=2.0)}, "pass one of them"),
    ],
)
def test_settings_that_cannot_work_or_have_no_effect_are_refused(settings, message):
    with pytest.raises(InputError, match=message):
        CertifiedGPR(**settings)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"norm": 0}, "norm is 0, it must be above 0"),
        ({"eps": 0}, "eps is 0, it must be above 0"),
        ({"norm": 1.0, "eps": 0.1}, "a known length costs nothing: omit eps"),
    ],
)
def test_scales_that_cannot_work_are_refused(settings, message):
    with pytest.raises(InputError, match=message):
        FeatureScale(**settings)


def test_a_charge_too_small_is_refused_and_leaves_the_model_as_it_was():
    model = CertifiedGPR(alpha=FeatureScale(eps=0.1))
    with pytest.raises(InputError, match=r"eps_scale is 0\.1, with which the scale of 60 rows would be random"):
        model.fit(*problem(np.random.default_rng(0)), np.arange(40))
    with pytest.raises(InputError, match='lam or alpha is "auto", which fit decides'):
        _ = model.lam
