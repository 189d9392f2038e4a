"""A bound that several owners share."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar


class Budget:
    """A total number of units that owners take. An owner with restored state takes its earlier units again."""

    __slots__ = ("left",)

    STATE: ClassVar[Mapping[str, Any]] = {}
    DERIVED: ClassVar[tuple[str, ...]] = ("left",)

    def __init__(self, units: int) -> None:
        self.left = units

    def take(self, units: int) -> bool:
        """Take all of the units and return True, or take none and return False."""
        if units > self.left:
            return False
        self.left -= units
        return True

    def give_back(self, units: int) -> None:
        self.left += units
