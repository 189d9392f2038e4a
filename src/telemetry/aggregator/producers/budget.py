"""A bound that several owners share."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar


class Budget:
    """So many units in all, whoever takes them. An owner whose state is restored takes again what it had."""

    __slots__ = ("left",)

    STATE: ClassVar[Mapping[str, Any]] = {}
    DERIVED: ClassVar[tuple[str, ...]] = ("left",)

    def __init__(self, units: int) -> None:
        self.left = units

    def take(self, units: int) -> bool:
        """All of the units, or none of them and False."""
        if units > self.left:
            return False
        self.left -= units
        return True

    def give_back(self, units: int) -> None:
        self.left += units
