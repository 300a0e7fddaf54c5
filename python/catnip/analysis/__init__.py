"""Numbers from tables: means, intervals, summaries, claims."""
