"""Tables of a run: rows of its requests and steps as files, and all of it as Parquet in a lake of many runs."""
