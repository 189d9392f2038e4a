"""Processes that record beside the wrapped command: its feeds, its gateway and its collectors."""

from __future__ import annotations

from contextlib import ExitStack
from types import TracebackType
from typing import Self

from telemetry.cli.beside_run.collectors import RunCollectors
from telemetry.cli.beside_run.feeds import Feeds
from telemetry.cli.beside_run.gateway import RunGateway


class Companions:
    """The feeds, the gateway and the collectors of a run. A context manager that leaves no process behind."""

    def __init__(self, feeds: Feeds, gateway: RunGateway, collectors: RunCollectors) -> None:
        self._feeds = feeds
        self._gateway = gateway
        self._collectors = collectors
        self._stack = ExitStack()

    @property
    def variables(self) -> dict[str, str]:
        """Environment variables for the command."""
        return self._gateway.variables

    @property
    def pids(self) -> list[int]:
        """Process ids of the companions. They are no workers of the command."""
        return [*self._feeds.pids, *self._gateway.pids, *self._collectors.pids]

    @property
    def failed(self) -> bool:
        """True if one of them failed. Valid once they have ended."""
        return self._feeds.failed or self._gateway.failed or self._collectors.failed

    def begin(self, endpoint: str) -> None:
        """Start feeds and gateway for the run that listens at `endpoint`. Raises OSError."""
        self._feeds.begin(endpoint)
        self._gateway.begin(endpoint)

    def accompany(self, endpoint: str, pid: int) -> None:
        """Start the collectors, which observe the command: the process `pid`."""
        self._collectors.begin(endpoint, pid)

    def end(self) -> None:
        """Let them record all that they have received, then end them. May be called twice."""
        self._collectors.end()
        self._feeds.end()
        self._gateway.end()

    def __enter__(self) -> Self:
        self._stack.enter_context(self._feeds)
        self._stack.enter_context(self._gateway)
        self._stack.enter_context(self._collectors)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stack.close()
