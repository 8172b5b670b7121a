"""The matrix variable Omega of the programs: its entries on the support of L, and what makes it positive semidefinite.

Positive semidefinite completion: a large cone as small cones that share entries.

A matrix of which only the entries on a chordal pattern are given has a PSD completion exactly where its blocks over the cliques
of the pattern are PSD (Grone, Johnson, Sa, Wolkowicz 1984). A tree decomposition of the graph gives such cliques.

Inequalities on S bound the factor of a recursion per round, so that neighbors can compute the filter. With
``D = diag(c) + diag(S)`` and M the off-diagonal part of S, a Jacobi round multiplies the error by ``-D^-1 M``, whose
eigenvalues lie in ``[-rate, rate]`` exactly where

    -rate D <= M <= rate D

in the order of PSD matrices: two inequalities, linear in Omega. The published recursion (19) multiplies it by ``-S``.
"""

from __future__ import annotations

from itertools import combinations
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse as sp

from nareg.design._convex.quadratic import support
from nareg.design._risk.rate import required_rate

if TYPE_CHECKING:
    import networkx as nx

    from nareg.design.programs._program import Program


class CliqueTree:
    """Cliques that cover every node and edge of a graph, from the root of a tree of them to its leaves."""

    def __init__(self, n_nodes: int, rows: np.ndarray, columns: np.ndarray) -> None:
        import networkx as nx  # imported when first needed
        from networkx.algorithms.approximation import treewidth_min_fill_in

        graph = nx.Graph()
        graph.add_nodes_from(range(n_nodes))
        graph.add_edges_from((int(a), int(b)) for a, b in zip(rows, columns, strict=True) if a != b)
        self.n_nodes = n_nodes
        self.cliques = _merged(treewidth_min_fill_in(graph)[1])

    def pairs(self) -> set[tuple[int, int]]:
        """Pairs of nodes (i < j) that share a clique."""
        return {(int(a), int(b)) for clique in self.cliques for a, b in combinations(clique, 2)}

    def complete(self, matrix: np.ndarray) -> np.ndarray:
        """Fill the entries outside the cliques so that the determinant is largest; a rank of one stays one."""
        filled = matrix.copy()
        done = np.zeros(self.n_nodes, dtype=bool)
        for clique in self.cliques:
            shared, new = clique[done[clique]], clique[~done[clique]]
            rest = np.setdiff1d(np.flatnonzero(done), shared)
            if new.size and rest.size:
                inverse = np.linalg.pinv(matrix[np.ix_(shared, shared)], rcond=1e-10, hermitian=True)
                block = matrix[np.ix_(new, shared)] @ inverse @ filled[np.ix_(shared, rest)]
                filled[np.ix_(new, rest)], filled[np.ix_(rest, new)] = block, block.T
            done[clique] = True
        return filled


def _merged(tree: nx.Graph) -> list[np.ndarray]:
    """The tree's bags from its root on, neighbors joined where one cone costs no more than two: of k rows about k^3."""
    import networkx as nx

    root = next(iter(tree.nodes))
    order = list(nx.dfs_preorder_nodes(tree, root))
    parent = {child: above for above, child in nx.dfs_edges(tree, root)}
    nodes = {bag: set(bag) for bag in order}
    for bag in reversed(order[1:]):
        above = parent[bag]
        union = nodes[above] | nodes[bag]
        if len(union) ** 3 <= len(nodes[above]) ** 3 + len(nodes[bag]) ** 3:
            nodes[above] = union
            del nodes[bag]
    return [np.array(sorted(nodes[bag])) for bag in order if bag in nodes]


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


CONES = ("cliques", "dense")


class Omega:
    """A PSD matrix in units of ``unit``, of which the programs need the entries on the support of L.

    With ``cone="cliques"`` the other entries are no unknowns: blocks over cliques are PSD, so that a PSD completion exists.
    """

    def __init__(self, L: np.ndarray, cone: str, unit: float) -> None:
        import cvxpy as cp  # half a second to import: only when a program is built

        self.L, self.cone, self.unit, self.n = L, cone, unit, len(L)
        self.rows, self.columns = support(L)
        self.tree = CliqueTree(self.n, self.rows, self.columns)
        if cone == "dense":
            self.variable = cp.Variable((self.n, self.n), PSD=True, name="omega")
            self.unit_entries = self.variable[self.rows, self.columns]
            self.constraints: list[Any] = []
            self.n_entries = self.rows.size
            return
        filled = sorted(self.tree.pairs() - set(zip(self.rows.tolist(), self.columns.tolist(), strict=True)))
        self._rows = np.concatenate([self.rows, np.array([i for i, _ in filled], dtype=int)])
        self._columns = np.concatenate([self.columns, np.array([j for _, j in filled], dtype=int)])
        self.n_entries = self._rows.size
        self.variable = cp.Variable(self.n_entries, name="omega")
        self.unit_entries = self.variable[: self.rows.size]
        index = sp.csr_array((np.arange(self.n_entries) + 1, (self._rows, self._columns)), shape=(self.n, self.n)).toarray()
        index = np.maximum(index, index.T) - 1
        self.constraints = [self._block(index[np.ix_(clique, clique)]) >> 0 for clique in self.tree.cliques]

    def _block(self, index: np.ndarray) -> Any:
        """The matrix of the variable's entries at ``index``."""
        import cvxpy as cp

        picked = sp.csr_array((np.ones(index.size), (np.arange(index.size), index.ravel())), shape=(index.size, self.n_entries))
        return cp.reshape(picked @ self.variable, index.shape, order="C")

    @property
    def entries(self) -> Any:
        """Entries on the support of L: N diagonal ones, then those of the edges (i < j)."""
        return self.unit * self.unit_entries

    @property
    def diagonal(self) -> Any:
        """``Omega_ii``, which are the squared weights at rank one."""
        return self.unit * self.unit_entries[: self.n]

    def times(self, L: np.ndarray) -> Any:
        """``Omega o L`` for an L of this support, (N, N)."""
        import cvxpy as cp

        i, j = self.rows, self.columns
        off = i != j
        k = np.arange(i.size)
        places = np.concatenate([i + self.n * j, (j + self.n * i)[off]])
        values = np.concatenate([L[i, j], L[i, j][off]]) * self.unit
        spread = sp.csr_array((values, (places, np.concatenate([k, k[off]]))), shape=(self.n**2, i.size))
        return cp.reshape(spread @ self.unit_entries, (self.n, self.n), order="F")

    @property
    def value(self) -> np.ndarray | None:
        """The matrix, completed outside the cliques; None before a solve."""
        solution = self.variable.value
        if solution is None:
            return None
        if self.cone == "dense":
            return self.unit * (solution + solution.T) / 2
        matrix = np.zeros((self.n, self.n))
        matrix[self._rows, self._columns] = matrix[self._columns, self._rows] = self.unit * solution
        return self.tree.complete(matrix)

    def assign(self, matrix: np.ndarray) -> None:
        """Make the variable's value that of a matrix."""
        if self.cone == "dense":
            self.variable.save_value(matrix / self.unit)
        else:
            self.variable.save_value(matrix[self._rows, self._columns] / self.unit)


def jacobi(program: Program, rate: float) -> list[MatrixInequality]:
    """Constraints under which every Jacobi round shrinks the error by ``rate`` or more.

    Parameters
    ----------
    program : Program
    rate : float
        Between 0 and 1. An accuracy eps takes about ``log(eps) / log(rate)`` rounds.

    Returns
    -------
    list of matrix inequalities
        For :meth:`Program.add`.

    Examples
    --------
    >>> import numpy as np, nareg
    >>> from nareg.design import programs
    >>> g = nareg.graphs.grid((3, 3))
    >>> program = programs.prony(g, signals=np.linspace(1, 2, 9), lower=0.1)
    >>> design = program.add(*programs.jacobi(program, 0.5)).solve()
    >>> S, d = design.matrix.toarray(), 1 + design.matrix.diagonal()
    >>> bool(np.abs(np.linalg.eigvals((S - np.diag(np.diag(S))) / d[:, None])).max() <= 0.5 + 1e-6)
    True
    """
    import cvxpy as cp

    rate = required_rate(rate)
    diagonal = cp.diag(program.S)
    M = program.S - cp.diag(diagonal)
    D = rate * (np.diag(program.task.c) + cp.diag(diagonal))
    tree = program.matrix.tree
    return [
        MatrixInequality(D + M, tree, f"-{rate:g} D <= M, D = C + diag(S), M = S - diag(S)"),
        MatrixInequality(D - M, tree, f"M <= {rate:g} D"),
    ]


def recursion(program: Program, rate: float) -> list[MatrixInequality]:
    """Constraint under which every round of recursion (19) shrinks the error by ``rate`` or more: ``norm(S) <= rate``.

    Below 1 it is the paper's condition for (20). It costs far more than :func:`jacobi`, for it excludes large weights.

    Parameters
    ----------
    program : Program
    rate : float
        Between 0 and 1.

    Returns
    -------
    list of matrix inequalities
        For :meth:`Program.add`.
    """
    rate = required_rate(rate)
    expression = rate * np.eye(program.task.n_nodes) - program.S
    return [MatrixInequality(expression, program.matrix.tree, f"S <= {rate:g} I")]
