"""Inverses without the data term at missing nodes, many patterns at once, against dense inverses."""

from __future__ import annotations

import numpy as np
import pytest

from nareg.design._edge.marginal import batches, without


def random_patterns(rng, n, count, width=lambda rng: 1):
    seen = [rng.random(n) < rng.uniform(0.3, 1.0) for _ in range(count)]
    seen[0][:] = True
    return [(mask, np.where(mask[:, None], rng.standard_normal((n, width(rng))), 0.0), 1 / count) for mask in seen]


@pytest.mark.parametrize("seed", range(5))
def test_every_pattern_has_its_own_dense_inverse(seed):
    rng = np.random.default_rng(seed)
    n = 9
    A = rng.standard_normal((n, n))
    Theta, c = A @ A.T + 0.1 * np.eye(n), rng.uniform(0.2, 5, n)
    K = Theta + np.diag(c)
    P, log_det = np.linalg.inv(K), np.linalg.slogdet(K)[1]
    patterns = random_patterns(rng, n, 12, lambda rng: int(rng.integers(1, 4)))
    found = 0
    for batch in batches(patterns, c):
        removed = without(P, batch)
        assert removed is not None
        estimates = removed.applied(P, batch.b)
        for k, missing in enumerate(batch.missing):
            seen = np.ones(n, dtype=bool)
            seen[missing] = False
            own = Theta + np.diag(np.where(seen, c, 0.0))
            np.testing.assert_allclose(P + removed.half[k].T @ removed.half[k], np.linalg.inv(own), rtol=1e-8, atol=1e-10)
            assert log_det + removed.log_det[k] == pytest.approx(np.linalg.slogdet(own)[1], abs=1e-9)
            np.testing.assert_allclose(estimates[k], np.linalg.solve(own, batch.b[k]), rtol=1e-8, atol=1e-10)
            found += 1
    assert found == len(patterns)


def test_batches_hold_every_pattern_once_whatever_their_size(rng, monkeypatch):
    n, c = 6, np.ones(6)
    patterns = random_patterns(rng, n, 40)
    whole = batches(patterns, c)
    monkeypatch.setattr("nareg.design._edge.marginal.LARGEST_BATCH", 1)
    single = batches(patterns, c)
    assert len(single) == 40 > len(whole)
    assert sum(batch.share.sum() for batch in single) == pytest.approx(1.0)
    for parts in (whole, single):
        columns = np.concatenate([batch.b[:, :, 0] for batch in parts])
        np.testing.assert_array_equal(np.sort(columns, axis=0), np.sort([b[:, 0] for _, b, _ in patterns], axis=0))


def test_outside_the_cone_there_is_none(rng):
    Theta, c = np.diag([-0.5, 1.0, 1.0]), np.ones(3)
    P = np.linalg.inv(Theta + np.diag(c))
    seen = np.array([False, True, True])
    (batch,) = batches([(seen, np.zeros((3, 1)), 1.0)], c)
    assert without(P, batch) is None
