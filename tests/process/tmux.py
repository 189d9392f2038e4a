"""A real terminal to run things in: one tmux server with one window, driven by keys and read as text."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Callable, Mapping
from itertools import count
from pathlib import Path
from types import TracebackType
from typing import Self

DEADLINE_S = 60.0
_NUMBERS = count()


class Tmux:
    """A shell in `folder` with this environment. A context manager, which kills the server.

    The server's socket lies in `folder`, whose path must be short.
    """

    def __init__(self, folder: Path, environ: Mapping[str, str], columns: int = 100, rows: int = 30) -> None:
        self._socket = str(folder / f"tmux{next(_NUMBERS)}")
        self._folder = folder
        self._environ = {**environ, "ENV": ""}
        self._environ.pop("TMUX", None)
        self._say("-f", "/dev/null", "new-session", "-d", "-x", str(columns), "-y", str(rows), "/bin/sh")
        self.wait_until(lambda: self.screen().strip(), "the shell")

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        subprocess.run(["tmux", "-S", self._socket, "kill-server"], check=False, capture_output=True, timeout=30)

    def type(self, text: str) -> None:
        """Type the text as it is; a line ends with a newline character."""
        for at, line in enumerate(text.split("\n")):
            if at:
                self.press("Enter")
            if line:
                self._say("send-keys", "-l", line)

    def press(self, *keys: str) -> None:
        """Keys by tmux's names: `Enter`, `C-c`, `Escape`, `q`."""
        self._say("send-keys", *keys)

    def resize(self, columns: int, rows: int) -> None:
        self._say("resize-window", "-x", str(columns), "-y", str(rows))

    def wipe(self) -> None:
        """Wipe the screen, as if another program had drawn over it."""
        self._say("send-keys", "-R")

    def hang_up(self) -> None:
        """The terminal is closed under whatever runs in it."""
        self._say("kill-session")

    def screen(self) -> str:
        """Return what is on the screen now and what has scrolled away. Lines that were too long are whole."""
        return self._say("capture-pane", "-p", "-J", "-S", "-1000")

    def visible(self) -> list[str]:
        """The rows that are seen now, from the first to the last."""
        return self._say("capture-pane", "-p").split("\n")[:-1]

    def modes(self) -> str:
        """The terminal's settings, as `stty -g` says them."""
        path = self._say("display-message", "-p", "#{pane_tty}").strip()
        done = subprocess.run(["stty", "-g", "-F", path], check=True, capture_output=True, text=True, timeout=30)
        return done.stdout

    def in_full_screen(self) -> bool:
        """Return whether a program has the alternate screen."""
        return self._say("display-message", "-p", "#{alternate_on}").strip() == "1"

    def mouse_is_wanted(self) -> bool:
        """Return whether a program gets every movement of the mouse."""
        return self._say("display-message", "-p", "#{mouse_all_flag}").strip() == "1"

    def wait_for(self, *words: str) -> str:
        """Wait until all of these words are on the screen, and return its text."""
        self.wait_until(lambda: all(word in self.screen() for word in words), f"{words} to be seen")
        return self.screen()

    def wait_until(self, condition: Callable[[], object], what: str) -> None:
        deadline = time.monotonic() + DEADLINE_S
        while not condition():
            if time.monotonic() > deadline:
                raise AssertionError(f"waited in vain for {what}; the screen is\n{self.screen()}")
            time.sleep(0.05)

    def _say(self, *words: str) -> str:
        done = subprocess.run(
            ["tmux", "-S", self._socket, *words],
            cwd=self._folder,
            env=self._environ | {"PATH": os.environ["PATH"]},
            capture_output=True,
            text=True,
            timeout=30,
            check=False,
        )
        assert done.returncode == 0, (words, done.stderr)
        return done.stdout
