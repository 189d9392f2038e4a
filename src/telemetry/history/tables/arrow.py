"""The library that writes Parquet, an extra of this package."""

from __future__ import annotations

from typing import Any

from telemetry.common.distribution import install_hint
from telemetry.errors import TelemetryError


def arrow(otherwise: str = "") -> Any:
    """Import `pyarrow` with its Parquet module. Raises TelemetryError if that fails.

    `otherwise` is what else the user can do, for the hint.
    """
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError as error:
        absent = isinstance(error, ModuleNotFoundError)
        why = "the package `pyarrow` is not installed" if absent else f"can't import `pyarrow`: {error}"
        raise TelemetryError(f"can't write Parquet: {why}", hint=f"{install_hint('parquet')}{otherwise}") from error
    return pyarrow
