"""The windows of `in every`."""

from __future__ import annotations

from msgspec.structs import replace
from tests.unit.judge.gates.fakes import Fake

from telemetry.judge.gates.check import Windows
from telemetry.judge.gates.explain import Verdict
from telemetry.judge.gates.value import exactly
from telemetry.wire.snapshot import ProducerStat


def window(number: int, step_s: float = 10.0) -> Fake:
    return Fake(whole=False, start_s=number * step_s, end_s=(number + 1) * step_s)


def verdict(value: float, *, failed: bool = False) -> Verdict:
    return Verdict("fail" if failed else "pass", f"{value}", exactly(value), exactly(5.0))


def test_a_failed_window_outweighs_those_that_can_t_tell() -> None:
    """A failed window outweighs inconclusive ones, and the result gives the worst failed window."""
    windows = Windows("<", 10.0, Fake(end_s=40.0))
    windows.add(window(0), Verdict("inconclusive", "few"))
    windows.add(window(1), verdict(6, failed=True))
    windows.add(window(2), verdict(9, failed=True))
    windows.add(window(3), verdict(1))
    result = windows.result("gate")
    assert (result.outcome, result.value, result.start_s, result.end_s) == ("fail", 9.0, 20.0, 30.0)
    assert (result.windows, result.windows_failed) == (4, 2)


def test_what_the_history_lacks_in_between_can_t_pass() -> None:
    """A gate can't pass with a window missing in between.

    The last window of a run may be short, so none is missing at the end.
    """
    windows = Windows("<", 10.0, Fake(end_s=45.0))
    windows.add(window(0), verdict(1))
    windows.add(window(2), verdict(1))
    assert windows.result("gate").reason == "the history lacks 1 of 3 windows of 10 s"
    windows = Windows("<", 10.0, Fake(start_s=12.0, end_s=45.0))
    windows.add(window(2), verdict(1))
    assert windows.result("gate").outcome == "pass"


def test_what_the_history_lacks_at_the_end_can_t_pass() -> None:
    """A gate can't pass with a window missing at the end. The history should go as far as a producer was seen."""
    heard = Fake(end_s=90.0)
    producer = ProducerStat(producer="p", last_seen_ns=40_600_000_000)
    heard.snapshot = replace(heard.snapshot, started_ns=1, producers=[producer])
    windows = Windows("<", 10.0, heard)
    for number in range(3):
        windows.add(window(number), verdict(1))
    assert windows.result("gate").reason == "the history lacks 1 of 4 windows of 10 s"
    windows.add(window(3), verdict(1))
    assert windows.result("gate").outcome == "pass"


def test_no_window_at_all() -> None:
    """Says how long there was."""
    result = Windows("<", 60.0, Fake(end_s=45.0)).result("gate")
    assert (result.outcome, result.reason) == (
        "inconclusive",
        "the history has no complete window of 60 s in 45.0 s",
    )
