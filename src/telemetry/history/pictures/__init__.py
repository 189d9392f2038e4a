"""Figures for pictures of a run: over time, and of the spread of values."""
