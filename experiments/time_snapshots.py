"""Whole snapshots missing of PM2.5 and sea-surface temperature."""

from __future__ import annotations

from experiments import _graphtrss as g

FIGURE = g.experiment("time-snapshots", "Whole snapshots missing", g.SNAPSHOTS)
