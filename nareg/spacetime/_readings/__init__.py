"""Readings before there is a model: times, places, transforms, cycles, outliers, and what is hidden to compare models."""
