"""A run that a test of the Tracelet interface joins, and what came of it."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from telemetry.client import run as run_module
from telemetry.client.process import ENDPOINT_VARIABLE, PROCESS
from telemetry.compat.tracelet import settings
from telemetry.compat.tracelet.core.experiment import SHARED_RUN
from telemetry.testing.aggregator import FakeAggregator
from telemetry.wire.events import Artifact, Note, Params, Scalars


class Joined:
    """The records that the joined run got. Reading them ends the producer of this process."""

    def __init__(self, aggregator: FakeAggregator) -> None:
        self._aggregator = aggregator
        self._records: list[Any] | None = None

    @property
    def records(self) -> list[Any]:
        if self._records is None:
            PROCESS.finish(10.0)
            self._records = [one for heard in self._aggregator.heard.values() for one in heard.records]
        return self._records

    def of(self, kind: type[Any]) -> list[Any]:
        return [record for record in self.records if isinstance(record, kind)]

    @property
    def params(self) -> dict[str, Any]:
        return {name: value for record in self.of(Params) for name, value in record.values.items()}

    @property
    def values(self) -> list[tuple[str, int, Any]]:
        """Name, step and value, in the order of the calls."""
        found = self.of(Scalars)
        return [(name, one.step, value) for one in found for name, value in one.values.items()]

    @property
    def texts(self) -> dict[str, str]:
        return {note.name: note.text for note in self.of(Note)}

    @property
    def artifacts(self) -> dict[str, Artifact]:
        return {one.name: one for one in self.of(Artifact)}

    def gauge(self, name: str) -> list[float]:
        assert self.records is not None
        return self._aggregator.values(name)


@pytest.fixture
def joined(short_dir: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Joined]:
    """A run to join, in an empty working directory without settings."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("TELEMETRY_EMIT__FLUSH_MS", "2")
    for name in ("system", "git", "env", "args", "checkpoints", "tensorboard", "lightning"):
        monkeypatch.setenv(f"TRACELET_TRACK_{name.upper()}", "false")
    with FakeAggregator(short_dir) as aggregator:
        monkeypatch.setenv(ENDPOINT_VARIABLE, aggregator.endpoint)
        yield Joined(aggregator)
        settings.configure(None)
        run_module._STARTER.run = None
        SHARED_RUN.forget()
        PROCESS.finish(5.0)
        PROCESS.reopen()
        PROCESS._late.take()


@pytest.fixture
def told(caplog: pytest.LogCaptureFixture) -> Callable[[], str]:
    """The messages to the user so far."""
    return lambda: "\n".join(record.getMessage() for record in caplog.records if record.name == "telemetry.client")


@pytest.fixture
def eventually() -> Callable[[Callable[[], object]], None]:
    def wait(condition: Callable[[], object]) -> None:
        deadline_s = time.monotonic() + 20.0
        while not condition():
            assert time.monotonic() < deadline_s, "the condition did not come true"
            time.sleep(0.005)

    return wait
