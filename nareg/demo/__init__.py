"""The demonstration: every design on a real sensor network, and a report with pictures."""

from nareg.demo.protocol import DemoResult, DemoSettings, Score, run

__all__ = ["DemoResult", "DemoSettings", "Score", "run"]
