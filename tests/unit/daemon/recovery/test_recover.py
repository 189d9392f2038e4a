"""The result of a dead run; real deaths are in tests/process/test_recover.py."""

from __future__ import annotations

import shutil
import time
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from telemetry.config import Config, load
from telemetry.daemon.exact_percentiles import CUT, another_may_succeed
from telemetry.daemon.finalize import finalize
from telemetry.daemon.recovery import recover as subject
from telemetry.daemon.recovery.recover import Recovered, recover
from telemetry.errors import RunDirectoryError
from telemetry.store.final_snapshot import read_final, write_final
from telemetry.store.history import HistoryReader
from telemetry.store.records import RecordLog
from telemetry.store.run_directory import RunDirectory
from telemetry.testing import FakeClock
from telemetry.wire.control import Ended
from telemetry.wire.events import Count, Mark, Sample, Scalars
from telemetry.wire.report import Report


@pytest.fixture
def dead(make_service: Any, connect: Any, die: Any) -> Any:
    """The directory of a run that had one producer, and died."""
    service = make_service()
    peer = connect(service)
    peer.send(Count("n", 0.1), Mark("a"), Sample("s", 1.25))
    peer.applied(3)
    service.feed.roll()
    peer.send(Count("n", 0.2), Sample("s", 2.5))
    peer.applied(5)
    die(service)
    return service.parts.directory


def test_it_says_what_it_is_doing(dead: Any) -> None:
    """The share of the journal that was read rises to the whole."""
    said: list[tuple[str, float]] = []
    found = recover(dead, Config(), on_progress=lambda what, share: said.append((what, share)))
    assert found.written
    assert found.snapshot == read_final(dead.final)
    shares = [share for what, share in said if what == "reading the journal"]
    assert shares == sorted(shares)
    assert 0.0 < shares[-1] <= 1.0
    assert not dead.locked()


def test_the_result_is_whole(dead: Any) -> None:
    """Numbers, cost, place and the end of the history."""
    snapshot = recover(dead, Config()).snapshot
    assert (snapshot.state, snapshot.exact, snapshot.directory) == ("INTERRUPTED", True, str(dead.path))
    assert snapshot.counters[0].value == pytest.approx(0.3)
    assert snapshot.series[0].percentiles["50"] == 1.25
    assert snapshot.series[0].exact
    assert (snapshot.cost.series, snapshot.cost.journal_bytes > 100) == (1, True)
    seconds = list(HistoryReader(dead.history).intervals(level_s=1))
    assert len(seconds) == 2
    assert seconds[-1].end_ns == snapshot.time_ns
    assert list(HistoryReader(dead.history).intervals(level_s=60)), "roll-ups are there as far as they come"


def test_the_same_again(dead: Any) -> None:
    """Killed in between, it begins anew and comes to the same."""
    first = recover(dead, Config()).snapshot
    dead.final.unlink()
    second = recover(dead, Config()).snapshot
    assert replace(second, cost=first.cost) == first
    assert len(list(HistoryReader(dead.history).intervals(level_s=1))) == 2


@pytest.mark.parametrize("closed", [False, True])
def test_open_steps_are_closed(make_service: Any, connect: Any, die: Any, closed: bool) -> None:
    """Open steps are in the record log once, whether the run closed them itself at its end or not."""
    service = make_service()
    peer = connect(service)
    peer.send(Mark("a"), Scalars("train", 1, {"loss": 1.0}), Scalars("train", 2, {"loss": 2.0}))
    peer.applied(3)
    if closed:
        service.close_books()
    die(service)
    directory = service.parts.directory
    snapshot = recover(directory, Config()).snapshot
    said = RecordLog(directory.records).read(1, 9)
    assert [(item.seq, item.record.step, item.record.closed) for item in said] == [  # type: ignore[union-attr]
        (1, 1, "ended"),
        (2, 2, "run_end"),
    ]
    assert (snapshot.axes[0].closed, snapshot.axes[0].open, snapshot.warnings) == (2, 0, [])


@pytest.mark.parametrize("closer", ["the run", "recover"])
def test_what_was_closed_is_not_closed_again(
    make_service: Any, connect: Any, die: Any, make_again: Any, closer: str
) -> None:
    """A run that goes on after its books were closed repeats no step and ends no interval twice.

    It misses nothing in the journal.
    """
    service = make_service()
    peer = connect(service)
    peer.send(Mark("a"), Scalars("train", 1, {"loss": 1.0}), Scalars("train", 2, {"loss": 2.0}))
    peer.applied(3)
    if closer == "the run":
        service.close_books()
    die(service)
    directory = service.parts.directory
    if closer == "recover":
        recover(directory, Config())
        directory.final.unlink()
    again = make_again(directory)
    seconds = len(list(HistoryReader(directory.history).intervals(level_s=1)))
    assert (again.parts.numbers.run.records, again.parts.numbers.run.rolls) == (3, seconds)
    again.run_status.end("enough", interrupted=True)
    finalize(again)
    said = RecordLog(directory.records).read(1, 9)
    assert [(item.record.step, item.record.closed) for item in said] == [  # type: ignore[union-attr]
        (1, "ended"),
        (2, "run_end"),
    ]
    (axis,) = read_final(directory.final).axes
    assert (axis.closed, axis.open, axis.corrections) == (2, 0, 0)
    (warning,) = read_final(directory.final).warnings
    assert "restarted" in warning


def test_a_journal_that_takes_no_more_keeps_nobody_from_the_result(dead: Any) -> None:
    """A torn tail is not cut for a note, nor is anything written behind damage."""
    last = sorted(dead.journal.iterdir())[-1]
    with last.open("ab") as file:
        file.write(b"xyz")
    before = last.read_bytes()
    assert recover(dead, Config()).snapshot.warnings == [
        "the journal ended with 3 incomplete bytes, which are skipped"
    ]
    assert last.read_bytes() == before


def test_a_history_that_is_lost_is_made_again(dead: Any) -> None:
    """All of it is in the journal."""
    shutil.rmtree(dead.history)
    recover(dead, Config())
    assert len(list(HistoryReader(dead.history).intervals(level_s=1))) == 2


def test_a_result_that_went_elsewhere_is_left_alone(dead: Any, short_dir: Path) -> None:
    """The journal of a full disk ends early: what it makes is worse than what the run wrote itself."""
    result = replace(recover(dead, Config()).snapshot, state="COMPLETE", reason="in order")
    dead.final.unlink()
    write_final(result, [short_dir / "spare" / "telemetry-r1-final_snapshot.json"])
    config = load({"run.fallback_dirs": [str(short_dir / "spare")]}, cwd=short_dir, environ={}).config
    found = recover(dead, config)
    assert (found.written, found.snapshot) == (False, result)
    assert not dead.final.exists()


def test_files_that_fail_are_said(dead: Any) -> None:
    """A result that is silent about them would pass for whole."""
    assert recover(dead, Config()).snapshot.warnings == []
    dead.final.unlink()
    (dead.history / "keys.jsonl").write_bytes(b'{"schema_version":99}\n')
    log = dead.records / "records.jsonl"
    log.write_bytes(b"noise" + log.read_bytes())
    history, records = recover(dead, Config()).snapshot.warnings
    assert history.startswith("can't write the history: ")
    assert "schema version 99" in history
    assert records.startswith("can't write the record log: ")
    assert "line 1" in records


def test_damage_in_the_middle_is_said(dead: Any, make_again: Any, die: Any) -> None:
    """Damage of the journal and of the history is reported, although both go on behind it."""
    for _ in range(2):
        die(make_again(dead))
    journal = sorted(dead.journal.iterdir())[0]
    journal.write_bytes(journal.read_bytes()[:-1])
    (seconds,) = dead.history.glob("1s-*")
    seconds.with_name("1s-0000000060-0.seg").write_bytes(seconds.read_bytes())
    seconds.write_bytes(b"noise")
    shutil.rmtree(dead.records)  # else nobody would look at what lies before the last checkpoint
    restarted, *warnings = recover(dead, Config()).snapshot.warnings
    assert "restarted" in restarted
    assert warnings == [
        "can't read a time range of the journal; the numbers include it, from the next checkpoint",
        f"can't read 5 bytes of {seconds}",
    ]


def test_damage_in_the_middle_costs_no_account(dead: Any, make_again: Any, die: Any) -> None:
    """The checkpoint behind it has all of them: what came there is not called unknown."""
    die(make_again(dead))
    journal = sorted(dead.journal.iterdir())[0]
    data = bytearray(journal.read_bytes())
    data[-150] ^= 1
    journal.write_bytes(data)
    shutil.rmtree(dead.records)  # else nobody would look at what lies before the last checkpoint
    snapshot = recover(dead, Config()).snapshot
    assert (snapshot.accounting.applied, snapshot.exact) == (5, False)
    assert [said for said in snapshot.warnings if "restarted" not in said] == [
        "can't read a time range of the journal; the numbers include it, from the next checkpoint"
    ]


def test_seconds_that_nobody_has_are_counted(dead: Any, make_again: Any, die: Any) -> None:
    """Seconds that are in neither the history nor the journal are counted as lost."""
    service = make_again(dead)
    service.feed.roll()
    die(service)
    die(make_again(dead))
    shutil.rmtree(dead.history)
    for path in sorted(dead.journal.iterdir())[:-1]:
        path.unlink()
    service = make_again(dead)
    service.feed.roll()
    die(service)
    assert "2 seconds of the history are lost" in recover(dead, Config()).snapshot.warnings


def test_a_machine_that_was_restarted_is_said(dead: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """A second may be gone without a torn byte."""
    monkeypatch.setattr("telemetry.daemon.recovery.recover.SYSTEM_CLOCK", FakeClock(5_000, time.time_ns()))
    (said,) = recover(dead, Config()).snapshot.warnings
    assert said.startswith("the machine was restarted since")


def test_a_run_that_lost_power_is_never_complete(
    make_service: Any, connect: Any, die: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A producer that joined in the last second may be missing. A second recovery knows it from the journal."""
    service = make_service()
    peer = connect(service)
    peer.send(Mark("a"))
    peer.end()
    peer.until(lambda: peer.all(Ended))
    service.run_status.end("enough")
    directory = service.parts.directory
    die(service)
    monkeypatch.setattr("telemetry.daemon.recovery.recover.SYSTEM_CLOCK", FakeClock(5_000, time.time_ns()))
    for _ in range(2):
        snapshot = recover(directory, Config()).snapshot
        assert (snapshot.state, snapshot.completeness) == ("COMPLETE", "incomplete")
        assert Report(snapshot=snapshot, source="journal").unknown == "an unknown number of events may be missing"
        directory.final.unlink()


def test_a_run_that_had_ended_is_complete_after_a_restart(
    make_service: Any, connect: Any, die: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Once the books are closed, nothing can be missing."""
    service = make_service()
    peer = connect(service)
    peer.send(Mark("a"))
    peer.end()
    peer.until(lambda: peer.all(Ended))
    service.run_status.end("enough")
    service.close_books()
    directory = service.parts.directory
    die(service)
    monkeypatch.setattr("telemetry.daemon.recovery.recover.SYSTEM_CLOCK", FakeClock(5_000, time.time_ns()))
    assert recover(directory, Config()).snapshot.completeness == "complete"


def test_a_run_without_a_history_gets_none(make_service: Any, connect: Any, die: Any) -> None:
    """A run whose history was off gets none from a recovery."""
    service = make_service({"history.enabled": False})
    die(service)
    directory = service.parts.directory
    recover(directory, Config())
    assert not directory.history.exists()


def test_an_interruption_leaves_nothing_but_what_was_complete(dead: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Ctrl-C during the exact pass: no result, no lock, and it can be called again."""

    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(subject, "_refine", interrupt)
        with pytest.raises(KeyboardInterrupt):
            recover(dead, Config())
    assert not dead.final.exists()
    assert recover(dead, Config()).written


def test_a_result_that_holds_something_else_stays(dead: Any) -> None:
    """A journal that failed in mid-run can't refine what came after."""
    result = recover(dead, Config()).snapshot
    more = replace(result, exact=False, series=[replace(result.series[0], count=99, histogram=[])])
    write_final(more, [dead.final])
    with pytest.raises(RunDirectoryError, match="is missing some data"):
        recover(dead, Config(), exact=True)
    assert read_final(dead.final) == more
    assert not recover(dead, Config()).written


def test_a_directory_that_cannot_be_written(dead: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """The error says why; a second call may do better."""

    def fail(*_: object) -> None:
        raise RunDirectoryError("can't write the final result: no room")

    with monkeypatch.context() as patch:
        patch.setattr(subject, "write_final", fail)
        with pytest.raises(RunDirectoryError, match="no room"):
            recover(dead, Config())
    assert recover(dead, Config()).written


def test_damage_in_the_last_segment_is_said_and_cuts_the_run_off(dead: Any) -> None:
    """The events after the damage are in no number. The result is not exact and reports the damage."""
    (path,) = dead.journal.iterdir()
    data = bytearray(path.read_bytes())
    at = data.rindex(b"ev/1") - 40
    data[at] ^= 0xFF
    path.write_bytes(data)
    snapshot = recover(dead, Config()).snapshot
    assert (snapshot.state, snapshot.exact, snapshot.accounting.applied) == ("INTERRUPTED", False, 3)
    assert "its journal is unreadable after 20" in snapshot.reason
    assert snapshot.exact_reason.endswith("bytes of the journal are damaged")
    (said,) = [one for one in snapshot.warnings if "damaged and skipped: events after 20" in one]
    assert said.startswith(snapshot.exact_reason.partition(" ")[0])
    headline = Report(snapshot=snapshot, source="file").headline()
    assert headline.startswith("interrupted: job, 3 events applied, events after ")
    again = recover(dead, Config())
    assert (again.written, again.refinable) == (False, False)


@pytest.mark.parametrize("ended", ["in order", "recovered"])
def test_a_run_that_went_on_from_damage_is_never_exact(dead: Any, make_again: Any, die: Any, ended: str) -> None:
    """The part that was cut off is in no number. No pass over the rest finds the run's percentiles."""
    (path,) = dead.journal.iterdir()
    data = bytearray(path.read_bytes())
    data[data.rindex(b"ev/1") - 40] ^= 0xFF
    path.write_bytes(data)
    service = make_again(dead)
    if ended == "recovered":
        die(service)
        snapshot = recover(dead, Config()).snapshot
    else:
        service.run_status.end("enough")
        service.live()
        service.drain()
        finalize(service)
        snapshot = service.snapshot()
        assert snapshot.completeness == "incomplete"
    assert (snapshot.exact, snapshot.exact_reason) == (False, CUT)
    assert not another_may_succeed(snapshot.exact_reason)


def test_damage_that_the_numbers_do_not_need_is_said(dead: Any, make_again: Any, die: Any) -> None:
    """The exact pass reports damage in an old segment, because nothing else reads that segment."""
    for _ in range(2):
        die(make_again(dead))
    oldest = sorted(dead.journal.iterdir())[0]
    oldest.write_bytes(oldest.read_bytes()[:-1])
    snapshot = recover(dead, Config()).snapshot
    assert not snapshot.exact
    assert snapshot.warnings[1:] == [
        "can't read a time range of the journal; the numbers include it, from the next checkpoint"
    ]
    assert not recover(dead, Config()).refinable


def test_what_lacked_time_can_be_refined_while_there_is_a_journal(dead: Any) -> None:
    """A refinement is offered only while the journal that it needs exists."""
    result = recover(dead, Config()).snapshot
    late = replace(result, exact=False, exact_reason="the exact pass took more than 60 s")
    write_final(late, [dead.final])
    assert recover(dead, Config()) == Recovered(late, written=False, refinable=True)
    found = recover(dead, Config(), exact=True)
    assert (found.written, found.snapshot) == (True, replace(result, exact_reason=""))
    write_final(late, [dead.final])
    shutil.rmtree(dead.journal)
    assert not recover(dead, Config()).refinable


@pytest.mark.parametrize("manifest", [None, b"", b'{"run_id":5}'])
@pytest.mark.parametrize("history", [True, False])
def test_a_journal_needs_no_manifest(
    make_service: Any, connect: Any, die: Any, manifest: bytes | None, history: bool
) -> None:
    """A journal knows its run, and a warning reports that the manifest is lost."""
    service = make_service({"history.enabled": history})
    peer = connect(service)
    peer.send(Count("n", 0.1))
    peer.applied(1)
    die(service)
    path = service.parts.directory.path
    (path / "manifest.json").unlink()
    if manifest is not None:
        (path / "manifest.json").write_bytes(manifest)
    found = recover(RunDirectory.open(path), Config()).snapshot
    assert (found.run_id, found.name, found.accounting.applied, found.exact) == ("r1", "job", 1, True)
    (said,) = found.warnings
    assert "manifest" in said
    assert said.endswith("run id and name are taken from the journal")
    assert (path / "history").exists() == history
    assert not recover(RunDirectory.open(path), Config()).written


def test_a_run_without_values_that_lacks_its_end_is_not_exact(make_service: Any, die: Any) -> None:
    """A damaged end makes a run inexact, also where no percentile needs the journal. Its content is unknown."""
    service = make_service()
    die(service)
    directory = service.parts.directory
    with sorted(directory.journal.iterdir())[-1].open("ab") as file:
        file.write(b"noise" * 300)
    found = recover(directory, Config()).snapshot
    assert (found.exact, found.exact_reason) == (False, "1,500 bytes of the journal are damaged")


@pytest.mark.slow
def test_a_run_without_a_manifest_is_locked_all_the_same(make_service: Any) -> None:
    """A run without a manifest is locked, because it may be alive."""
    directory = make_service().parts.directory
    directory.manifest.unlink()
    with pytest.raises(RunDirectoryError, match="live aggregator"):
        recover(directory, Config())


def test_what_a_cap_has_cost_is_in_the_result(dead: Any) -> None:
    """A recovered result reports the loss by a cap, which happened before the recovery."""
    said = "the history reached its size limit (history.cap_bytes, 1.00 GiB): the oldest time range was deleted"
    (dead.history / "cap.txt").write_text(f"{said}\n")
    assert said in recover(dead, Config()).snapshot.warnings
