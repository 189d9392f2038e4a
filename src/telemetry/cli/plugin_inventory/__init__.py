"""The plug-ins of this environment: which packages offer them, and whether they can be loaded."""
