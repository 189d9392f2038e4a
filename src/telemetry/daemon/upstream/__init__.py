"""Link of a leaf to the root of its run. Each second becomes batches, which wait on disk until they are in."""
