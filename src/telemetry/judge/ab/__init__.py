"""Two commands compared by pairs of runs in random order, judged after each pair. Pure: no files, no processes."""
