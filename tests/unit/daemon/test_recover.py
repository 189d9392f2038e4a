"""The result of a dead run; real deaths are in tests/process/test_recover.py."""

from __future__ import annotations

import shutil
import time
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from telemetry.config import Config, load
from telemetry.daemon import recover as subject
from telemetry.daemon.recover import recover
from telemetry.errors import RunDirectoryError
from telemetry.store.final import read_final, write_final
from telemetry.store.history import HistoryReader
from telemetry.testing import FakeClock
from telemetry.wire.events import Count, Mark, Sample


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
    assert history.startswith("the history could not be written: ")
    assert "schema version 99" in history
    assert records.startswith("the record log could not be written: ")
    assert "line 1" in records


def test_damage_in_the_middle_is_said(dead: Any, make_again: Any, die: Any) -> None:
    """Of the journal and of the history, although both go on behind it."""
    for _ in range(2):
        die(make_again(dead))
    journal = sorted(dead.journal.iterdir())[0]
    journal.write_bytes(journal.read_bytes()[:-1])
    (seconds,) = dead.history.glob("1s-*")
    seconds.with_name("1s-0000000060-0.seg").write_bytes(seconds.read_bytes())
    seconds.write_bytes(b"noise")
    shutil.rmtree(dead.records)  # else nobody would look at what lies before the last checkpoint
    warnings = recover(dead, Config()).snapshot.warnings
    assert warnings == [
        "a part of the journal can't be read: the numbers have it, from the checkpoint that follows it",
        "5 bytes in the middle of the history can't be read",
    ]


def test_seconds_that_nobody_has_are_counted(dead: Any, make_again: Any, die: Any) -> None:
    """They are in neither the history nor the journal."""
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
    """A second may be gone without a torn byte, also of a result that is complete."""
    monkeypatch.setattr("telemetry.daemon.resume.SYSTEM_CLOCK", FakeClock(5_000, time.time_ns()))
    (said,) = recover(dead, Config()).snapshot.warnings
    assert said.startswith("the machine was restarted since")


def test_a_run_without_a_history_gets_none(make_service: Any, connect: Any, die: Any) -> None:
    """It was off."""
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
    more = replace(result, exact=False, series=[replace(result.series[0], count=99)])
    write_final(more, [dead.final])
    with pytest.raises(RunDirectoryError, match="does not hold all"):
        recover(dead, Config(), exact=True)
    assert read_final(dead.final) == more
    assert not recover(dead, Config()).written


def test_a_directory_that_cannot_be_written(dead: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """The error says why; a second call may do better."""

    def fail(*_: object) -> None:
        raise RunDirectoryError("the final result can't be written: no room")

    with monkeypatch.context() as patch:
        patch.setattr(subject, "write_final", fail)
        with pytest.raises(RunDirectoryError, match="no room"):
            recover(dead, Config())
    assert recover(dead, Config()).written
