"""Sparsifiers, sketches and preconditioners, and how they are built from solves."""
