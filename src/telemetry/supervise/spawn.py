"""Starts an aggregator: `python -m telemetry serve` in a session of its own, told apart by its ready message."""

from __future__ import annotations

import json
import os
import select
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import IO, Final

from telemetry import limits
from telemetry.errors import ConfigError, EndpointError, KeysError, RunDirectoryError, TelemetryError, UsageError
from telemetry.transport.client import hello
from telemetry.transport.endpoints import seen_from

_READY_BYTES: Final = 64 * limits.KIB
_LAST_WORDS_BYTES: Final = 4 * limits.KIB
_LAST_RESPECTS_S: Final = 2.0  # for one that never got ready to end by itself


@dataclass(frozen=True)
class StartConditions:
    """What an aggregator was started with, so that another can be started in its place, whatever changed since."""

    environment: Mapping[str, str]
    working_directory: str | None
    owner_pid: int


@dataclass(frozen=True)
class Aggregator:
    """An aggregator process that this process started."""

    endpoint: str
    snapshots: str
    run_id: str
    name: str
    directory: str
    process: subprocess.Popen[bytes]
    conditions: StartConditions
    ending: bool = False
    """It goes on with a run that has been asked to end."""

    @property
    def pid(self) -> int:
        return self.process.pid

    @property
    def gone(self) -> bool:
        """Whether the process has ended."""
        return self.process.poll() is not None


def spawn(name: str, flags: Mapping[str, object], *, owner_pid: int, timeout_s: float) -> Aggregator:
    """Starts an aggregator and waits, at most `timeout_s`, until it listens.

    `flags` are configuration keys such as `run.dir`; None leaves a key as it is. The run ends with the process
    `owner_pid`. Somebody has to wait for the process. Raises what the aggregator reported, or EndpointError if it
    said nothing.
    """
    conditions = StartConditions(environment(flags), working_directory(), owner_pid)
    return _start([f"--name={name}"], conditions, timeout_s, discard=dismiss)


def respawn(dead: Aggregator, timeout_s: float) -> Aggregator:
    """Starts another process for the run of one that died: same directory, same addresses. Raises like `spawn`."""
    return _start(["--resume", dead.directory], dead.conditions, timeout_s, discard=_kill)


def _start(
    words: list[str],
    conditions: StartConditions,
    timeout_s: float,
    *,
    discard: Callable[[subprocess.Popen[bytes]], object],
) -> Aggregator:
    deadline = time.monotonic() + timeout_s
    with _launched(words, conditions) as (process, ready, stderr):
        try:
            facts = _facts(_read_line(ready, deadline), stderr, timeout_s, in_time=time.monotonic() < deadline)
            welcome = hello(str(facts["endpoint"]), max(0.1, deadline - time.monotonic()))
        except BaseException:
            discard(process)
            raise
    return Aggregator(
        endpoint=str(facts["endpoint"]),
        snapshots=seen_from(welcome.snapshots, str(facts["endpoint"])),
        run_id=welcome.run_id,
        name=welcome.name,
        directory=welcome.directory,
        process=process,
        conditions=conditions,
        ending=welcome.state not in ("INITIALIZE", "LIVE"),
    )


@contextmanager
def _launched(
    words: list[str], conditions: StartConditions
) -> Iterator[tuple[subprocess.Popen[bytes], IO[bytes], IO[bytes]]]:
    """A process with its ready message and its stderr, for as long as they are read. Raises EndpointError."""
    with ExitStack() as files:
        try:
            stderr = files.enter_context(tempfile.TemporaryFile())
            reader, writer = os.pipe()
            ready = files.enter_context(os.fdopen(reader, "rb", buffering=0))
            command = [*telemetry_command(), "serve", *words, "--ready-fd", str(writer)]
            command += ["--owner-pid", str(conditions.owner_pid)]
            try:
                process = subprocess.Popen(
                    command,
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.DEVNULL,
                    stderr=stderr,
                    pass_fds=(writer,),
                    start_new_session=True,
                    env=conditions.environment,
                    cwd=conditions.working_directory,
                )
            finally:
                os.close(writer)
        except OSError as error:
            raise EndpointError(f"{sys.executable} can't be started: {error.strerror}") from error
        yield process, ready, stderr


def dismiss(process: subprocess.Popen[bytes]) -> None:
    """Ends a run that nobody has heard of: asked to, it takes its addresses along. Blocks until it has ended, so
    that no zombie is left; briefly."""
    process.terminate()
    try:
        process.wait(_LAST_RESPECTS_S)
    except subprocess.TimeoutExpired:
        _kill(process)


def _kill(process: subprocess.Popen[bytes]) -> None:
    """Asked to end, the aggregator of a run that others take part in would end the run."""
    process.kill()
    process.wait()


def telemetry_command() -> list[str]:
    """Without -P the program's working directory would come before the standard library."""
    return [sys.executable, "-P", "-m", "telemetry"]


def working_directory() -> str | None:
    """None if it was removed."""
    try:
        return os.getcwd()
    except OSError:  # it was removed: whoever starts there has to say what that means
        return None


def environment(flags: Mapping[str, object]) -> dict[str, str]:
    """This process's environment, with flags as the configuration variables they stand for.

    Without another run's endpoint, and without the service manager's: it manages this process, not the aggregator.
    """
    environ = dict(os.environ)
    for variable in ("TELEMETRY_ENDPOINT", "NOTIFY_SOCKET", "WATCHDOG_PID", "WATCHDOG_USEC"):
        environ.pop(variable, None)
    for key, value in flags.items():
        if value is not None:
            text = str(value).lower() if isinstance(value, bool) else str(value)
            environ[f"TELEMETRY_{key.replace('.', '__').upper()}"] = text
    return environ


def _read_line(ready: IO[bytes], deadline: float) -> bytes:
    """What the aggregator says; empty if it says nothing in time or ends first."""
    poller = select.poll()
    poller.register(ready, select.POLLIN)
    line = b""
    while b"\n" not in line and len(line) < _READY_BYTES:
        left_ms = (deadline - time.monotonic()) * 1_000
        if left_ms <= 0 or not poller.poll(left_ms):
            break
        part = ready.read(4_096)
        if not part:
            break
        line += part
    return line


def _facts(line: bytes, stderr: IO[bytes], timeout_s: float, *, in_time: bool) -> dict[str, object]:
    try:
        facts = json.loads(line)
    except (ValueError, RecursionError):
        facts = None
    if not isinstance(facts, dict):
        how = "ended before it was ready" if in_time else f"did not get ready within {timeout_s:g} s"
        raise EndpointError(
            f"the aggregator {how}{_last_words(stderr)}",
            hint="`python -m telemetry serve` shows what is wrong",
        )
    if "error" in facts:
        raise _reported(facts)
    return facts


def _reported(facts: dict[str, object]) -> TelemetryError:
    """The aggregator's own error, of its own class."""
    kinds = {kind.__name__: kind for kind in (ConfigError, UsageError, RunDirectoryError, EndpointError, KeysError)}
    kind = kinds.get(str(facts.get("kind")), TelemetryError)
    return kind(str(facts["error"]), hint=str(facts.get("hint", "")))


def _last_words(stderr: IO[bytes]) -> str:
    size = stderr.seek(0, os.SEEK_END)
    stderr.seek(max(0, size - _LAST_WORDS_BYTES))
    lines = stderr.read().decode(errors="replace").strip().splitlines()
    return f": {lines[-1]}" if lines else ""
