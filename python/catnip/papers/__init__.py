"""Reproduced papers: a folder for each, with its claims as data; one runner evaluates all claims."""
