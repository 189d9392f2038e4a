"""Figures from the intervals of a history: any percentile over any time range. Pure: no files, no sockets."""
