"""A service from its announcement to its end: nothing is lost by a defect, nothing is left behind."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from telemetry.daemon import build, lifetime
from telemetry.daemon.finalize import finalize
from telemetry.errors import RunDirectoryError, TelemetryError
from telemetry.store.final_snapshot import read_final
from telemetry.transport.keeper_lock import KeeperLock, keeper_of
from telemetry.wire.events import Count


def test_a_defect_in_the_loop_ends_the_run_and_costs_no_result(
    make_service: Any, connect: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The file has the values that were applied, and tells that the run was cut short, and why."""
    service = make_service()
    peer = connect(service)
    peer.send(Count("n", 5.0))
    peer.applied(1)

    def fail(*_: object) -> None:
        raise ZeroDivisionError("a defect")

    monkeypatch.setattr(service.parts.aggregator, "apply", fail)
    assert peer.link.send_events(peer.frame([Count("n")]))
    lifetime.run(service)
    assert finalize(service)
    result = read_final(service.parts.directory.final)
    assert (result.state, result.completeness) == ("INTERRUPTED", "interrupted")
    assert result.reason == "the aggregator failed: ZeroDivisionError('a defect')"
    assert (result.counters[0].value, result.accounting.applied, result.accounting.waiting) == (5, 1, 1)
    assert "Traceback" in service.parts.directory.log.read_text()


def test_what_a_killed_keeper_left_goes_with_the_run(make_service: Any, short_dir: Path) -> None:
    """The lock of a killed keeper is removed, because it would hold the folder of the sockets.

    A living keeper's stays.
    """
    service = make_service()
    service.run_status.end("enough", interrupted=True)
    folder = short_dir / "telemetry" / "r1"
    (folder / "keeper.lock").write_text("7")
    lifetime.serve(service)
    assert not folder.exists()
    service = make_service(run_id="r2")
    service.run_status.end("enough", interrupted=True)
    keeping = KeeperLock("r2")
    lifetime.serve(service)
    assert keeper_of("r2") == os.getpid()
    keeping.end()
    assert not (short_dir / "telemetry" / "r2").exists()


def test_a_run_that_cannot_be_announced_says_so_and_lets_go(
    make_options: Any, short_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A process that waits for the announcement gets the reason of the failure."""

    def fail(*_: object) -> None:
        raise RunDirectoryError("can't register the run")

    monkeypatch.setattr(lifetime, "announce", fail)
    monkeypatch.setattr(build, "SignalPipe", lambda: None)
    reader, writer = os.pipe()
    with os.fdopen(reader) as pipe:
        with pytest.raises(TelemetryError):
            build.run_daemon(make_options(ready_fd=writer))
        assert json.loads(pipe.read())["error"] == "can't register the run"
    assert list((short_dir / "telemetry").iterdir()) == []
