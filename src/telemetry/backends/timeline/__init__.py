"""The `timeline` backend: spans as trace files, one for each step and one for the run."""
