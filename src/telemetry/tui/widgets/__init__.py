"""Widgets that draw Grids, Plots and Lines.

Arithmetic on measurements, and all that concerns runs, is elsewhere.
"""
