"""A weight for every node, or one for all: exact, blind, redesign; noise and reliability of the stations."""
