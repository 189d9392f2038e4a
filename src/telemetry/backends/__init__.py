"""Backends, which send a run to trackers and monitors. Each writer is a process of its own."""
