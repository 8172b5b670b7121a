"""The one loop of conjugate gradients: what it does with columns that are not finite, and with a product that overflows."""

from __future__ import annotations

import numpy as np
import pytest

from nareg._solvers import cg
from nareg._solvers.passes import ProductPasses
from nareg.errors import SolverError


@pytest.mark.parametrize("spoiled", [np.nan, np.inf])
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_a_column_that_is_not_finite_stays_so_and_spoils_no_other(spoiled):
    K, B = np.diag([1.0, 2.0, 3.0]), np.ones((3, 3))
    B[0, 1] = spoiled
    X, _ = cg.solve_exactly(ProductPasses(lambda P, out: np.matmul(K, P, out=out)), B, tol=1e-12)
    np.testing.assert_allclose(X[:, [0, 2]], np.linalg.solve(K, np.ones((3, 2))), rtol=1e-12)
    assert np.isnan(X[:, 1]).all()


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_a_product_that_overflows_is_refused():
    with pytest.raises(SolverError, match="not positive definite in this precision"):
        cg.solve_exactly(
            ProductPasses(lambda P, out: np.multiply(P, 1e308 * np.ones((3, 1)) * 10, out=out)), np.ones((3, 1)), tol=1e-8
        )
