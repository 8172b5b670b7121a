"""Apply filters: denoise, interpolate, prepare for many calls, and the uncertainty of the result."""

from nareg.filters.apply import METHODS, denoise, interpolate, uncertainty
from nareg.filters.prepared import Denoiser, prepare

__all__ = ["METHODS", "Denoiser", "denoise", "interpolate", "prepare", "uncertainty"]
