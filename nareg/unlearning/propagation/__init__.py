"""Lazy local propagation over a changing graph: exact, with residues, and in factors."""
