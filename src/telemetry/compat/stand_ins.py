"""Folders that stand in for libraries: a program that imports the library gets the interface of this package."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Final

from telemetry.common.formatting import did_you_mean, printable
from telemetry.errors import UsageError

STAND_INS: Final[Mapping[str, str]] = {"wandb": str(Path(__file__).parent / "stand_in")}
"""Name of each library, and the folder that `telemetry run --stand-in` puts in PYTHONPATH."""


def check_stand_ins(names: Iterable[str]) -> list[str]:
    """Return the names without repetition. Raises UsageError for an unknown name."""
    checked = list(dict.fromkeys(names))
    for name in checked:
        if name not in STAND_INS:
            hint = did_you_mean(name, STAND_INS) or f"one of {', '.join(STAND_INS)}"
            raise UsageError(f"there is no stand-in for {printable(name)!r}", hint=hint)
    return checked
