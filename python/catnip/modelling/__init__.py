"""Analytical models beside simulated transfers."""
