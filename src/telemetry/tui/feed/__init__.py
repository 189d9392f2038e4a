"""Where news of a run comes from: its aggregator while there is one, its directory afterwards."""
