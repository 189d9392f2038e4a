"""Use of the terminal while a wrapped command runs: the command has it, or a viewer first and then the command."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import Final, Protocol, Self

from telemetry.cli import console
from telemetry.cli.wrapped.command import Launch
from telemetry.cli.wrapped.status_line import LiveDisplay, open_display
from telemetry.errors import UsageError
from telemetry.redaction import Redactor
from telemetry.report.live_line import LinePart


class TerminalMode(Protocol):
    """An interface to the terminal. A context manager that restores the terminal.

    Main thread only, except for `say`.
    """

    @property
    def launch(self) -> Launch | None:
        """Function that starts the command; None to start it as a normal child."""

    def begin(self, directory: str, environment: Mapping[str, str]) -> None:
        """Begin. The command runs, and its run is in `directory`."""

    def say(self, message: str) -> None:
        """Print one message line, once the screen is free for it."""

    def pass_by(self, text: str) -> None:
        """Print a message that is useful only now. Dropped while the screen is in use."""

    def show(self, parts: Sequence[LinePart]) -> None:
        """Show the live line. Dropped while the screen is in use."""

    def over(self) -> None:
        """End. The command has ended."""

    def await_leave(self, *, patient: bool) -> None:
        """Wait until the viewer has left; the result is ready. With `patient` False, end the viewer at once."""

    def __enter__(self) -> Self: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...


def open_mode(*, tui: bool, redactor: Redactor | None = None) -> TerminalMode:
    """Return the stage for this run. Raises UsageError if a viewer is requested without a terminal."""
    if not tui:
        return PlainMode()
    capable = os.environ.get("TERM", "dumb") != "dumb"
    if not (capable and sys.stdin.isatty() and sys.stderr.isatty()):
        raise UsageError(
            "--tui requires a terminal on stdin and stderr",
            hint="remove --tui, and watch the run with `telemetry top` in another terminal",
        )
    from telemetry.cli.wrapped.terminal import Terminal
    from telemetry.cli.wrapped.viewer_mode import ViewerMode

    streams = [fd for fd, stream in enumerate((sys.stdin, sys.stdout, sys.stderr)) if stream.isatty()]
    return ViewerMode(Terminal(0, 2), streams, redactor=redactor)


class PlainMode:
    """A stage without a viewer.

    The command inherits the standard streams, and messages appear between its lines. The live line has a row of its
    own on a terminal.
    """

    launch: Final[Launch | None] = None

    def __init__(self) -> None:
        self._display: LiveDisplay | None = None

    def begin(self, directory: str, environment: Mapping[str, str]) -> None:
        pass

    def say(self, message: str) -> None:
        console.say(message)

    def pass_by(self, text: str) -> None:
        console.talk(text)

    def show(self, parts: Sequence[LinePart]) -> None:
        if self._display is None:
            self._display = open_display(sys.stderr)
        self._display.show(parts)

    def over(self) -> None:
        if self._display is not None:
            self._display.end()
            self._display = None

    def await_leave(self, *, patient: bool) -> None:
        pass

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.over()
