"""Explore a sensor network in a browser: one HTML page that works without a network.

:func:`nareg.explore` cleans the readings, designs filters for several noise levels and writes the page. The page solves the
denoiser itself, so that noise, gaps and silent stations can be changed there.
"""

from nareg.explorer._explore import explore

__all__ = ["explore"]
