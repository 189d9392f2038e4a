"""Tests of the beginning of a new run."""

from __future__ import annotations

from typing import Any

import pytest

from telemetry.errors import RunDirectoryError
from telemetry.store.history import HistoryReader
from telemetry.store.journal import JournalReader
from telemetry.wire.codec import decode_checkpoint


def test_a_new_run_begins_with_a_checkpoint_of_nothing(make_service: Any) -> None:
    """A reader of the journal knows the run and its clocks from the first frame on."""
    service = make_service()
    (frame,) = JournalReader(service.parts.directory.journal).frames()
    run = decode_checkpoint(frame.data).run
    assert (run.run_id, run.name, run.host) == ("r1", "job", service.parts.host)
    assert run.started_ns == service.run_status.started_ns == run.rolled_wall_ns
    assert run.started_mono_ns == service.run_status.started_mono_ns == run.rolled_mono_ns == frame.time_ns
    assert service.snapshot().started_ns == run.started_ns


def test_the_directory_is_locked_and_says_where_the_run_listens(make_service: Any) -> None:
    """All four addresses, as they were bound; another process can't take the directory meanwhile."""
    service = make_service({"transport.bind": "tcp://127.0.0.1:*"})
    directory, endpoints = service.parts.directory, service.parts.hub.endpoints
    assert directory.locked()
    assert directory.read_manifest().endpoints == list(vars(endpoints).values())
    assert all("*" not in address for address in directory.read_manifest().endpoints)
    service.parts.let_go()
    assert not directory.locked()


def test_what_cannot_be_opened_leaves_the_directory_unlocked(
    make_service: Any, make_options: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A failed opening leaves no lock that would look like a live aggregator."""
    from telemetry.daemon import run_opening
    from telemetry.daemon.build import build
    from telemetry.store.run_directory import list_runs

    def fail(*_: object, **__: object) -> None:
        raise RunDirectoryError("no")

    for name in ("manifest_for", "RecordLog"):
        with monkeypatch.context() as patch:
            patch.setattr(run_opening, name, fail)
            with pytest.raises(RunDirectoryError):
                build(make_options(run_id=f"r{name[0]}"), None)
    runs = list_runs(make_options().root)
    assert [run.locked() for run in runs] == [False, False]


def test_history_and_journal_can_be_off(make_service: Any) -> None:
    """A run goes on without history and journal if both are off."""
    service = make_service({"journal.enabled": False, "history.enabled": False})
    service.feed.roll()
    assert not service.parts.directory.journal.exists()
    with pytest.raises(RunDirectoryError):
        HistoryReader(service.parts.directory.history).keys()
