"""Protocols that methods in space and time are measured by; the entry is benchmarks/spacetime.py."""
