"""Yardsticks for readings that strangers bring; ``benchmarks/strangers.py`` runs them."""
