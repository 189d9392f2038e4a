"""Judgements over runs: gates, comparisons, sweeps and merges."""
