"""The demonstration: every design on a real sensor network, and a report with pictures."""

from nareg.demo.protocol import Outcome, Score, Settings, run

__all__ = ["Outcome", "Score", "Settings", "run"]
