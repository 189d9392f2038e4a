"""Collector `environment`: machine, environment variables, Python and its packages, once, as parameters."""
