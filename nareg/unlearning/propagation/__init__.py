"""Lazy local propagation over a graph whose edges and nodes come and go: exact, with residuals, and in factors."""
