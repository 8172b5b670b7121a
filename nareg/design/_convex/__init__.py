"""Convex programs over ``S = Omega o L``: in cvxpy, by a low-rank factor with a dual bound, and the way back to weights."""
