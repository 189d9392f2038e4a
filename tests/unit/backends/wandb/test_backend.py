"""Tests of how the W&B backend uses sessions, with logs made here.

Tests with W&B's own logs are in tests/backends.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from tests.unit.backends.wandb.logs import log, row

from telemetry.backends.backend import NotConfigured, RunFacts, Unavailable
from telemetry.backends.items import Step
from telemetry.backends.wandb import backend as module
from telemetry.backends.wandb.backend import WandbBackend, WandbOptions
from telemetry.backends.wandb.log import LogEntry

pytestmark = pytest.mark.sdk


class Writing:
    """A session; its rows are in its log at once, or not before it is told."""

    begun: list[Writing]
    messages: Any
    server_has = 0

    def __init__(self, _: Any, identity: Any, folder: Path) -> None:
        number = len(self.begun)
        self.log = folder / "wandb" / f"offline-run-2026010{number + 1}_000000-run-1" / "run-run-1.wandb"
        self.log.parent.mkdir(parents=True)
        self.log.write_bytes(log())
        self.url = "" if identity.offline else "https://there"
        self.next_row = self.server_has
        self.process_id = 1 << 30
        self.kept: list[bytes] = []
        self.rows: list[tuple[int, str]] = []
        self.again_with: list[LogEntry] = []
        self.slow = self.dead = self.killed = self.finished = False
        self.begun.append(self)

    def define(self, column: str, axis: str) -> None:
        """Ignore the column and its axis."""

    def row(self, number: int, values: Mapping[str, Any]) -> None:
        self.rows.append((number, values["_item"]))
        self.kept.append(row(self.messages, number, **values))
        if not self.slow:
            self.log.write_bytes(log(*self.kept))

    def again(self, said: LogEntry) -> None:
        self.again_with.append(said)

    def alive(self) -> bool:
        return not self.dead

    def kill(self) -> None:
        self.killed = True

    def finish(self, *, ended: bool) -> None:
        self.finished = True


@pytest.fixture
def sessions(monkeypatch: pytest.MonkeyPatch) -> list[Writing]:
    from wandb.proto import wandb_internal_pb2

    made: list[Writing] = []
    fresh = type("Fresh", (Writing,), {"begun": made, "messages": wandb_internal_pb2})
    monkeypatch.setattr(module, "WandbSession", fresh)
    monkeypatch.setattr(module, "library", lambda _: None)
    monkeypatch.delenv("WANDB_MODE", raising=False)
    monkeypatch.delenv("WANDB_DIR", raising=False)
    return made


def opened(place: Path, state: dict[str, Any], mode: Any = "offline") -> WandbBackend:
    backend = WandbBackend(WandbOptions(mode=mode), place)
    backend.open(RunFacts("run-1", "bench", 10**9, None), state)
    return backend


def steps(*numbers: int) -> list[Step]:
    return [Step(key=f"r{one}", time_ns=10**9, axis="train", step=one, values={"a": 1.0}) for one in numbers]


def test_rows_are_numbered_through(tmp_path: Path, sessions: list[Writing]) -> None:
    """Rows are numbered through, whatever their steps are. W&B drops a row whose number is not above the last."""
    backend = opened(tmp_path, {})
    backend.write(steps(7, 3))
    backend.flush()
    backend.write(steps(5))
    backend.flush()
    assert sessions[0].rows == [(0, "r7"), (1, "r3"), (2, "r5")]
    assert backend.state()["next_row"] == 3


def test_what_is_in_the_log_is_passed_over(tmp_path: Path, sessions: list[Writing]) -> None:
    """Items that are in the log are passed over. After a kill, items come again from the newest checkpoint on."""
    backend = opened(tmp_path, {})
    backend.write(steps(1, 2))
    backend.flush()
    state = backend.state()
    backend.write(steps(3, 4))
    later = opened(tmp_path, state)
    later.write(steps(3, 4, 5))
    later.flush()
    assert sessions[1].rows == [(4, "r5")]


def test_what_is_not_in_the_log_comes_again(tmp_path: Path, sessions: list[Writing]) -> None:
    """Items that are not in the log come again, also in the same process once W&B's own is gone."""
    backend = opened(tmp_path, {})
    backend.write(steps(1))
    sessions[0].slow = True
    backend.write(steps(2))
    sessions[0].dead = True
    with pytest.raises(Unavailable, match="exited"):
        backend.flush()
    assert sessions[0].killed
    backend.write(steps(1, 2))
    backend.flush()
    assert [item for _, item in sessions[1].rows] == ["r2"]


def test_a_log_that_does_not_grow_is_not_waited_for_for_ever(
    tmp_path: Path, sessions: list[Writing], monkeypatch: pytest.MonkeyPatch
) -> None:
    """W&B's process hangs, or has no room: it is ended, so that nothing comes later."""
    monkeypatch.setattr(module, "_DURABLE_S", 0.05)
    backend = opened(tmp_path, {})
    sessions[0].slow = True
    backend.write(steps(1))
    with pytest.raises(Unavailable, match="nothing to its log"):
        backend.flush()
    assert sessions[0].killed


def test_a_server_gets_the_rows_it_lacks(tmp_path: Path, sessions: list[Writing]) -> None:
    """A server gets the rows it lacks from the logs when a process begins.

    An offline session sends no row again.
    """
    backend = opened(tmp_path, {})
    backend.write(steps(1, 2, 3))
    backend.flush()
    type(sessions[0]).server_has = 1
    opened(tmp_path, backend.state(), "online")
    assert [said.number for said in sessions[1].again_with] == [1, 2]
    opened(tmp_path, backend.state())
    assert sessions[2].again_with == []


def test_a_row_that_failed_is_not_waited_for(
    tmp_path: Path, sessions: list[Writing], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The backend does not wait for a row that failed. The writer finds out what is wrong with it."""
    backend = opened(tmp_path, {})

    def wrong(*_: Any) -> None:
        raise ValueError("no")

    with monkeypatch.context() as patch:
        patch.setattr(sessions[0], "row", wrong)
        with pytest.raises(ValueError, match="no"):
            backend.write(steps(1))
    backend.write(steps(2))
    backend.flush()
    assert sessions[0].rows == [(0, "r2")]


def test_an_end_is_once(tmp_path: Path, sessions: list[Writing]) -> None:
    """The second time there is no session, and for the last word one is begun."""
    backend = opened(tmp_path, {})
    backend.close(final=True)
    backend.close(final=False)
    assert [session.finished for session in sessions] == [True]
    backend.close(final=True)
    assert [session.finished for session in sessions] == [True, True]


def test_modes_that_write_nothing_are_refused(
    tmp_path: Path, sessions: list[Writing], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The environment of a user who has switched W&B off is no run on disk."""
    monkeypatch.setenv("WANDB_MODE", "disabled")
    with pytest.raises(NotConfigured, match="disabled"):
        WandbBackend(WandbOptions(), tmp_path)
    monkeypatch.setenv("WANDB_MODE", "offline")
    assert opened(tmp_path, {}, "").where() == str(sessions[0].log.parent)
