"""Requests judged after the run, in reports with pictures and of runs that go on."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from telemetry.errors import UsageError
from telemetry.history import goodput
from telemetry.history.goodput import with_goodput
from telemetry.history.request_log import LoggedRequest, RequestLogFacts
from telemetry.wire.pictures import Pictures, RequestsOverTime
from telemetry.wire.report import Report, TimeRange
from telemetry.wire.request_log import RequestEntry
from telemetry.wire.snapshot import CounterStat, MetricsSnapshot

S = 10**9
STARTED = 1_700_000_000 * S


class Log:
    """A log of requests that take a second each."""

    damage = ""

    def __init__(self, directory: Any) -> None: ...

    def __iter__(self) -> Iterator[LoggedRequest]:
        for number in range(4):
            one = RequestEntry(number=number, issued_ns=number * S, ended_ns=number * S + S // 2 * (1 + number % 2))
            yield LoggedRequest("llm", {}, "p", one, 0, STARTED)


@pytest.fixture(autouse=True)
def log(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every directory has this log."""
    monkeypatch.setattr(goodput, "RequestLog", Log)
    monkeypatch.setattr(goodput, "facts", lambda directory: RequestLogFacts(4, 0, 100))


def report(**more: Any) -> Report:
    counters = [CounterStat(name=f"llm.{word}", unit="requests", value=4) for word in ("issued", "completed")]
    snapshot = MetricsSnapshot(run_id="r", name="n", state="COMPLETE", started_ns=STARTED, counters=counters)
    return Report(**{"snapshot": snapshot, "source": "file", **more})


def test_pictures_show_the_good_requests_of_each_step() -> None:
    """Good requests count by the time of their end, and a step without data stays without."""
    over_time = RequestsOverTime(kind="llm", completed_per_s=[1.0, 1.0, None], good_per_s=[])
    pictures = Pictures(edges_s=[0.0, 1.0, 3.0, 5.0], requests=[over_time])
    found = with_goodput(report(pictures=pictures), None, {"": {"e2el": S // 2}})  # type: ignore[arg-type]
    assert found.pictures is not None
    assert found.pictures.requests[0].good_per_s == [1.0, 0.5, None]
    assert {one.name: one.value for one in found.snapshot.counters}["llm.good"] == 2
    assert found.snapshot.params["slo.llm"] == "e2el:500ms"


def test_a_part_of_a_run_and_a_live_run_can_not_be_judged() -> None:
    """The numbers of a part or a live run and the log are not about the same requests."""
    part = TimeRange(start_s=0.0, end_s=1.0, chosen="given")
    live = MetricsSnapshot(run_id="r", name="n", state="LIVE")
    for one, said in ((report(time_range=part), "whole run"), (report(snapshot=live), "still going")):
        with pytest.raises(UsageError, match=said):
            with_goodput(one, None, {"": {"e2el": S}})  # type: ignore[arg-type]
