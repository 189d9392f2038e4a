"""The keeper of a stack: the process that starts its parts, waits until they are ready, restarts and ends them."""

from __future__ import annotations

import os
import socket
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from http.client import HTTPException
from pathlib import Path
from typing import Final
from urllib.request import ProxyHandler, build_opener

from telemetry import limits
from telemetry.errors import EndpointError, TelemetryError
from telemetry.stack.layout import StackLayout
from telemetry.stack.parts import Part
from telemetry.stack.ports import holder, is_taken_by
from telemetry.store.append_file import AppendFile, describe
from telemetry.store.processes import start_of
from telemetry.store.stack_state import PartState, StackState, remove_state, write_state
from telemetry.supervise.child import Child, ChildPolicy

Say = Callable[[str], object]
LOGS: Final = "logs"
_POLICY: Final = ChildPolicy(
    "server",
    pause_s=limits.RESTART_PAUSE_S,
    lasts_s=limits.RESTART_LASTS_S,
    tells_stdout=True,
)
_COMPOSE_POLICY: Final = ChildPolicy("command", told_codes=frozenset(range(256)), tells_stdout=True)
_LOOK_S: Final = 0.2
_ANSWER_S: Final = 2.0
_END_S: Final = 20.0  # Prometheus writes what it has in memory
_LAST_LINES: Final = 5
_OPENER: Final = build_opener(ProxyHandler({}))


class NotReadyError(EndpointError):
    """A part of the stack ended early, or was not ready in time."""


class Keeper:
    """The parts of one stack. Use it from one thread. `ending` is set by a signal."""

    def __init__(
        self,
        layout: StackLayout,
        parts: Sequence[Part],
        compose: Sequence[str],
        *,
        say: Say,
        line: Callable[[str, str], object],
        ending: threading.Event,
    ) -> None:
        """Make the keeper without starting anything.

        `say` gets messages for the user, `line` gets the name of a part and a line of its output, from any thread.
        """
        self._layout = layout
        self._parts = [part for part in parts if part.how is not None]
        self._skipped = [part for part in parts if part.how is None]
        self._say = say
        self._line = line
        self._ending = ending
        self._children: dict[str, Child] = {}
        self._logs: dict[str, LogFile] = {}
        self._last_lines: dict[str, deque[str]] = {part.name: deque(maxlen=_LAST_LINES) for part in self._parts}
        self._in_containers = [part.name for part in self._parts if part.how == "compose"]
        self._compose = [*compose, "--file", str(layout.compose_yaml)] if self._in_containers else []
        self._containers_began = self._containers_run = False
        self._follower: Child | None = None
        self.was_interrupted = False
        """True if a signal came before the end began."""
        self.is_ready = False
        """True once all parts have answered."""
        self._state = self._state_now()

    @contextmanager
    def running(self) -> Iterator[None]:
        """Start the parts, and end them after the block, however it ends. Raises TelemetryError, OSError."""
        try:
            self._start()
            yield
        finally:
            self._end()

    def wait_until_ready(self) -> bool:
        """Block until all parts answer. Returns False if a signal came first. Raises NotReadyError."""
        timeout_s = self._layout.settings.ready_timeout_s
        until_s = time.monotonic() + timeout_s
        waiting = list(self._parts)
        while not self._ending.is_set():
            waiting = [part for part in waiting if not self._is_ready(part)]
            if not waiting:
                self._remember()
                self.is_ready = True
                return True
            if time.monotonic() > until_s:
                names = " and ".join(part.title for part in waiting)
                raise NotReadyError(
                    f"{names} did not answer {waiting[0].ready_url} within {timeout_s:g} s"
                    f"{self._other_at(waiting[0])}{self._words_of(waiting[0])}",
                    hint=f"its log is in {self._layout.directory / LOGS}",
                )
            self._ending.wait(_LOOK_S)
        return False

    def watch(self) -> bool:
        """Block until a signal comes. Returns False if all native parts ended for good before."""
        while not self._ending.wait(_LOOK_S):
            with suppress(OSError):  # such as a full disk: servers go on, and the next look tries again
                self._remember()
            if self._children and all(child.ended for child in self._children.values()) and not self._compose:
                return False
        return True

    @property
    def state(self) -> StackState:
        return self._state

    # --- start -------------------------------------------------------------------------------------

    def _start(self) -> None:
        folder = self._layout.directory / LOGS
        folder.mkdir(mode=0o700, exist_ok=True)
        write_state(self._layout.directory, self._state)
        for part in self._parts:
            if part.how == "native":
                self._children[part.name] = self._child(part, part.command)
                self._remember()
        if self._in_containers:
            self._containers_began = True
            self._say(
                f"starting containers of {' and '.join(self._in_containers)}; missing images are pulled first"
            )
            self._run_compose("up", "--detach", *self._in_containers)
            self._containers_run = not self._ending.is_set()
            command = [*self._compose, "logs", "--follow", "--no-color", *self._in_containers]
            self._follower = Child("containers", command, _POLICY, self._teller("containers"))

    def _child(self, part: Part, command: Sequence[str]) -> Child:
        try:
            return Child(part.title, command, _POLICY, self._teller(part.name), folder=str(self._layout.directory))
        except OSError as error:
            raise EndpointError(f"can't start {part.title}: {describe(error)}") from error

    def _teller(self, name: str) -> Say:
        """Return the function that gets each line of a part. Messages about its end also go to the user."""
        log = self._logs.setdefault(name, LogFile(self._layout.directory / LOGS / f"{name}.log"))
        last = self._last_lines.setdefault(name, deque(maxlen=_LAST_LINES))
        own = {f"{part.title}: the {_POLICY.noun} " for part in self._parts}

        def tell(line: str) -> None:
            log.write(line)
            if any(line.startswith(prefix) for prefix in own):
                self._say(line)
                return
            last.append(line)
            self._line(name, line)

        return tell

    def _run_compose(self, *arguments: str, stops: bool = True) -> None:
        """Run a command for the containers, until a signal if it `stops`. Raises EndpointError if it fails."""
        try:
            process = Child("compose", [*self._compose, *arguments], _COMPOSE_POLICY, self._teller("compose"))
        except OSError as error:
            raise EndpointError(f"can't start {self._compose[0]}: {describe(error)}") from error
        while not process.wait(time.monotonic() + _LOOK_S):
            if stops and self._ending.is_set():
                process.ask_to_end()
        if process.code and not (stops and self._ending.is_set()):
            command = " ".join([*self._compose, arguments[0]])
            why = " / ".join(self._last_lines["compose"]) or f"exit code {process.code}"
            raise EndpointError(f"`{command}` failed: {why}")

    # --- readiness ---------------------------------------------------------------------------------

    def _is_ready(self, part: Part) -> bool:
        """Ask a part whether it is ready. Raises NotReadyError if its process has ended for good."""
        child = self._children.get(part.name)
        if child is not None and child.ended:
            raise NotReadyError(
                f"{part.title} ended with exit code {child.code} before it was ready{self._words_of(part)}",
                hint=f"its log is {self._layout.directory / LOGS / f'{part.name}.log'}",
            )
        if not answers(part.ready_url):
            return False
        return child is None or is_taken_by(child.pid, part.ports["port"])

    def _other_at(self, part: Part) -> str:
        """Return which other process answers in place of a part, for an error."""
        if part.how != "native" or not answers(part.ready_url):
            return ""
        return f"; {holder(part.ports['port']) or 'another process'} answers there"

    def _words_of(self, part: Part) -> str:
        """Return the last lines of a part, for an error."""
        lines = self._last_lines[part.name]
        return f"; its last words: {' / '.join(lines)}" if lines else ""

    # --- state -------------------------------------------------------------------------------------

    def _remember(self) -> None:
        """Write the state if it changed, for `status` and `down` in another shell."""
        state = self._state_now()
        if state != self._state:
            write_state(self._layout.directory, state)
            self._state = state

    def _state_now(self) -> StackState:
        settings, pid = self._layout.settings, os.getpid()
        tempo = next((part for part in self._parts if part.name == "tempo"), None)
        host = tempo.address.rpartition(":")[0] if tempo else ""
        return StackState(
            keeper_pid=pid,
            keeper_started=start_of(pid),
            host=socket.gethostname(),
            targets=str(self._layout.targets),
            log=str(self._layout.directory / LOGS),
            otlp=f"{host}:{settings.tempo.otlp_http_port}" if tempo else "",
            compose=list(self._compose),
            parts=[
                *(self._part_state(part) for part in self._parts),
                *(PartState(name=part.name, title=part.title, how="", why=part.why) for part in self._skipped),
            ],
        )

    def _part_state(self, part: Part) -> PartState:
        child = self._children.get(part.name)
        why, pid = "", child.pid if child else 0
        if child is not None and child.ended:
            code = child.code or 0
            why = f"it was killed by signal {-code}" if code < 0 else f"it exited with code {code}"
            pid = 0
        return PartState(
            name=part.name,
            title=part.title,
            how=part.how or "",
            why=why,
            address=part.address,
            ready_url=part.ready_url,
            pid=pid,
            process_started=start_of(pid) if pid else 0,
            restarts=child.restarts if child else 0,
        )

    # --- end ---------------------------------------------------------------------------------------

    def _end(self) -> None:
        """End all parts. A second signal kills what is left.

        The state is removed, but stays if containers can't be ended: `telemetry stack down` can end them later.
        """
        self.was_interrupted = self._ending.is_set()
        self._ending.clear()
        children = [*self._children.values(), *([self._follower] if self._follower else [])]
        for child in children:
            child.ask_to_end()
        until_s = time.monotonic() + _END_S
        while not all(child.ended for child in children) and time.monotonic() < until_s:
            if self._ending.wait(_LOOK_S / 4):
                break
        for child in children:
            child.kill()
        if self._containers_began:
            try:
                self._run_compose("down", stops=False)
                self._containers_run = False
            except TelemetryError as error:
                self._say(str(error))
        for log in self._logs.values():
            log.close()
        if not self._containers_run:
            remove_state(self._layout.directory)


def answers(url: str) -> bool:
    """Return whether an address answers with success, within two seconds."""
    try:
        with _OPENER.open(url, timeout=_ANSWER_S) as answer:
            return bool(answer.status == 200)
    except (OSError, ValueError, HTTPException):
        return False


class LogFile:
    """A log of lines, in at most two files. Thread-safe. Never raises: a full disk ends no process."""

    def __init__(self, path: Path, file_bytes: int = limits.STACK_LOG_BYTES) -> None:
        self._path = path
        self._file_bytes = file_bytes
        self._lock = threading.Lock()
        self._file: AppendFile | None = None

    def write(self, line: str) -> None:
        data = f"{line}\n".encode(errors="replace")
        with self._lock, suppress(OSError):
            if self._file is None:
                self._file = AppendFile(self._path)
            if self._file.size and self._file.size + len(data) > self._file_bytes:
                self._file.close()
                os.replace(self._path, self._path.with_suffix(".1.log"))
                self._file = AppendFile(self._path)
            self._file.append([data])

    def close(self) -> None:
        with self._lock:
            if self._file is not None:
                self._file.close()
                self._file = None
