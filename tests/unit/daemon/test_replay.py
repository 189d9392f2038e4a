"""A replay put together; whole ones are in tests/process/test_replay.py."""

from __future__ import annotations

import math
import shutil
import threading
from pathlib import Path
from typing import Any

import pytest

from telemetry.daemon.lifetime import let_go
from telemetry.daemon.replay import build_replay
from telemetry.errors import RunDirectoryError
from telemetry.store.final_snapshot import write_final
from telemetry.store.run_directory import Manifest, RunDirectory
from telemetry.wire import control as msg
from telemetry.wire.events import Count
from telemetry.wire.snapshot import MetricsSnapshot


@pytest.fixture
def ended(make_service: Any, connect: Any, die: Any) -> Any:
    """The directory of a run that had one producer, and died."""
    service = make_service()
    peer = connect(service)
    peer.send(Count("n", 0.1))
    peer.applied(1)
    service.feed.roll()
    die(service)
    return service.parts.directory


def test_it_is_a_run_of_its_own(ended: Any, make_options: Any, connect: Any) -> None:
    """A replay has its own id, directory and addresses, and the original's time.

    Producers are refused, observers are not.
    """
    options = make_options(run_id="r2", name="replay of job", epoch="e9")
    service = build_replay(options, ended, math.inf, None)
    try:
        watcher = connect(service, "watcher", greet=False)
        refused: Any = watcher.ask(msg.Hello(id=1, producer="watcher"))
        assert (refused.code, refused.message) == ("refused", "this is a replay of run r1: it accepts no events")
        refused = watcher.ask(msg.End(id=2, producer="watcher", batches=0, emitted=0))
        assert refused.code == "refused"
        welcome: Any = watcher.ask(msg.Hello(id=3))
        assert (welcome.run_id, welcome.name, welcome.epoch) == ("r2", "replay of job", "e9")
        service.live()
        service.drain()
        snapshot = service.snapshot()
        assert (snapshot.run_id, snapshot.counters[0].value, snapshot.accounting.applied) == ("r2", 0.1, 1)
        assert snapshot.directory != str(ended.path)
        assert service.run_status.interrupted
        assert not service.parts.directory.journal.exists()
        assert service.parts.directory.read_manifest().replay_of == str(ended.path)
    finally:
        service.parts.worker.close(20.0)
        let_go(service)


def test_an_aggregator_that_has_its_result_is_waited_for(ended: Any, make_options: Any) -> None:
    """An aggregator holds its run for a moment after its command.

    A replay waits for it, as in `telemetry run …; telemetry replay latest`.
    """
    write_final(MetricsSnapshot(run_id="r1", name="job", state="COMPLETE"), [ended.final])
    lock = ended.lock()
    timer = threading.Timer(0.2, lock.release)
    timer.start()
    service = build_replay(make_options(run_id="r2"), ended, math.inf, None)
    try:
        assert service.parts.directory.read_manifest().replay_of == str(ended.path)
    finally:
        timer.join()
        service.parts.worker.close(20.0)
        let_go(service)


def test_what_cannot_be_replayed_leaves_nothing_behind(
    ended: Any, make_options: Any, make_service: Any, short_dir: Path
) -> None:
    """A failed replay leaves no directory and no sockets."""
    live = make_service(run_id="r3")
    before = sorted((short_dir / "runs").iterdir())
    with pytest.raises(RunDirectoryError, match="still going"):
        build_replay(make_options(run_id="r2"), live.parts.directory, 1.0, None)
    for path in ended.journal.iterdir():
        path.unlink()
    with pytest.raises(RunDirectoryError, match="no journal"):
        build_replay(make_options(run_id="r2"), ended, 1.0, None)
    replay = RunDirectory.create(short_dir / "runs", "replay of job", "r4", 1, latest=False)
    replay.write_manifest(Manifest(run_id="r4", name="replay of job", replay_of="/a b"))
    with pytest.raises(RunDirectoryError, match=r"is a replay, which keeps no journal.*`telemetry replay '/a b'`"):
        build_replay(make_options(run_id="r2"), replay, 1.0, None)
    shutil.rmtree(replay.path)
    assert sorted((short_dir / "runs").iterdir()) == before
    assert not (short_dir / "telemetry" / "r2").exists()
