"""Products with a few columns, whichever way round."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from nareg.herta import _features


@pytest.mark.parametrize("columns", [0, 1, 2, _features.FEW - 1, _features.FEW, 40])
@pytest.mark.parametrize("by_columns", [False, True])
@pytest.mark.parametrize("shape", [(30, 50), (50, 30)])
def test_products_are_numpys_and_contiguous(columns, by_columns, shape, rng):
    A = torch.as_tensor(rng.standard_normal(shape))
    A = A.T.contiguous().T if by_columns else A
    for product, matrix in ((_features.tall_product, A), (_features.tall_transposed_product, A.T)):
        B = torch.as_tensor(rng.standard_normal((matrix.shape[1], columns)))
        found = product(A, B)
        assert found.is_contiguous()
        np.testing.assert_allclose(found.numpy(), matrix.numpy() @ B.numpy(), rtol=1e-12, atol=1e-12)
