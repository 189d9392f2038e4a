"""A run goes on where another aggregator left it; processes that are killed are in tests/process/test_resume.py."""

from __future__ import annotations

import itertools
import json
import os
import shutil
import socket
import tempfile
import time
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from telemetry.common.clock import SYSTEM_CLOCK
from telemetry.daemon.build import build_again, run_daemon
from telemetry.daemon.recovery.rebuild import Fold
from telemetry.daemon.recovery.resume import claim, going_on
from telemetry.errors import EndpointError, RunDirectoryError
from telemetry.store.final_snapshot import write_final
from telemetry.store.framing import frame
from telemetry.store.history import HistoryReader, HistoryWriter
from telemetry.store.journal import BATCH, CHECKPOINT, JournalReader
from telemetry.store.records import RecordLog
from telemetry.testing import FakeClock
from telemetry.wire import control as msg
from telemetry.wire.codec import decode_checkpoint
from telemetry.wire.events import Count, Mark
from telemetry.wire.history import Interval
from telemetry.wire.snapshot import BackendStat, MetricsSnapshot

DEADLINE_S = 20.0
ONCE = f"the aggregator was restarted once, after process {os.getpid()} had died"
TWICE = f"the aggregator was restarted 2 times, the last time after process {os.getpid()} had died"


@pytest.fixture
def dead(make_service: Any, connect: Any, die: Any) -> Any:
    """The directory of a run that had one producer, and died."""
    service = make_service()
    peer = connect(service)
    peer.send(Count("n", 0.1), Mark("a"))
    peer.send(Count("n", 0.2), Mark("b"))
    peer.applied(4)
    service.feed.roll()
    peer.link.close(0.0)  # it would connect again, and take the id of the peer that a test makes
    die(service)
    return service.parts.directory


def test_it_is_the_same_run(dead: Any, make_again: Any) -> None:
    """Name, id, begin, addresses and numbers; the epoch is another, and the snapshots' numbers are higher."""
    service = make_again(dead, name="other", run_id="r9")
    run_status = service.run_status
    assert (run_status.name, run_status.run_id, run_status.epoch) == ("job", "r1", "e2")
    assert list(vars(service.parts.hub.endpoints).values()) == dead.read_manifest().endpoints
    assert (
        run_status.started_ns == decode_checkpoint(next(JournalReader(dead.journal).frames()).data).run.started_ns
    )
    snapshot = service.snapshot()
    assert (snapshot.state, snapshot.counters[0].value, snapshot.warnings) == ("LIVE", 0.1 + 0.2, [ONCE])
    assert run_status.seq >= 10_000
    assert RecordLog(dead.records).next_seq == 2
    assert dead.read_manifest().pid == os.getpid()


def test_the_backends_of_a_run_are_known_before_a_writer_reports(
    make_service: Any, make_again: Any, connect: Any, die: Any
) -> None:
    """The backends are those of the start, those that joined, and those that ended. A new writer begins again."""
    service = make_service(backends=[BackendStat(name=name, kind="jsonl") for name in "ab"])
    [stat, _] = service.snapshot().backends
    assert (stat.name, stat.kind, stat.state, stat.next_record) == ("a", "jsonl", "starting", 0)
    assert stat.time_ns > 0, "it will count as silent"
    peer = connect(service)
    failed = BackendStat(name="b", kind="jsonl", state="failed", time_ns=5, last_error="no key")
    joined = BackendStat(name="c", kind="otlp", state="idle", time_ns=7, next_record=9)
    for number, told in enumerate((failed, joined), 10):
        peer.ask(msg.TellBackend(id=number, stat=told))
    peer.link.close(0.0)
    die(service)
    service = make_again(service.parts.directory)
    a, b, c = service.snapshot().backends
    assert ((a.name, a.state), (c.name, c.kind, c.state, c.next_record)) == (
        ("a", "starting"),
        ("c", "otlp", "starting", 0),
    )
    assert b == failed
    die(service)
    service = make_again(service.parts.directory, backends=[BackendStat(name="b", kind="jsonl")], epoch="e3")
    assert [(stat.name, stat.state) for stat in service.snapshot().backends] == [
        ("a", "starting"),
        ("b", "starting"),
        ("c", "starting"),
    ]


def test_a_history_that_is_ahead_goes_on(dead: Any, make_again: Any) -> None:
    """Seconds of a power cut or a dead recovery stay in the history. No later second is passed over as known."""
    history = HistoryWriter(dead.history, resume=True)
    for number in range(1, 4):
        history.append(Interval(number, number + 1), number=number)
    history.close()
    service = make_again(dead)
    assert service.parts.numbers.run.rolls == 4
    service.feed.roll()
    service.parts.worker.close(DEADLINE_S)
    assert service.parts.history.rolls == 5
    assert len(list(HistoryReader(dead.history).intervals(level_s=1))) == 5


def test_what_a_restart_found_is_known_to_every_later_fold(dead: Any, make_again: Any, die: Any) -> None:
    """A fold that begins before the restart knows it, too.

    Else it would take new records and intervals for known ones.
    """
    log = RecordLog(dead.records)
    log.append([replace(log.read(1, 1)[0], seq=2)])
    log.close()
    service = make_again(dead)
    run = service.parts.numbers.run
    die(service)
    fold = Fold(JournalReader(dead.journal), 0)
    for entry in fold.entries():
        fold.apply(entry)
    assert run.warnings
    assert (fold.numbers.run.records, fold.numbers.run.snapshot_seq, fold.numbers.run.warnings) == (
        3,
        run.snapshot_seq,
        run.warnings,
    )


def test_without_a_record_log_it_goes_on(dead: Any, make_again: Any, connect: Any) -> None:
    """One that can't be read stays as it is, the run says so, and numbers of records go on for those who listen."""
    path = dead.records / "records.jsonl"
    spoiled = b"noise" + path.read_bytes()
    path.write_bytes(spoiled)
    service = make_again(dead)
    said, _ = service.snapshot().warnings
    assert said.startswith("can't write the record log: ")
    assert "line 1" in said
    peer = connect(service)
    peer.batches, peer.emitted = 2, 4
    peer.send(Mark("c"))
    peer.applied(5)
    assert service.parts.numbers.run.records == service.feed.ingest._stream.next_seq == 3
    assert path.read_bytes() == spoiled


def test_a_machine_that_was_restarted_may_have_lost_a_second(
    dead: Any, make_again: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A power cut mostly leaves the journal whole up to what was synced: no torn byte tells of what is gone."""
    monkeypatch.setattr("telemetry.daemon.recovery.resume.SYSTEM_CLOCK", FakeClock(5_000, time.time_ns()))
    service = make_again(dead)
    said, _ = service.snapshot().warnings
    assert said.startswith(
        "the machine was restarted since: after a power loss, up to one second at the end of the journal is missing"
    )
    for state in ("DRAINING", "COMPLETE"):
        service.run_status.lifecycle.to(state)
    assert service.snapshot().completeness == "incomplete"
    assert service.parts.numbers.run.lost_power


def test_what_a_producer_sends_again_counts_once(dead: Any, make_again: Any, connect: Any) -> None:
    """A producer that greets the new epoch, repeats its batches, goes on and ends is counted once."""
    service = make_again(dead)
    peer = connect(service)
    peer.send(Count("n", 0.1), Mark("a"))
    peer.send(Count("n", 0.2), Mark("b"))
    peer.send(Count("n", 0.3), Mark("c"))
    peer.applied(6)
    peer.end()
    peer.until(lambda: peer.all(msg.Ended))
    assert peer.all(msg.Ended) == [msg.Ended(id=9, emitted=6, received=6, missing=0)]
    peer.until(lambda: peer.all(msg.Ack)[-1:] == [msg.Ack(epoch="e2", batches=3)])
    assert service.snapshot().accounting.duplicates == 2
    assert [record.seq for record in RecordLog(dead.records).read(0, 9)] == [0, 1, 2]


def test_producers_get_a_fresh_grace(dead: Any, make_again: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """A silence that a dead aggregator caused makes no producer lost."""
    later = FakeClock(time.monotonic_ns() + 10**12, time.time_ns() + 10**12)
    monkeypatch.setattr("telemetry.daemon.recovery.resume.SYSTEM_CLOCK", later)
    service = make_again(dead)
    (producer,) = service.snapshot().producers
    assert producer.status == "live"
    assert service.parts.aggregator.book.anyone_left(later.monotonic_ns())


def test_the_next_segment_begins_with_what_was_found(dead: Any, make_again: Any, die: Any) -> None:
    """Another death costs only the events after the last restart, however often there is one."""
    for death in range(1, 4):
        service = make_again(dead)
        assert service.snapshot().accounting.applied == 4
        die(service)
        frames = [item for item in JournalReader(dead.journal).frames() if item.kind == CHECKPOINT]
        assert len(frames) == death + 1
    assert service.run_status.seq >= 30_000


def test_numbers_of_records_are_never_given_twice(dead: Any, make_again: Any, connect: Any) -> None:
    """A power loss may take more of the journal than of the record log; subscribers know the log."""
    log = RecordLog(dead.records)
    log.append([replace(log.read(1, 1)[0], seq=2)])
    log.close()
    service = make_again(dead)
    assert service.parts.numbers.run.records == 3
    assert service.snapshot().warnings == [
        "the journal lost 1 record that the record log has; records that were sent again appear in it twice",
        ONCE,
    ]
    peer = connect(service)
    peer.batches, peer.emitted = 2, 4
    peer.send(Mark("c"))
    peer.applied(5)
    assert [record.seq for record in RecordLog(dead.records).read(0, 9)] == [0, 1, 2, 3]
    assert service.parts.numbers.run.records == 4


def test_a_run_that_was_ending_goes_on_ending(make_service: Any, connect: Any, die: Any, make_again: Any) -> None:
    """A run that goes on ending keeps the reason that it was given, and the command's bill."""
    service = make_service()
    peer = connect(service)
    bill = msg.CommandFacts(argv=["x"], exit_code=3)
    peer.ask(msg.Stop(id=5, reason="enough", command=bill))
    die(service)
    again = make_again(service.parts.directory)
    assert (again.run_status.ending, again.run_status.interrupted) == (True, False)
    assert (again.run_status.reason, again.run_status.command) == ("enough", bill)
    again.live()
    again.drain()
    assert again.run_status.lifecycle.state == "DRAINING"
    die(again)
    again = make_again(service.parts.directory)
    assert again.run_status.ending


def test_an_interrupted_run_is_interrupted(make_service: Any, die: Any, make_again: Any) -> None:
    """A signal that killed nothing in time is not forgotten."""
    service = make_service()
    service.run_status.end("stopped by SIGTERM", interrupted=True)
    die(service)
    again = make_again(service.parts.directory)
    assert (again.run_status.interrupted, again.run_status.reason) == (True, "stopped by SIGTERM")


def test_a_torn_tail_is_said(dead: Any, make_again: Any, die: Any) -> None:
    """A torn tail is reported in every snapshot from then on, also in those of later lives."""
    with sorted(dead.journal.iterdir())[-1].open("ab") as file:
        file.write(b"".join(frame([b"x" * 2_000], 1, BATCH))[:1_234])
    said = "the journal ended with 1,234 incomplete bytes, which are skipped"
    service = make_again(dead)
    assert service.snapshot().warnings == [said, ONCE]
    die(service)
    assert make_again(dead).snapshot().warnings == [said, TWICE]


def test_what_was_taken_and_written_before_is_counted_on(
    dead: Any, make_again: Any, connect: Any, die: Any
) -> None:
    """The bill is the run's, and its rate knows old events from new ones."""
    service = make_again(dead)
    before, began_ns = service.snapshot().cost, service.cost._mark[0]
    assert (before.frames, before.frame_bytes > 100) == (2, True)
    peer = connect(service, "q")
    peer.send(Mark("c"))
    peer.applied(5)
    service.feed.roll()
    service.parts.worker.close(DEADLINE_S)
    service.cost.each_second(service.parts.clock.monotonic_ns(), service.parts.aggregator.book.counted_events)
    cost = service.snapshot().cost
    assert cost.frames == 3
    assert cost.journal_bytes == sum(path.stat().st_size for path in dead.journal.iterdir())
    assert cost.history_bytes == sum(path.stat().st_size for path in dead.history.iterdir())
    span_s = (service.cost._mark[0] - began_ns) / 1e9
    assert cost.events_per_s * span_s == pytest.approx(1.0, rel=0.01)
    die(service)
    assert make_again(dead).snapshot().cost.frames == 3


def test_time_without_an_aggregator_is_in_no_window(
    dead: Any, make_again: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Values from before a death a minute ago are not in the last ten seconds. The history has the minute."""
    before = list(HistoryReader(dead.history).intervals(level_s=1))
    later = FakeClock(time.monotonic_ns() + 60 * 10**9, time.time_ns() + 60 * 10**9)
    monkeypatch.setattr("telemetry.daemon.recovery.resume.SYSTEM_CLOCK", later)
    service = make_again(dead)
    service.parts.worker.close(DEADLINE_S)
    (counter,) = service.snapshot().counters
    assert (counter.value, counter.rate) == (0.1 + 0.2, 0.0)
    assert service.snapshot().producers[0].events_per_s == 0.0
    passed = list(HistoryReader(dead.history).intervals(level_s=1))[len(before) :]
    assert passed[-1].end_ns - passed[0].start_ns > 59 * 10**9
    assert all(one.end_ns == other.start_ns for one, other in itertools.pairwise(passed))
    lengths_ns = [one.end_ns - one.start_ns for one in passed]
    assert lengths_ns[1:] == [10**9] * 10
    assert lengths_ns[0] > 0  # it died when an interval had just ended, so none was open


@pytest.mark.parametrize("window_s", [1, 10, 3_600])
def test_a_week_without_an_aggregator_is_few_intervals(
    dead: Any, make_again: Any, monkeypatch: pytest.MonkeyPatch, window_s: int
) -> None:
    """The history has all of the week, and its writer is not kept from the run by it."""
    week_ns = 7 * 86_400 * 10**9
    later = FakeClock(time.monotonic_ns() + week_ns, time.time_ns() + week_ns)
    monkeypatch.setattr("telemetry.daemon.recovery.resume.SYSTEM_CLOCK", later)
    before = len(list(HistoryReader(dead.history).intervals(level_s=1)))
    service = make_again(dead, {"run.window_s": window_s})
    service.parts.worker.close(DEADLINE_S)
    passed = list(HistoryReader(dead.history).intervals(level_s=1))[before:]
    assert len(passed) == min(window_s, 60) + 1
    assert all(each.end_ns > each.start_ns for each in passed)
    assert all(one.end_ns == other.start_ns for one, other in itertools.pairwise(passed))
    assert passed[-1].end_ns - passed[0].start_ns >= week_ns
    assert not service.parts.history.failed


@pytest.mark.parametrize("pid", [-5, 1 << 63])
def test_a_manifest_that_names_no_process_spoils_no_checkpoint(
    dead: Any, make_again: Any, die: Any, pid: int
) -> None:
    """A later aggregator can read this one's checkpoint, whatever process number the manifest holds."""
    dead.write_manifest(replace(dead.read_manifest(), pid=pid))
    die(make_again(dead))
    shutil.rmtree(dead.records)
    assert make_again(dead).snapshot().accounting.applied == 4


def test_the_journal_is_kept_even_if_new_runs_have_none(dead: Any, make_again: Any) -> None:
    """A run that has one can't go on without it: its percentiles would not be exact any more."""
    assert make_again(dead, {"journal.enabled": False}).parts.journal is not None


def test_what_cannot_go_on_is_let_go(dead: Any, make_options: Any, short_dir: Path) -> None:
    """Each error is clear, and whoever comes next finds neither a lock nor a socket in the way."""
    journal = sorted(dead.journal.iterdir())[0]
    content = journal.read_bytes()
    manifest = dead.read_manifest()
    for words, spoil in {
        "can't resume the run": lambda: journal.write_bytes(b"noise"),
        "does not contain the address of the run": lambda: dead.write_manifest(replace(manifest, endpoints=[])),
        "is no": lambda: dead.write_manifest(replace(manifest, endpoints=["tcp://x"] * 4)),
    }.items():
        journal.write_bytes(content)
        dead.write_manifest(manifest)
        spoil()
        with pytest.raises((RunDirectoryError, EndpointError), match=words) as caught:
            build_again(make_options(resume=dead.path), None, claim(dead.path))
        assert caught.value.hint
        assert not dead.locked()


def test_the_folder_of_the_sockets_may_be_gone(dead: Any, make_again: Any, short_dir: Path) -> None:
    """The folder of the sockets is made anew, because a restart of the machine removes it."""
    folder = Path(dead.read_manifest().endpoint.removeprefix("ipc://")).parent
    for path in folder.iterdir() if folder.exists() else []:
        path.unlink()
    if folder.exists():
        folder.rmdir()
    make_again(dead)
    assert folder.stat().st_mode & 0o077 == 0


def test_sockets_elsewhere_need_the_setting(dead: Any, make_again: Any, short_dir: Path) -> None:
    """Somebody else may have written the manifest, and binding makes folders and replaces sockets."""
    control = f"ipc://{short_dir}/new/ctl"
    addresses = [control, *(f"{control}.{name}" for name in ("ev", "sn", "rec"))]
    dead.write_manifest(replace(dead.read_manifest(), endpoint=control, endpoints=addresses))
    with pytest.raises(EndpointError, match="outside of") as refused:
        make_again(dead)
    assert f"--bind {control}" in refused.value.hint
    assert not (short_dir / "new").exists()
    service = make_again(dead, {"transport.bind": control})
    assert service.parts.hub.endpoints.control == control


def test_whoever_starts_it_hears_that_there_is_nothing_left(dead: Any, make_options: Any) -> None:
    """The result is returned, nobody is told that anything is ready, and the starter reads why."""
    result = MetricsSnapshot(run_id="r1", name="job", state="COMPLETE", directory=str(dead.path))
    write_final(result, [dead.final])
    reader, writer = os.pipe()
    ready: list[object] = []
    written, found = run_daemon(make_options(resume=dead.path, ready_fd=writer), ready.append)
    with os.fdopen(reader) as pipe:
        said = json.loads(pipe.read())
    assert (written, found, ready) == (True, result, [])
    assert said["error"] == "nothing to resume: the run has already ended, COMPLETE"
    assert not dead.locked()


def test_a_result_that_went_elsewhere_is_a_result(
    dead: Any, make_options: Any, short_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A run has ended if its result is in a fallback or temporary directory, as in `ls` and `report`.

    Such a run does not go on.
    """
    result = MetricsSnapshot(run_id="r1", name="job", state="COMPLETE", directory=str(dead.path))
    monkeypatch.setattr(tempfile, "tempdir", str(short_dir / "tmp"))
    spare = short_dir / "spare"
    for place in (spare, short_dir / "tmp"):
        path = write_final(result, [place / "telemetry-r1-final_snapshot.json"])
        options = make_options({"run.fallback_dirs": [str(spare)]}, resume=dead.path)
        assert run_daemon(options) == (True, result)
        path.unlink()
    claimed = claim(dead.path, [str(spare)])
    claimed.let_go()
    assert claimed.result is None


def test_time_goes_on_although_the_machine_restarted(dead: Any) -> None:
    """The run's clock follows the wall clock if the monotonic clock began anew with the machine."""
    fold = Fold(JournalReader(dead.journal))
    for entry in fold.entries():
        fold.apply(entry)
    fold.end_interval()
    assert going_on(SYSTEM_CLOCK, fold) is SYSTEM_CLOCK
    wall_ns = fold.numbers.wall_ns(fold.now_ns)
    rebooted = going_on(FakeClock(5_000, wall_ns + 60 * 10**9), fold)
    assert rebooted.monotonic_ns() == fold.now_ns + 60 * 10**9
    assert rebooted.wall_ns() == wall_ns + 60 * 10**9
    set_back = going_on(FakeClock(5_000, wall_ns - 60 * 10**9), fold)
    assert set_back.monotonic_ns() == fold.now_ns + 1
    clock_was_set = FakeClock(fold.now_ns + 5, wall_ns + 10**18)
    assert going_on(clock_was_set, fold) is clock_was_set
    fold.numbers.run = replace(fold.numbers.run, boot_id="another")
    up_for_longer = clock_was_set  # than it had been when the run died
    assert going_on(up_for_longer, fold).monotonic_ns() == fold.now_ns + 10**18


def test_a_claim_is_for_one(dead: Any) -> None:
    """A claim of a run directory excludes others until it is let go."""
    dead.write_manifest(replace(dead.read_manifest(), host="elsewhere", pid=1))
    first = claim(dead.path)
    owner = dead.read_manifest()
    assert (owner.host, owner.pid) == (socket.gethostname(), os.getpid()), "where there are no locks this is one"
    with pytest.raises(RunDirectoryError, match="live aggregator"):
        claim(dead.path)
    first.let_go()
    claim(dead.path).let_go()
    dead.manifest.write_bytes(b"{")
    with pytest.raises(RunDirectoryError, match="damaged"):
        claim(dead.path)
    assert not dead.locked()
