"""A lake: the tables of many runs as Parquet files, one file for each table and run."""
