"""Apply filters: denoise, interpolate, and the uncertainty of the result."""

from nareg.filters.apply import METHODS, denoise, interpolate, uncertainty

__all__ = ["METHODS", "denoise", "interpolate", "uncertainty"]
