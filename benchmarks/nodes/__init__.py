"""Figures of runs on several nodes, and faults at random moments."""
