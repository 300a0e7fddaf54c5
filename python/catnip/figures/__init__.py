"""Figures as SVG text, one module per kind; importing one loads the plotting library."""
