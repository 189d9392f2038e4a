"""Processes that record beside the wrapped command: its feeds and its gateway."""

from __future__ import annotations

from contextlib import ExitStack
from types import TracebackType
from typing import Self

from telemetry.cli.beside_run.feeds import Feeds
from telemetry.cli.beside_run.gateway import RunGateway


class Companions:
    """The feeds and the gateway of a run. A context manager that leaves no process behind."""

    def __init__(self, feeds: Feeds, gateway: RunGateway) -> None:
        self._feeds = feeds
        self._gateway = gateway
        self._stack = ExitStack()

    @property
    def variables(self) -> dict[str, str]:
        """Environment variables for the command."""
        return self._gateway.variables

    @property
    def pids(self) -> list[int]:
        """Process ids of the companions. They are no workers of the command."""
        return [*self._feeds.pids, *self._gateway.pids]

    @property
    def failed(self) -> bool:
        """True if one of them failed. Valid once they have ended."""
        return self._feeds.failed or self._gateway.failed

    def begin(self, endpoint: str) -> None:
        """Start them for the run that listens at `endpoint`. Raises OSError."""
        self._feeds.begin(endpoint)
        self._gateway.begin(endpoint)

    def end(self) -> None:
        """Let them record all that they have received, then end them. May be called twice."""
        self._feeds.end()
        self._gateway.end()

    def __enter__(self) -> Self:
        self._stack.enter_context(self._feeds)
        self._stack.enter_context(self._gateway)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stack.close()
