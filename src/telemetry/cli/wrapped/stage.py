"""Who has the terminal while a wrapped command runs: the command, or a viewer first and then the command."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from types import TracebackType
from typing import Final, Protocol, Self

from telemetry.cli import console
from telemetry.cli.wrapped.command import Launch
from telemetry.errors import UsageError


class Stage(Protocol):
    """Main thread only, except for `say`. A context manager, which gives the terminal back as it was."""

    @property
    def launch(self) -> Launch | None:
        """How to start the command; None: as any child."""

    def begin(self, directory: str, environment: Mapping[str, str]) -> None:
        """The command runs, and its run is in `directory`."""

    def say(self, message: str) -> None:
        """One line of talk, as soon as there is room for it."""

    def pass_by(self, text: str) -> None:
        """Talk that is worth something only now."""

    def over(self) -> None:
        """The command has ended."""

    def await_leave(self, *, patient: bool) -> None:
        """The result is there. Returns when nobody looks at it any more; without patience nobody is waited for."""

    def __enter__(self) -> Self: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...


def open_stage(*, tui: bool) -> Stage:
    """Raises UsageError if a viewer is wanted and has no terminal to be in."""
    if not tui:
        return PlainStage()
    capable = os.environ.get("TERM", "dumb") != "dumb"
    if not (capable and sys.stdin.isatty() and sys.stderr.isatty()):
        raise UsageError(
            "--tui needs a terminal, on stdin and on stderr",
            hint="leave it out, and look at the run with `telemetry top` from a terminal",
        )
    from telemetry.cli.wrapped.terminal import Terminal
    from telemetry.cli.wrapped.viewer_stage import ViewerStage

    streams = [fd for fd, stream in enumerate((sys.stdin, sys.stdout, sys.stderr)) if stream.isatty()]
    return ViewerStage(Terminal(0, 2), streams)


class PlainStage:
    """The command has our streams, and we talk between its lines."""

    launch: Final[Launch | None] = None

    def begin(self, directory: str, environment: Mapping[str, str]) -> None:
        pass

    def say(self, message: str) -> None:
        console.say(message)

    def pass_by(self, text: str) -> None:
        console.talk(text)

    def over(self) -> None:
        pass

    def await_leave(self, *, patient: bool) -> None:
        pass

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        pass
