"""What the intervals of a history say: any percentile over any stretch of time. Pure: no files, no sockets."""
