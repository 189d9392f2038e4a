"""Reports of steps that wait for missing batches, on an axis whose steps close by reports.

A producer's report of a step may overtake the batches with the values of this step. So it counts once these batches
arrive or are given up, at most a grace time later. It may also overtake the declaration of the axis.
"""

from __future__ import annotations

from collections.abc import KeysView, Mapping
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
    def producers(self) -> KeysView[str]:
        return self._waiting.keys()

    def add(self, producer: str, step: int, since: int, clock_ns: int) -> bool:
        """Add a report. Return False if there is no room for it.

        A repeated report of a step waits for the batches before the last one.
        """
        report = self._waiting.get(producer, {}).get(step)
        if report is not None:
            report.since = max(report.since, since)
            return True
        if self._count >= limits.STEPS_OPEN:
            return False
        self._waiting.setdefault(producer, {})[step] = WaitingReport(since, clock_ns)
        self._count += 1
        return True

    def take_settled(self, producer: str, contiguous: int) -> list[int]:
        """Remove and return the steps whose reports count, given that all batches below `contiguous` arrived."""
        reports = self._waiting.get(producer, {})
        return self._take(producer, [step for step, report in reports.items() if report.since <= contiguous])

    def take_before(self, producer: str, seq: int, step: int | None) -> list[int]:
        """Remove and return what a producer reported before its batch `seq`: a step, or all if `step` is None."""
        reports = self._waiting.get(producer, {})
        steps = [*reports] if step is None else [step] if step in reports else []
        return self._take(producer, [each for each in steps if reports[each].since <= seq])

    def take_overdue(self, until_ns: int) -> list[int]:
        """Remove and return the steps that were reported at or before `until_ns` on the clock of steps."""
        taken: list[int] = []
        for producer, reports in [*self._waiting.items()]:
            taken += self._take(producer, [step for step, report in reports.items() if report.made_ns <= until_ns])
        return taken

    def take_all(self, producer: str) -> list[int]:
        """Remove and return all steps that wait for batches of a producer."""
        return self._take(producer, [*self._waiting.get(producer, {})])

    def clear(self) -> None:
        self._waiting.clear()
        self._count = 0

    def _take(self, producer: str, steps: list[int]) -> list[int]:
        if steps:
            reports = self._waiting[producer]
            for step in steps:
                del reports[step]
            if not reports:
                del self._waiting[producer]
            self._count -= len(steps)
        return steps
