"""Results tables of runs, in memory and as Parquet files."""
