"""Analytical models compared with simulated transfers."""
