"""Messages for the person at the terminal. Start, end and trouble print one line each; recording prints nothing."""

from __future__ import annotations

import os


def warn(line: str) -> None:
    """Write one line through logging: to stderr unless the program configured something else."""
    try:
        import logging
    except OSError:  # the process has no descriptor left to read a module with
        os.write(2, f"telemetry: {line}\n".encode(errors="replace"))
        return
    logging.getLogger("telemetry.client").warning("telemetry: %s", line)
