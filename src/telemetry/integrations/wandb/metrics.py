"""Definitions of W&B metrics, and the summaries that they ask for."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from telemetry.client.steps import number

OPERATIONS: Final = ("min", "max", "mean", "last", "first", "best", "copy", "none")
"""Summaries that `define_metric` takes. `best` and `copy` are those of older versions."""


@dataclass(frozen=True, slots=True)
class Definition:
    """Rules for a metric, or for all metrics that begin alike."""

    step_metric: str = ""
    has_synced_step: bool = False
    """True if a row without the step metric gets its last value."""
    operations: frozenset[str] = frozenset()
    has_summary: bool = True


UNDEFINED: Final = Definition()


class Tally:
    """A summary of the numbers of one name."""

    __slots__ = ("_count", "_figures", "_operations", "_sum")

    def __init__(self, operations: frozenset[str]) -> None:
        self._operations = [one for one in OPERATIONS if one in operations]
        self._figures: dict[str, float] = {}
        self._count = 0
        self._sum = 0.0

    def add(self, value: Any) -> None:
        try:
            plain = number(value)
        except Exception:  # noqa: BLE001 – a value may be anything; only numbers have a summary
            return
        if plain is None:
            return
        figures = self._figures
        self._count += 1
        self._sum += plain
        for operation in self._operations:
            if operation == "min":
                figures["min"] = min(plain, figures.get("min", plain))
            elif operation == "max":
                figures["max"] = max(plain, figures.get("max", plain))
            elif operation == "first":
                figures.setdefault("first", plain)
            elif operation == "mean":
                figures["mean"] = self._sum / self._count
            else:
                figures["last"] = plain

    def figures(self) -> dict[str, float]:
        return dict(self._figures)


def operations_of(summary: str | None, goal: str | None) -> frozenset[str]:
    """Return the operations of a definition. Raise ValueError for an unknown one."""
    words = [word.strip().lower() for word in summary.split(",")] if summary else []
    for word in words:
        if word not in OPERATIONS:
            raise ValueError(f"{word!r} is not a summary: use {', '.join(OPERATIONS)}")
    best = "max" if (goal or "").lower().startswith("max") else "min"
    return frozenset({"best": best, "copy": "last"}.get(word, word) for word in words)
