"""Shared parts of the published and the min-max designs: semidefinite programs, rounding, scale, the fit to a filter."""
