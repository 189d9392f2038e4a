"""Widgets that draw Grids, Plots and Lines. They do not compute measurements and know nothing about runs."""
