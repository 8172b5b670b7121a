"""Operators other than a Laplacian, on networks too large to compute all their eigenvalues."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp

import nareg
from nareg.errors import InputError
from nareg.filters import denoise


@pytest.fixture(scope="module")
def big():
    return nareg.graphs.grid((60, 60))


def test_large_semidefinite_operators_are_taken(big):
    L = big.laplacian()
    for operator in (big.laplacian("normalized"), sp.csr_array(L @ L), sp.csr_array(L + sp.eye_array(3600))):
        assert denoise(operator, 1.0, np.ones(3600)).status.ok


def test_large_indefinite_operators_are_refused(big):
    for operator in (sp.csr_array(big.laplacian() - 0.5 * sp.eye_array(3600)), big.adjacency):
        with pytest.raises(InputError, match="positive semidefinite"):
            denoise(operator, 1.0, np.ones(3600))
