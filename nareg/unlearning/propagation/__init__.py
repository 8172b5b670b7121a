"""Lazy local propagation over a changing graph: exact, and with residues."""
