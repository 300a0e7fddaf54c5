"""Figures as SVG text, one module for each kind of figure; each loads Matplotlib."""
