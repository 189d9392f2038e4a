"""A producer across a restart of its aggregator: nothing that can be told again is lost."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from telemetry.config import EmitConfig
from telemetry.emit.instruments import Counter
from telemetry.emit.process import Process
from telemetry.testing.aggregator import FakeAggregator

WaitUntil = Callable[..., Any]


@pytest.fixture
def process(monkeypatch: pytest.MonkeyPatch) -> Iterator[Process]:
    monkeypatch.setattr(Process, "_hook_exits", lambda self: None)
    made = Process()
    yield made
    made.finish(0.2)


def counter(process: Process) -> Counter:
    made = process.instrument("counter", "n", "", {})
    assert isinstance(made, Counter)
    return made


def test_what_was_not_acknowledged_is_offered_to_the_next_aggregator(
    process: Process, short_dir: Path, wait_until: WaitUntil
) -> None:
    """With its definitions, and once only."""
    add = counter(process).add
    first = FakeAggregator(short_dir, epoch="e1")
    flusher = process.attach(first.endpoint, "job", EmitConfig(flush_ms=5))
    flusher.wait_for_welcome(10.0)
    for value in range(10):
        add(value)
        wait_until(lambda value=value: first.values("n") == list(range(value + 1)))
    talk = flusher._conversation
    assert talk is not None
    wait_until(lambda: len(talk.ring) == 0, what="the acknowledgement")
    first.acknowledging = False
    for value in range(10, 20):
        add(value)
        wait_until(lambda value=value: len(first.values("n")) == value + 1)
    first.stop()
    for value in range(20, 30):
        add(value)
    with FakeAggregator(short_dir, epoch="e2") as second:
        wait_until(lambda: 29.0 in second.values("n"), timeout_s=20.0, what="the new aggregator's events")
        add(30)
        # batches before the first kept one can't be told again: the end would wait for them for ever
        wait_until(lambda: sorted(second.values("n")) == list(range(10, 31)), timeout_s=20.0)
        [heard] = second.heard.values()
        assert heard.hello is not None
        assert heard.tracker.gaps == [(0, heard.tracker.gaps[0][1])]


def test_a_resend_request_is_answered_over_sockets(
    process: Process, short_dir: Path, wait_until: WaitUntil
) -> None:
    """An aggregator that lost what it had received, as after a crash, gets all of it again."""
    add = counter(process).add
    with FakeAggregator(short_dir) as aggregator:
        aggregator.acknowledging = False
        process.attach(aggregator.endpoint, "job", EmitConfig(flush_ms=2)).wait_for_welcome(10.0)
        for value in range(20):
            add(value)
            wait_until(lambda value=value: len(aggregator.values("n")) == value + 1)
        [(producer, heard)] = aggregator.heard.items()
        aggregator.heard[producer] = type(heard)()
        add(20)
        wait_until(lambda: sorted(aggregator.values("n")) == list(range(21)), timeout_s=20.0)
        ending = process.finish(10.0)
        assert ending.account is not None
        assert ending.account.missing == 0
