"""A linear matrix inequality on the graph's pattern, with small cones."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp

from nareg.design.programs._cliques import CliqueTree


class MatrixInequality:
    """``expression`` is PSD, for an (N, N) expression that is zero off the graph.

    Such a matrix is PSD exactly where it is a sum of PSD matrices over the cliques of a chordal completion (Agler, Helton,
    McCullough, Rodman 1988).
    """

    def __init__(self, expression: Any, tree: CliqueTree, text: str) -> None:
        import cvxpy as cp

        self.expression, self.text = expression, text
        n = tree.n_nodes
        index = sp.lil_array((n, n), dtype=int)
        pairs = [(i, i) for i in range(n)] + sorted(tree.pairs())
        for k, (i, j) in enumerate(pairs):
            index[i, j] = index[j, i] = k + 1
        rows, columns = np.array(pairs).T
        total: Any = 0
        for clique in tree.cliques:
            part = cp.Variable((clique.size, clique.size), PSD=True)
            a, b = np.triu_indices(clique.size)
            places = index[clique[a]][:, clique].toarray()[np.arange(a.size), b] - 1
            spread = sp.csr_array((np.ones(a.size), (places, np.arange(a.size))), shape=(len(pairs), a.size))
            total = total + spread @ part[a, b]
        #: The inequality for cvxpy.
        self.constraints = [expression[rows, columns] == total]

    def violation(self) -> float:
        """By how much the smallest eigenvalue is below zero."""
        value = np.asarray(self.expression.value)
        return max(0.0, -float(np.linalg.eigvalsh((value + value.T) / 2)[0]))

    def __str__(self) -> str:
        return self.text
