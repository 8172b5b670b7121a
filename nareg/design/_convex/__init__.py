"""The semidefinite programs and what the published and the min-max designs share: rounding, scale, the fit to a filter."""
