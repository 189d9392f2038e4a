"""Which names of values snapshots repeat: all axes share a bound, so that no number of them makes one too large."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, ClassVar

from telemetry import limits
from telemetry.aggregator.producers.budget import Budget


class ShownNames:
    """STEP_NAMES_SHOWN names of STEP_NAME_CHARS_SHOWN characters together, to whoever asks first, for ever."""

    STATE: ClassVar[Mapping[str, Any]] = {"_hides": bool}
    DERIVED: ClassVar[tuple[str, ...]] = ("_warn", "_names", "_chars")

    def __init__(self, warn: Callable[[str], None]) -> None:
        self._warn = warn
        self._names = Budget(limits.STEP_NAMES_SHOWN)
        self._chars = Budget(limits.STEP_NAME_CHARS_SHOWN)
        self._hides = False
        """There was no room for some name, which is told once."""

    def take(self, name: str) -> bool:
        """Whether one more name is shown."""
        if self._names.left and self._chars.take(len(name)):
            return self._names.take(1)
        if not self._hides:
            self._hides = True
            self._warn(
                f"steps: values of more than {limits.STEP_NAMES_SHOWN:,} names, or too long ones: "
                "the rest is not shown"
            )
        return False

    def take_again(self, names: Iterable[str]) -> bool:
        """What an owner had whose state is restored; False if it can't have had it."""
        return all(self._names.take(1) and self._chars.take(len(name)) for name in names)
