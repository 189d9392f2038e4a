"""Snapshots as they come, why there are none, and what is left when the aggregator is gone."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from telemetry.transport.endpoints import plan
from telemetry.tui.feed.live import SnapshotThread, patience_s
from telemetry.tui.feed.news import NewSnapshot, Trouble, ViewerNote
from telemetry.wire.control import GetStatus, Hello, Welcome
from telemetry.wire.snapshot import BackendStat, BackendState, MetricsSnapshot

pytestmark = pytest.mark.slow

WAIT_S = 30.0
Until = Callable[..., Any]
MakeStation = Callable[..., Any]
SnapshotOf = Callable[..., MetricsSnapshot]


class Listening:
    """A listener, and what the test says of the disk."""

    def __init__(self, endpoint: str, told: Any) -> None:
        self.seen: list[MetricsSnapshot] = []
        self.left: MetricsSnapshot | None = None
        self.remedy = ""
        self.listener = SnapshotThread(endpoint, told, self.seen.append, lambda: self.left, lambda: self.remedy)

    @property
    def alive(self) -> bool:
        return self.listener._thread.is_alive()


@pytest.fixture
def listen(short_dir: Path, told: Any) -> Iterator[Callable[[], Listening]]:
    """`listen()` to the address where stations are."""
    made: list[Listening] = []

    def start() -> Listening:
        made.append(Listening(plan(f"ipc://{short_dir}/c", "r").control, told))
        made[-1].listener.start()
        return made[-1]

    yield start
    for listening in made:
        listening.listener.close()
        listening.listener.close()
        assert not listening.alive


def words(told: Any) -> list[str]:
    return [trouble.words for trouble in told.of(Trouble)]


def test_snapshots_are_told_and_conflated(
    listen: Callable[[], Listening],
    make_station: MakeStation,
    snapshot_of: SnapshotOf,
    told: Any,
    wait_until: Until,
) -> None:
    """Snapshots pass live, at most five a second, with the time they came. The newest one comes soon."""
    station = make_station(snapshot_of())
    before_ns, seen = time.monotonic_ns(), listen().seen
    wait_until(lambda: len(told.of(NewSnapshot)) >= 3, WAIT_S)
    fresh = told.of(NewSnapshot)
    assert len(fresh) <= 1 + (fresh[-1].at_ns - before_ns) / 0.2e9
    assert [one.snapshot for one in fresh] == seen[: len(fresh)]
    station.snapshot = snapshot_of(seq=1_000)
    wait_until(lambda: told.of(NewSnapshot)[-1].snapshot.seq == 1_000, WAIT_S)
    assert all(one.live for one in told.of(NewSnapshot))
    assert not told.of(Trouble)


def test_who_publishes_rarely_is_seen_at_once(
    listen: Callable[[], Listening],
    make_station: MakeStation,
    snapshot_of: SnapshotOf,
    told: Any,
    wait_until: Until,
) -> None:
    """An aggregator that publishes rarely is asked, so that a viewer need not wait for the next."""
    station = make_station(snapshot_of())
    station.refresh_hz, station.publishing = 0.01, False
    listen()
    wait_until(lambda: told.of(NewSnapshot), WAIT_S)
    assert [type(request) for request in station.asked] == [Hello, GetStatus]


@pytest.mark.parametrize(("refresh_hz", "seconds"), [(0.0, 2.0), (10.0, 2.0), (0.5, 6.0)])
def test_silence_is_what_is_longer_than_the_aggregators_own_pauses(refresh_hz: float, seconds: float) -> None:
    """Several of them, and never less than two seconds."""
    welcome = Welcome(
        run_id="r", name="", epoch="", state="LIVE", events="", snapshots="", records="", refresh_hz=refresh_hz
    )
    assert patience_s(welcome) == seconds


def test_an_aggregator_that_comes_back_is_heard_again(
    listen: Callable[[], Listening],
    make_station: MakeStation,
    snapshot_of: SnapshotOf,
    told: Any,
    wait_until: Until,
) -> None:
    """An aggregator that comes back on the address with another epoch is heard again.

    Each trouble is noted once, and so is its end.
    """
    station = make_station(snapshot_of())
    listen()
    wait_until(lambda: told.of(NewSnapshot), WAIT_S)
    station.stop()
    wait_until(lambda: told.of(Trouble), WAIT_S)
    make_station(snapshot_of(epoch="e2"))
    wait_until(lambda: told.of(NewSnapshot)[-1].snapshot.epoch == "e2", WAIT_S)
    wait_until(lambda: words(told)[-1] == "", WAIT_S)
    assert all("trying again" in text for text in words(told)[:-1])
    assert len(set(words(told))) == len(words(told))


def test_an_aggregator_that_hangs_is_trouble(
    listen: Callable[[], Listening],
    make_station: MakeStation,
    snapshot_of: SnapshotOf,
    told: Any,
    wait_until: Until,
) -> None:
    """An aggregator that hangs is trouble: its address is there, but nobody answers."""
    station = make_station(snapshot_of())
    listen()
    wait_until(lambda: told.of(NewSnapshot), WAIT_S)
    station.publishing = station.answering = False
    wait_until(lambda: any("no aggregator answered at" in text for text in words(told)), WAIT_S)
    station.publishing = station.answering = True
    wait_until(lambda: words(told)[-1] == "", WAIT_S)


def test_it_may_be_there_before_the_aggregator(
    listen: Callable[[], Listening],
    make_station: MakeStation,
    snapshot_of: SnapshotOf,
    told: Any,
    wait_until: Until,
) -> None:
    """A thread that is there before the aggregator notes that nobody listens, and tries again."""
    listen()
    wait_until(lambda: told.of(Trouble), WAIT_S)
    assert words(told)[0].startswith("no aggregator listens at ipc://")
    make_station(snapshot_of())
    wait_until(lambda: told.of(NewSnapshot), WAIT_S)


def test_a_run_that_is_over_may_go(
    listen: Callable[[], Listening],
    make_station: MakeStation,
    snapshot_of: SnapshotOf,
    told: Any,
    wait_until: Until,
) -> None:
    """The last word was its result: that its aggregator is gone is no trouble, and nobody is waited for."""
    station = make_station(snapshot_of())
    listening = listen()
    wait_until(lambda: told.of(NewSnapshot), WAIT_S)
    station.snapshot = snapshot_of(state="COMPLETE")
    wait_until(lambda: told.of(NewSnapshot)[-1].snapshot.state == "COMPLETE", WAIT_S)
    station.stop()
    wait_until(lambda: not listening.alive, WAIT_S)
    assert not told.of(Trouble)


def test_a_result_on_disk_ends_the_waiting(
    listen: Callable[[], Listening],
    make_station: MakeStation,
    snapshot_of: SnapshotOf,
    told: Any,
    wait_until: Until,
) -> None:
    """A result on disk ends the waiting once the aggregator is gone. The result is passed on as read, not heard."""
    station = make_station(snapshot_of())
    listening = listen()
    wait_until(lambda: told.of(NewSnapshot), WAIT_S)
    station.stop()
    wait_until(lambda: told.of(Trouble), WAIT_S)
    listening.left = snapshot_of(state="INTERRUPTED")
    wait_until(lambda: not listening.alive, WAIT_S)
    assert told.of(NewSnapshot)[-1].snapshot == listening.left == listening.seen[-1]
    assert not told.of(NewSnapshot)[-1].live
    assert words(told)[-1] == ""


def test_another_run_at_the_address_is_not_this_one(
    listen: Callable[[], Listening],
    make_station: MakeStation,
    snapshot_of: SnapshotOf,
    told: Any,
    wait_until: Until,
) -> None:
    """Numbers of another run at the address are not shown, even if the link came back by itself."""
    station = make_station(snapshot_of())
    listen()
    wait_until(lambda: told.of(NewSnapshot), WAIT_S)
    station.snapshot = snapshot_of(run_id="r2", name="next")
    wait_until(lambda: any("another run" in text for text in words(told)), WAIT_S)
    assert {fresh.snapshot.run_id for fresh in told.of(NewSnapshot)} == {"r1"}


def test_what_makes_a_result_of_a_dead_run_is_said_in_the_end(
    listen: Callable[[], Listening], told: Any, wait_until: Until, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The remedy for a dead run comes once the aggregator is certain not to be back in a moment."""
    monkeypatch.setattr("telemetry.tui.feed.live._BACKOFF_S", (0.05, 0.05))
    listening = listen()
    listening.remedy = "`telemetry recover r` makes a result of what it left"
    wait_until(lambda: any(listening.remedy in text for text in words(told)), WAIT_S)
    assert "trying again" in words(told)[0]


def test_a_failure_of_its_own_is_said(listen: Callable[[], Listening], told: Any, wait_until: Until) -> None:
    """An unexpected failure is reported, as it must not look like a run that stands still."""
    listening = listen()

    def fail() -> MetricsSnapshot | None:
        raise ZeroDivisionError("oops")

    listening.listener._result = fail
    wait_until(lambda: told.of(ViewerNote), WAIT_S)
    assert "oops" in told.of(ViewerNote)[0].words


def test_backends_are_watched_after_the_run(
    listen: Callable[[], Listening],
    make_station: MakeStation,
    snapshot_of: SnapshotOf,
    told: Any,
    wait_until: Until,
) -> None:
    """Backends are watched after the run by what their writers leave on disk, until all have ended.

    A result is passed on only if they got any further.
    """

    def over(state: BackendState, written: int) -> MetricsSnapshot:
        return snapshot_of(state="COMPLETE", backends=[BackendStat(name="a", state=state, written=written)])

    station = make_station(over("writing", 1))
    listening = listen()
    wait_until(lambda: told.of(NewSnapshot), WAIT_S)
    listening.left = over("writing", 1)
    station.stop()
    listening.left = over("writing", 2)
    wait_until(lambda: told.of(NewSnapshot)[-1].snapshot.backends[0].written == 2, WAIT_S)
    assert listening.alive
    listening.left = over("done", 3)
    wait_until(lambda: not listening.alive, WAIT_S)
    assert [one.snapshot.backends[0].written for one in told.of(NewSnapshot) if not one.live] == [2, 3]


def test_a_writer_that_is_silent_after_the_run_is_told_again(
    listen: Callable[[], Listening],
    make_station: MakeStation,
    snapshot_of: SnapshotOf,
    told: Any,
    wait_until: Until,
) -> None:
    """A writer that is silent after the run is passed on again, as the time of its silence changes."""
    stopped = BackendStat(name="a", state="writing", time_ns=time.time_ns() - 60_000_000_000)
    left = snapshot_of(state="COMPLETE", time_ns=stopped.time_ns - 1, backends=[stopped])
    station = make_station(left)
    listening = listen()
    wait_until(lambda: told.of(NewSnapshot), WAIT_S)
    listening.left = left
    station.stop()
    wait_until(lambda: len([one for one in told.of(NewSnapshot) if not one.live]) >= 3, WAIT_S)
    listening.left = snapshot_of(state="COMPLETE", backends=[BackendStat(name="a", state="done")])
    wait_until(lambda: not listening.alive, WAIT_S)


def test_backends_of_a_run_elsewhere_are_as_they_were(
    listen: Callable[[], Listening],
    make_station: MakeStation,
    snapshot_of: SnapshotOf,
    told: Any,
    wait_until: Until,
) -> None:
    """There is nothing on this disk to look for."""
    station = make_station(snapshot_of(state="COMPLETE", backends=[BackendStat(name="a", state="writing")]))
    listening = listen()
    wait_until(lambda: told.of(NewSnapshot), WAIT_S)
    station.stop()
    wait_until(lambda: not listening.alive, WAIT_S)
