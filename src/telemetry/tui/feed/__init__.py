"""Sources of news about a run: its aggregator while it lives, its directory afterwards."""
