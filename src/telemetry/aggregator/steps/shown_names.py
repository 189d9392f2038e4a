"""Names of values that snapshots repeat.

All axes share one bound, so that many axes can't make a snapshot too large.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, ClassVar

from telemetry import limits
from telemetry.aggregator.budgets import Budget


class ShownNames:
    """Budget of STEP_NAMES_SHOWN names with STEP_NAME_CHARS_SHOWN characters in total. First come, first served."""

    STATE: ClassVar[Mapping[str, Any]] = {"_hides": bool}
    DERIVED: ClassVar[tuple[str, ...]] = ("_warn", "_names", "_chars")

    def __init__(self, warn: Callable[[str], None]) -> None:
        self._warn = warn
        self._names = Budget(limits.STEP_NAMES_SHOWN)
        self._chars = Budget(limits.STEP_NAME_CHARS_SHOWN)
        self._hides = False
        """True if a name did not fit, which causes one warning."""

    def take(self, name: str) -> bool:
        """Take room for a name. Return True if it is shown."""
        if self._names.left and self._chars.take(len(name)):
            return self._names.take(1)
        if not self._hides:
            self._hides = True
            self._warn(
                f"values of more than {limits.STEP_NAMES_SHOWN:,} names of steps, or too long "
                "ones: the rest is not shown"
            )
        return False

    def take_again(self, names: Iterable[str]) -> bool:
        """Take the names of an owner with restored state. Return False if it can't have had them."""
        return all(self._names.take(1) and self._chars.take(len(name)) for name in names)
