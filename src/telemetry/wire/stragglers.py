"""Names under which work and wait of a step are logged, and where a run says that it uses others."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

WORK: Final = "straggler/work_s"
WAIT: Final = "straggler/wait_s"
_PARAM: Final = "stragglers."
"""Prefix of the parameters that name a pair of values that the program logs itself."""
_UNITS: Final = {"_ms": 1e-3, "_us": 1e-6, "_ns": 1e-9}
"""Ending of a name → its unit in seconds. Other names are in seconds."""


def params(axis: str, work: str, wait: str) -> dict[str, str]:
    """Return the parameters that declare a pair of names for an axis."""
    return {f"{_PARAM}{axis}.work": work, f"{_PARAM}{axis}.wait": wait}


def pair(axis: str, params: Mapping[str, object]) -> tuple[str, str]:
    """Return the names of work and wait on an axis, from the parameters of the run."""
    work, wait = params.get(f"{_PARAM}{axis}.work"), params.get(f"{_PARAM}{axis}.wait")
    return (work, wait) if isinstance(work, str) and isinstance(wait, str) else (WORK, WAIT)


def seconds(name: str) -> float:
    """Return the unit of a value in seconds, by the ending of its name."""
    return next((unit for ending, unit in _UNITS.items() if name.endswith(ending)), 1.0)
