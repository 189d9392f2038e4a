"""The distribution that installs this package: its name on PyPI, its version, and how to get its extras.

`telemetry` on PyPI is another project. The import name and the command of this package are still `telemetry`.
"""

from __future__ import annotations

from typing import Final

NAME: Final = "telemetryd"


def version() -> str:
    """Return the installed version, or "0.0.0" for a source tree that is not installed."""
    from importlib.metadata import PackageNotFoundError, version  # slow to import

    try:
        return version(NAME)
    except PackageNotFoundError:
        return "0.0.0"


def install_hint(extra: str) -> str:
    """Return the command that installs an extra."""
    return f"pip install '{NAME}[{extra}]'"
