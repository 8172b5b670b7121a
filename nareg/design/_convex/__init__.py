"""Convex programs by low-rank factors, their bounds, worst cases of sets of signals, and the fit to a filter."""
