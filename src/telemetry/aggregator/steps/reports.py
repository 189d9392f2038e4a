"""Reports of steps that wait for missing batches, on an axis whose steps close by reports.

A producer's report of a step may overtake the batches with the values of this step. So it counts once these batches
arrive or are given up, at most a grace time later.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, ClassVar

from msgspec import Struct

from telemetry import limits
from telemetry.wire.events import Natural, ProducerId, Step


class WaitingReport(Struct, array_like=True):
    """A report of a step that counts once all batches of its producer below `since` have arrived."""

    since: Natural
    made_ns: Natural
    """Time of the report on the clock of steps."""


class WaitingReports:
    """Waiting reports of all producers on one axis, at most STEPS_OPEN."""

    STATE: ClassVar[Mapping[str, Any]] = {"_waiting": dict[ProducerId, dict[Step, WaitingReport]]}
    DERIVED: ClassVar[tuple[str, ...]] = ("_count",)

    def __init__(self) -> None:
        self._waiting: dict[str, dict[int, WaitingReport]] = {}
        self._count = 0

    def restored(self) -> None:
        self._count = sum(len(reports) for reports in self._waiting.values())
        if self._count > limits.STEPS_OPEN or not all(self._waiting.values()):
            raise ValueError("invalid reports of steps")

    def __len__(self) -> int:
        return self._count

    @property
    def producers(self) -> list[str]:
        return list(self._waiting)

    def add(self, producer: str, step: int, since: int, clock_ns: int) -> bool:
        """Add a report. Return False if there is no room for it.

        A repeated report of a step waits for the batches before the last one.
        """
        known = self._waiting.get(producer, {}).get(step)
        if known is not None:
            known.since = max(known.since, since)
            return True
        if self._count >= limits.STEPS_OPEN:
            return False
        self._waiting.setdefault(producer, {})[step] = WaitingReport(since, clock_ns)
        self._count += 1
        return True

    def take_settled(self, producer: str, contiguous: int) -> list[int]:
        """Remove and return the steps whose reports count, given that all batches below `contiguous` arrived."""
        return self._take(producer, lambda report: report.since <= contiguous)

    def take_overdue(self, producer: str, until_ns: int) -> list[int]:
        """Remove and return the steps that were reported at or before `until_ns` on the clock of steps."""
        return self._take(producer, lambda report: report.made_ns <= until_ns)

    def take_all(self, producer: str) -> list[int]:
        """Remove and return all steps that wait for batches of a producer."""
        return self._take(producer, lambda _: True)

    def _take(self, producer: str, counts: Callable[[WaitingReport], bool]) -> list[int]:
        reports = self._waiting.get(producer)
        if reports is None:
            return []
        taken = [step for step, report in reports.items() if counts(report)]
        for step in taken:
            del reports[step]
        if not reports:
            del self._waiting[producer]
        self._count -= len(taken)
        return taken
