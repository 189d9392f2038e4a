"""Backends: what hands a run on to trackers and monitors, each writer in a process of its own."""
