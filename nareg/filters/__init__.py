"""Apply filters: denoise, interpolate, prepare for many calls, and the uncertainty of the result."""

from nareg._solvers.backends import Disk, Petsc, Torch
from nareg.filters.apply import METHODS, denoise, interpolate, uncertainty
from nareg.filters.prepared import Denoiser, prepare

__all__ = ["METHODS", "Denoiser", "Disk", "Petsc", "Torch", "denoise", "interpolate", "prepare", "uncertainty"]
