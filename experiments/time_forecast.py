"""PM2.5 and sea-surface temperature one to ten times ahead."""

from __future__ import annotations

from experiments import _graphtrss as g

FIGURE = g.experiment("time-forecast", "Forecasts of one to ten times", g.FORECAST)
