"""A weight for every edge and node."""
