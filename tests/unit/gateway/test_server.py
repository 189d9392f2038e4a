"""The end of a gateway's server, with real addresses and files."""

from __future__ import annotations

import asyncio
import os
import socket
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from telemetry.gateway import server
from telemetry.store.final_snapshot import write_final
from telemetry.transport.keeper_lock import KeeperLock
from telemetry.wire.snapshot import MetricsSnapshot

RUN = "0123456789abcdef0123456789abcdef"
GONE = (1 << 22) + 1
"""No process has this id, so it is no parent."""


def run_in(folder: Path, *, is_over: bool = False) -> Any:
    return SimpleNamespace(
        endpoint=f"ipc://{folder / 'control'}",
        welcome=SimpleNamespace(run_id=RUN, directory=str(folder), name="job"),
        snapshots=SimpleNamespace(over=is_over),
        silent=True,
    )


def ends(run: Any, parent: int) -> bool:
    """Return whether the server ends, within some looks."""

    async def wait() -> bool:
        try:
            await asyncio.wait_for(server.until_over(run, parent), 10 * server.LOOK_S)
        except TimeoutError:
            return False
        return True

    return asyncio.run(wait())


@pytest.fixture(autouse=True)
def runtime(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(server, "LOOK_S", 0.02)
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))


@pytest.fixture
def listener(tmp_path: Path) -> Iterator[socket.socket]:
    with socket.socket(socket.AF_UNIX) as made:
        made.bind(str(tmp_path / "control"))
        made.listen()
        yield made


def test_the_last_snapshot_ends_it(tmp_path: Path, listener: socket.socket) -> None:
    """A run that goes on does not, whatever happens to the parent."""
    assert ends(run_in(tmp_path, is_over=True), 0)
    assert not ends(run_in(tmp_path), GONE)


def test_an_aggregator_that_nobody_restarts_ends_the_gateway_beside_it(tmp_path: Path) -> None:
    """A parent, or any other keeper of the run, restarts it. A gateway of its own waits for `serve --resume`."""
    assert ends(run_in(tmp_path), GONE)
    assert not ends(run_in(tmp_path), os.getppid())
    assert not ends(run_in(tmp_path), 0)
    keeper = KeeperLock(RUN)
    assert not ends(run_in(tmp_path), GONE)
    keeper.end()


def test_a_result_ends_it(tmp_path: Path) -> None:
    """`telemetry recover` writes one without a last snapshot."""
    write_final(MetricsSnapshot(run_id=RUN, name="job", state="COMPLETE"), [tmp_path / "final_snapshot.json"])
    assert ends(run_in(tmp_path), 0)
