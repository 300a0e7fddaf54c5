"""Reproduced papers: a folder for each, with its claims as data, and one runner that judges them."""
