"""Clean a sensor network in one call: from noisy readings with gaps to an estimate, its uncertainty and flags.

:func:`nareg.clean` reads both tables, fits a space-time model, checks the readings and compares the result with simple
methods on readings that it hid from all of them.
"""

from __future__ import annotations

from nareg.cleaning._clean import clean
from nareg.cleaning._results import Cleaned

__all__ = ["Cleaned", "clean"]
