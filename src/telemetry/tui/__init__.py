"""Reserved for the terminal interface."""
