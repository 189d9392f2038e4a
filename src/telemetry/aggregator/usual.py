"""What is compiled, where a compiler was there at installation. Whoever uses it can do without."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final


def _compiled() -> Callable[..., float] | None:
    try:
        from telemetry.aggregator import _usual
    except ImportError:
        return None
    return _usual.record


record_usual: Final = _compiled()
"""Rows of series that need nothing special; see `_usual.pyi`."""
