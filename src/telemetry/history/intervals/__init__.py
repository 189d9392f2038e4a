"""What the intervals of a history say: any percentile over any time range. Pure: no files, no sockets."""
