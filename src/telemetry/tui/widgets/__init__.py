"""Draw Grids, Plots and Lines. No arithmetic on measurements here, and nothing about runs."""
