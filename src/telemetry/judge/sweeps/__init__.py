"""Runs that differ in a parameter: the commands of a sweep, and the figures of its points. Pure."""
