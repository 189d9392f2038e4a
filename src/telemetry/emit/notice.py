"""Lines for the person at the terminal. Recording never speaks; starting, ending and trouble say one line each."""

from __future__ import annotations


def warn(line: str) -> None:
    """One line through logging: to stderr unless the program configured something else."""
    import logging

    logging.getLogger("telemetry.emit").warning("telemetry: %s", line)
