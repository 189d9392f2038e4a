"""Slow ranks from the records of a run, as they come."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

import pytest
from msgspec.structs import replace

from telemetry.errors import RunDirectoryError
from telemetry.store.records import FILE_NAME, RecordLog
from telemetry.testing.slow_ranks import SimulatedRanks
from telemetry.tui.feed import steps_thread as module
from telemetry.tui.feed.news import CurvesOf, StragglersOf, ViewerNote
from telemetry.tui.feed.steps_thread import DiskRecords, StepsThread
from telemetry.wire.events import Axis, ClosedStep, StreamRecord
from telemetry.wire.snapshot import AxisStat, MetricsSnapshot
from telemetry.wire.stragglers import WAIT, WORK
from telemetry.wire.version import PROTOCOL

WAIT_S = 30.0
STEPS = list(SimulatedRanks(ranks=16, slow={3: 1.4}).steps(200))
LIVE = MetricsSnapshot(
    run_id="r", name="n", state="LIVE", axes=[AxisStat(name="step", values={WORK: 1.0, WAIT: 1.0})]
)
Until = Callable[..., Any]


class Log:
    """The record log of a run, to which steps are added."""

    def __init__(self, run: Any) -> None:
        self._log = RecordLog(run.records)
        self._count = 0

    def add(self, count: int) -> None:
        self._append(step.closed() for step in STEPS[self._count : self._count + count])
        self._count += count

    def declare(self, rank: int, groups: dict[str, int | str]) -> None:
        self._append([Axis("step", groups=groups, rank=rank)])

    def _append(self, records: Iterable[Axis | ClosedStep]) -> None:
        numbered = enumerate(records, self._log.next_seq)
        self._log.append([StreamRecord(PROTOCOL, "r", seq, "", 10**18, record) for seq, record in numbered])


@pytest.fixture
def log(run: Any) -> Log:
    return Log(run)


@pytest.fixture
def thread(run: Any, told: Any, monkeypatch: pytest.MonkeyPatch) -> Iterator[StepsThread]:
    """Yield a thread that looks often at the records of `run`."""
    monkeypatch.setattr(module, "_PERIOD_S", 0.02)
    monkeypatch.setattr(module, "_RETRY_S", 0.03)
    made = StepsThread(told, lambda _: DiskRecords(run))
    made.start()
    yield made
    made.close()
    made.close()
    assert not made._thread.is_alive()


def test_the_verdict_is_told_when_windows_have_ended(
    thread: StepsThread, log: Log, told: Any, wait_until: Until
) -> None:
    """The first verdict is of all steps so far, and the next one comes with more steps and groups."""
    log.declare(3, {"dp": 7})
    log.add(60)
    thread.saw(LIVE)
    wait_until(lambda: told.of(StragglersOf), WAIT_S)
    [first] = told.of(StragglersOf)[0].found
    assert (first.steps, [slow.name for slow in first.slow]) == (60, ["rank 3 (dp 7)"])
    log.declare(3, {"pp": 1})
    log.add(60)

    def is_told() -> bool:
        thread.saw(LIVE)
        return bool(told.of(StragglersOf)[-1].found[0].steps == 120)

    wait_until(is_told, WAIT_S)
    assert [slow.groups for slow in told.of(StragglersOf)[-1].found[0].slow] == [{"dp": 7, "pp": 1}]


def test_a_run_without_steps_is_not_read(run: Any, told: Any) -> None:
    """The records of a run without steps are not read, as its log may be large."""
    thread = StepsThread(told, lambda _: pytest.fail("it is opened"))
    thread.start()
    thread.saw(replace(LIVE, axes=[]))
    thread.close()
    assert told.of(ViewerNote) == []


def test_curves_are_those_of_the_whole_run_and_grow(
    thread: StepsThread, log: Log, told: Any, wait_until: Until
) -> None:
    """Steps of before it was opened are in them."""
    log.add(60)
    thread.saw(LIVE)
    wait_until(lambda: told.of(CurvesOf), WAIT_S)
    assert {curve.name for curve in told.of(CurvesOf)[0].curves} >= {WORK, WAIT}
    log.add(40)

    def is_told() -> bool:
        thread.saw(LIVE)
        return {curve.count for curve in told.of(CurvesOf)[-1].curves} == {100}

    wait_until(is_told, WAIT_S)
    assert {(curve.steps[0], curve.steps[-1]) for curve in told.of(CurvesOf)[-1].curves} == {(0, 99)}


def test_curves_without_news_are_not_told_again(
    thread: StepsThread, log: Log, told: Any, wait_until: Until
) -> None:
    """A screen that stands still costs nothing."""
    log.add(60)
    thread.saw(LIVE)
    wait_until(lambda: told.of(CurvesOf), WAIT_S)
    asked = thread._records
    assert asked is not None
    looks: list[int] = []
    read = asked.read

    def counted() -> Iterator[StreamRecord]:
        looks.append(1)
        return read()

    asked.read = counted  # type: ignore[method-assign]

    def has_looked() -> bool:
        thread.saw(LIVE)
        return len(looks) > 3

    wait_until(has_looked, WAIT_S)
    assert len(told.of(CurvesOf)) == 1


def test_a_run_whose_records_can_not_be_read_has_no_curves(
    told: Any, wait_until: Until, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The screen shows the tables then."""

    def opened(_: MetricsSnapshot) -> DiskRecords:
        raise RunDirectoryError("away")

    thread = StepsThread(told, opened)
    thread.start()
    thread.saw(LIVE)
    wait_until(lambda: told.of(CurvesOf), WAIT_S)
    thread.close()
    assert told.of(CurvesOf) == [CurvesOf(())]


def test_a_result_is_read_once(thread: StepsThread, log: Log, told: Any, wait_until: Until) -> None:
    """A result is read once, and then the thread has ended."""
    log.add(60)
    thread.saw(replace(LIVE, state="COMPLETE"))
    wait_until(lambda: not thread._thread.is_alive(), WAIT_S)
    assert len(told.of(StragglersOf)) == 1


def test_a_damaged_record_costs_itself_only(
    run: Any, thread: StepsThread, log: Log, told: Any, wait_until: Until
) -> None:
    """The others are read."""
    log.add(80)
    path = run.records / FILE_NAME
    lines = path.read_bytes().splitlines(keepends=True)
    lines[11] = lines[11].replace(b'"step":10,', b'"step":99,')
    path.write_bytes(b"".join(lines))
    thread.saw(replace(LIVE, state="COMPLETE"))
    wait_until(lambda: told.of(StragglersOf), WAIT_S)
    assert told.of(StragglersOf)[0].found[0].steps == 79


def test_records_that_can_not_be_read_are_tried_again(
    run: Any, log: Log, told: Any, wait_until: Until, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The aggregator may be away for a while."""
    monkeypatch.setattr(module, "_RETRY_S", 0.02)
    failures = iter([RunDirectoryError("away"), RunDirectoryError("away")])

    def opened(_: MetricsSnapshot) -> DiskRecords:
        for error in failures:
            raise error
        return DiskRecords(run)

    log.add(60)
    thread = StepsThread(told, opened)
    thread.start()

    def is_told() -> bool:
        thread.saw(LIVE)
        return bool(told.of(StragglersOf))

    wait_until(is_told, WAIT_S)
    thread.close()


def test_an_error_is_told(told: Any, wait_until: Until) -> None:
    """A verdict that no longer changes would look like the truth."""

    def fails(_: MetricsSnapshot) -> DiskRecords:
        raise ValueError("surprise")

    thread = StepsThread(told, fails)
    thread.start()
    thread.saw(LIVE)
    wait_until(lambda: told.of(ViewerNote), WAIT_S)
    assert "reading the steps stopped" in told.of(ViewerNote)[0].words
    thread.close()
