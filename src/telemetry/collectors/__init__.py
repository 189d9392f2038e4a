"""Collectors: figures of the surroundings of a run, such as host and GPU, recorded by a process of their own."""
