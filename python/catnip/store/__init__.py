"""Tables of runs, in memory and on disk."""
