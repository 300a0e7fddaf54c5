"""Statistics of tables: means, intervals, summaries, claims."""
