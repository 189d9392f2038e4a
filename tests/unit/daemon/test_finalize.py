"""The end of a run: what is on disk, what is published, and what happens when either fails."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from telemetry import limits
from telemetry.daemon import finalize as subject
from telemetry.daemon.exact_percentiles import Refiner
from telemetry.daemon.finalize import finalize
from telemetry.daemon.service import Service
from telemetry.store.final_snapshot import read_final
from telemetry.store.history import HistoryReader
from telemetry.transport.subscription import Subscription
from telemetry.wire import control as msg
from telemetry.wire.events import Count, Define, Mark
from telemetry.wire.snapshot import MetricsSnapshot

VALUES = [value + 0.123 for value in range(1, 101)]  # no whole numbers: those are exact without a pass


def record(peer: Any) -> None:
    peer.send(Define(1, "s", "series", "ms"), rows=[(1, 1 << 40, value) for value in VALUES])
    peer.applied(len(VALUES))


def end(service: Service, reason: str = "enough", *, interrupted: bool = False) -> None:
    service.run_status.end(reason, interrupted=interrupted)
    service.live()
    service.drain()


def final(service: Service) -> MetricsSnapshot:
    return read_final(service.parts.directory.final)


def written(service: Service, monkeypatch: pytest.MonkeyPatch) -> list[MetricsSnapshot]:
    """Every snapshot that goes to the disk."""
    found: list[MetricsSnapshot] = []
    write = subject.write_final

    def note(snapshot: MetricsSnapshot, candidates: list[Path]) -> Path:
        found.append(snapshot)
        return write(snapshot, candidates)

    monkeypatch.setattr(subject, "write_final", note)
    return found


def hold(monkeypatch: pytest.MonkeyPatch) -> threading.Event:
    """The exact pass waits at each batch until the event is set."""
    go = threading.Event()
    give_up = Refiner._give_up

    def wait(self: Refiner) -> bool:
        go.wait(20.0)
        return give_up(self)

    monkeypatch.setattr(Refiner, "_give_up", wait)
    return go


def act_in_exact_pass(service: Service, act: Callable[[], object]) -> None:
    """Calls `act` after the first turn of the exact pass."""
    turn, done = service.turn, []

    def one() -> None:
        turn()
        if service.books_closed and not done:
            done.append(True)
            act()

    service.turn = one  # type: ignore[method-assign]


def test_a_complete_run(make_service: Any, connect: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """One file, exact, the same as the snapshot that is published and the status that is answered."""
    service = make_service({"run.terminal_grace_s": 0.1})
    files = written(service, monkeypatch)
    peer = connect(service)
    record(peer)
    peer.end()
    with Subscription(service.parts.hub.endpoints.snapshots, conflate=False) as snapshots:
        peer.until(lambda: snapshots.recv(0.0))
        end(service)
        assert finalize(service)
        heard = []
        while (snapshot := snapshots.recv(0.5)) is not None:
            heard.append(snapshot)
    result = final(service)
    assert len(files) == 1
    assert (result.state, result.completeness, result.reason) == ("COMPLETE", "complete", "enough")
    assert (result.exact, result.exact_reason) == (True, "")
    (series,) = result.series
    assert (series.exact, series.error_bound, series.percentiles["50"], series.percentiles["99"]) == (
        True,
        0,
        50.123,
        99.123,
    )
    assert result.pending.deadline_s is None
    terminal = [snapshot for snapshot in heard if snapshot.state == "COMPLETE"]
    assert len(terminal) > 2, "it is repeated"
    assert all(snapshot == result for snapshot in terminal)
    assert service.run_status.newest == result


def test_a_late_word_does_not_change_the_result(make_service: Any, connect: Any, wait_until: Any) -> None:
    """A message in the grace is answered, and the file, the status and the publication stay the same."""
    service = make_service({"run.terminal_grace_s": 0.3})
    peer = connect(service, pid=os.getpid(), host=service.parts.host)
    record(peer)
    end(service)
    tell = service.publish

    def publish() -> None:
        tell()
        if service.run_status.lifecycle.terminal and not peer.batches > 1:
            peer.frame([Count("n")])
            peer.end()

    service.publish = publish
    assert finalize(service)
    wait_until(lambda: peer.all(msg.Ended))
    assert peer.all(msg.Ended) == [msg.Ended(id=9, emitted=101, received=100, missing=1)]
    assert final(service).completeness == "incomplete"
    assert service.run_status.newest == final(service)


def test_an_interrupted_run_has_its_file_before_the_exact_pass(
    make_service: Any, connect: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Bucket precision first, whole and marked, with what was held; then the same numbers, exact."""
    service = make_service()
    files = written(service, monkeypatch)
    peer = connect(service)
    record(peer)
    peer.hold(rows=[(1, 1 << 40, 7.5)])
    end(service, "stopped by SIGTERM", interrupted=True)
    assert finalize(service)
    first, second = files
    assert (first.state, first.completeness, first.exact) == ("INTERRUPTED", "interrupted", False)
    assert first.exact_reason == "interrupted before the exact pass ended"
    assert (second.state, second.completeness, second.exact) == ("INTERRUPTED", "interrupted", True)
    assert first.series[0].count == second.series[0].count == len(VALUES) + 1
    assert final(service) == second


def test_numbers_that_fail_at_last_leave_those_of_the_last_tick(
    make_service: Any, connect: Any, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """The numbers of the last tick stay when the run was interrupted, too. Failed numbers are not asked again."""
    monkeypatch.setattr(limits, "GATHER_S", 0.0)  # so that something stays in the socket
    service = make_service({"run.terminal_grace_s": 0.1})
    peer = connect(service)
    record(peer)
    service.snapshot()
    peer.hold(rows=[(1, 1 << 40, 7.5)])

    def fail(*_: object) -> None:
        raise ZeroDivisionError("a defect")

    service.parts.aggregator.apply = fail
    end(service, "stopped by SIGTERM", interrupted=True)
    peer.send(rows=[(1, 1 << 40, 7.5)])
    assert service.parts.hub.wait(10.0).events
    peer.say(msg.GetStatus(id=4))
    with Subscription(service.parts.hub.endpoints.snapshots) as snapshots:
        assert finalize(service)
        heard = snapshots.recv(5.0)
    assert heard == final(service)
    assert heard is not None
    assert (heard.state, heard.reason) == ("INTERRUPTED", "the aggregator failed: ZeroDivisionError('a defect')")
    assert heard.series[0].count == len(VALUES)
    assert peer.all(msg.Status)[0].snapshot == heard
    assert "could not be published" not in caplog.text


def test_status_while_an_interrupted_run_is_refined(
    make_service: Any, connect: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The status is DRAINING, with the numbers, during the exact pass. The first terminal snapshot is the last."""
    service = make_service()
    go = hold(monkeypatch)
    peer = connect(service)
    record(peer)
    end(service, "stopped by SIGTERM", interrupted=True)
    seen: list[MetricsSnapshot] = []

    def ask() -> None:
        answer = peer.ask(msg.GetStatus(id=4))
        assert isinstance(answer, msg.Status)
        seen.append(answer.snapshot)
        go.set()

    act_in_exact_pass(service, ask)
    assert finalize(service)
    assert (seen[0].state, seen[0].reason, seen[0].series[0].count) == ("DRAINING", "stopped by SIGTERM", 100)
    assert final(service).state == "INTERRUPTED"


def test_a_signal_in_the_exact_pass_of_a_complete_run_gives_up_exactness_alone(
    make_service: Any, connect: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The run is what it was, with its reason; the percentiles keep the histogram's bound, and it says why."""
    service = make_service()
    go = hold(monkeypatch)
    peer = connect(service)
    record(peer)
    peer.end()
    end(service)

    def interrupt() -> None:
        service.run_status.end("stopped by SIGTERM", interrupted=True)
        go.set()

    act_in_exact_pass(service, interrupt)
    assert finalize(service)
    result = final(service)
    assert (result.state, result.completeness, result.reason) == ("COMPLETE", "complete", "enough")
    assert (result.exact, result.exact_reason) == (False, "interrupted during the exact pass")
    assert result.series[0].error_bound == 0.001


def test_a_second_signal_ends_the_exact_pass_of_an_interrupted_run(
    make_service: Any, connect: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A second signal ends the exact pass, so that a hurried user does not wait for a minute."""
    service = make_service()
    go = hold(monkeypatch)
    peer = connect(service)
    record(peer)
    end(service, "stopped by SIGTERM", interrupted=True)

    def interrupt() -> None:
        service.run_status.end("stopped by SIGINT", interrupted=True)
        go.set()

    act_in_exact_pass(service, interrupt)
    assert finalize(service)
    result = final(service)
    assert (result.state, result.reason, result.exact) == ("INTERRUPTED", "stopped by SIGTERM", False)
    assert result.exact_reason == "interrupted during the exact pass"


def test_a_second_stop_does_not_end_the_exact_pass(
    make_service: Any, connect: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Asking for the end of a run that ends is no hurry."""
    service = make_service()
    go = hold(monkeypatch)
    peer = connect(service)
    record(peer)
    peer.end()
    end(service)

    def stop() -> None:
        peer.ask(msg.Stop(id=4, reason="me too"))
        go.set()

    act_in_exact_pass(service, stop)
    assert finalize(service)
    assert (final(service).exact, final(service).reason) == (True, "enough")


def test_nothing_moves_after_the_books_are_closed(
    make_service: Any, connect: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A long exact pass does not empty the windows, and the history has no interval from after its end."""
    service = make_service()
    go = hold(monkeypatch)
    peer = connect(service)
    record(peer)
    peer.end()
    end(service)

    def many_seconds() -> None:
        for _ in range(30):
            service._next_second_ns = 0
            service._tick(service.parts.clock.monotonic_ns())
        go.set()

    act_in_exact_pass(service, many_seconds)
    assert finalize(service)
    assert final(service).series[0].window.count == len(VALUES)
    reader = HistoryReader(service.parts.directory.history)
    counted = [sum(memoryview(interval.series.count).cast("Q")) for interval in reader.intervals()]
    assert sum(counted) == len(VALUES)
    assert counted[-1] == len(VALUES)
    assert not service.parts.history.failed


@pytest.mark.parametrize(
    ("flags", "reason"),
    [({"journal.enabled": False}, "the journal is off"), ({}, "can't write the journal: full")],
)
def test_without_a_journal_the_bound_is_stated(make_service: Any, connect: Any, flags: Any, reason: str) -> None:
    """The result without a journal is not exact, and gives the reason."""
    service = make_service(flags)
    peer = connect(service)
    record(peer)
    peer.end()
    if service.parts.journal is not None:
        service.parts.journal.failed = "full"
    end(service)
    assert finalize(service)
    result = final(service)
    assert (result.exact, result.exact_reason, result.completeness) == (False, reason, "complete")
    assert result.series[0].error_bound == 0.001


def test_a_run_directory_that_is_gone(make_service: Any, connect: Any, short_dir: Path) -> None:
    """The file goes to the first fallback that takes it, and every subscriber is told which."""
    blocked, spare = short_dir / "blocked", short_dir / "spare"
    blocked.write_text("")
    service = make_service({"run.fallback_dirs": [str(blocked), str(spare)]})
    peer = connect(service)
    record(peer)
    peer.end()
    end(service)
    home = service.parts.directory.path
    home.rename(home.with_name("moved"))
    home.write_text("in the way")
    assert finalize(service)
    (file,) = spare.iterdir()
    assert file.name == "telemetry-r1-final_snapshot.json"
    assert read_final(file).series[0].count == len(VALUES)
    assert any(str(file) in warning for warning in service.run_status.newest.warnings)


def test_no_place_for_the_file(make_service: Any, connect: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """The snapshot is published all the same, with the reasons, and the caller learns that there is no file."""
    service = make_service({"run.terminal_grace_s": 0.1})
    peer = connect(service)
    record(peer)
    peer.end()
    end(service)
    monkeypatch.setattr("tempfile.gettempdir", lambda: "/proc/nowhere")
    home = service.parts.directory.path
    home.rename(home.with_name("moved"))
    home.write_text("in the way")
    with Subscription(service.parts.hub.endpoints.snapshots) as snapshots:
        assert not finalize(service)
        heard = snapshots.recv(5.0)
    assert heard is not None
    assert heard.state == "COMPLETE"
    assert any("can't write the final file" in warning for warning in heard.warnings)


def test_a_socket_that_fails_does_not_cost_the_file(make_service: Any, connect: Any) -> None:
    """The two ways out are independent."""
    service = make_service()
    peer = connect(service)
    record(peer)
    peer.end()
    end(service)

    def fail(_frame: bytes) -> None:
        if service.run_status.lifecycle.terminal:
            raise OSError("no socket")

    service.parts.hub.publish_snapshot = fail
    assert finalize(service)
    assert final(service).state == "COMPLETE"


def test_a_file_that_fails_does_not_cost_the_publication(
    make_service: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The result is published after the file failed, whatever the reason is."""
    service = make_service({"run.terminal_grace_s": 0.1})
    end(service)

    def fail(*_: object) -> None:
        raise ValueError("no words for it")

    monkeypatch.setattr(subject, "write_final", fail)
    with Subscription(service.parts.hub.endpoints.snapshots) as snapshots:
        assert not finalize(service)
        heard = snapshots.recv(5.0)
    assert heard is not None
    assert heard.state == "COMPLETE"
    assert any("no words for it" in warning for warning in heard.warnings)


def test_no_directory_for_temporary_files(make_service: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine may have none that can be written; the run directory is not touched by that."""
    service = make_service()
    end(service)

    def fail() -> str:
        raise FileNotFoundError("No usable temporary directory found")

    monkeypatch.setattr("tempfile.gettempdir", fail)
    assert finalize(service)
    assert final(service).state == "COMPLETE"


@pytest.mark.parametrize("part", ["close", "snapshot", "roll"])
def test_a_defect_in_the_numbers_leaves_those_of_the_last_tick(make_service: Any, connect: Any, part: str) -> None:
    """The file and the publication are the last snapshot that could be made, as one of an interrupted run."""
    service = make_service({"run.terminal_grace_s": 0.1})
    peer = connect(service)
    record(peer)
    peer.end()
    end(service)
    service.snapshot()

    def fail(*_: object) -> None:
        raise ZeroDivisionError("a defect")

    setattr(service.parts.aggregator, part, fail)
    with Subscription(service.parts.hub.endpoints.snapshots) as snapshots:
        assert finalize(service)
        heard = snapshots.recv(5.0)
    result = final(service)
    assert heard == result
    assert (result.state, result.completeness, result.exact) == ("INTERRUPTED", "interrupted", False)
    assert result.reason == "the aggregator failed: ZeroDivisionError('a defect')"
    assert result.series[0].count == len(VALUES)


def test_an_interruption_ends_the_grace(make_service: Any) -> None:
    """An interruption ends the wait for slow subscribers."""
    service = make_service({"run.terminal_grace_s": 3_600.0})
    end(service)
    publish = service.publish

    def hurry() -> None:
        publish()
        service.run_status.end("stopped by SIGTERM", interrupted=True)

    service.publish = hurry
    assert finalize(service)
    assert final(service).state == "COMPLETE"


def test_a_question_to_the_disk_at_the_end_is_answered(make_service: Any, connect: Any, wait_until: Any) -> None:
    """The answers that the worker finishes last are delivered before the sockets close."""
    service = make_service()
    peer = connect(service)
    peer.send(Mark("m"))
    peer.applied(1)
    peer.end()
    end(service)
    go = threading.Event()
    service.parts.worker.submit(lambda: go.wait(20.0))
    wait_until(service.parts.worker._jobs.empty, what="the worker's waiting")
    peer.say(msg.Catchup(id=4))
    peer.until(service.parts.worker._jobs.qsize)
    close = service.parts.worker.close

    def release(timeout_s: float) -> bool:
        go.set()
        return bool(close(timeout_s))

    service.parts.worker.close = release
    assert finalize(service)
    wait_until(lambda: peer.all(msg.CaughtUp))
    assert [len(one.records) for one in peer.all(msg.CaughtUp)] == [1]  # type: ignore[union-attr]
