"""Positive semidefinite completion: a large cone as small cones that share entries.

A matrix of which only the entries on a chordal pattern are given has a PSD completion exactly where its blocks over the cliques
of the pattern are PSD (Grone, Johnson, Sa, Wolkowicz 1984). A tree decomposition of the graph gives such cliques.
"""

from __future__ import annotations

from itertools import combinations

import networkx as nx
import numpy as np
from networkx.algorithms.approximation import treewidth_min_fill_in


class CliqueTree:
    """Cliques that cover every node and edge of a graph, from the root of a tree of them to its leaves."""

    def __init__(self, n_nodes: int, rows: np.ndarray, columns: np.ndarray) -> None:
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
