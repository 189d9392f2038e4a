"""Start of an aggregator: `python -m telemetry serve` in its own session, which reports with a ready message."""

from __future__ import annotations

import json
import os
import select
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import IO, Final

from telemetry import limits
from telemetry.errors import ConfigError, EndpointError, KeysError, RunDirectoryError, TelemetryError, UsageError
from telemetry.transport.client import hello
from telemetry.transport.endpoints import seen_from
from telemetry.wire.snapshot import BackendStat

_READY_BYTES: Final = 64 * limits.KIB
_LAST_WORDS_BYTES: Final = 4 * limits.KIB
_LAST_RESPECTS_S: Final = 2.0  # for the end of a process that never became ready


@dataclass(frozen=True)
class StartConditions:
    """Settings of an aggregator's start.

    With them a successor can be started in the same way, even if this process has changed since.
    """

    environment: Mapping[str, str]
    working_directory: str | None
    owner_pid: int


@dataclass(frozen=True)
class SpawnedAggregator:
    """An aggregator process that this process started."""

    endpoint: str
    snapshots: str
    run_id: str
    name: str
    directory: str
    process: subprocess.Popen[bytes]
    conditions: StartConditions
    ending: bool = False
    """True if the aggregator resumed a run that has been asked to end."""

    @property
    def pid(self) -> int:
        return self.process.pid

    @property
    def gone(self) -> bool:
        """True if the process has ended."""
        return self.process.poll() is not None


def spawn(
    name: str,
    flags: Mapping[str, object],
    *,
    owner_pid: int,
    timeout_s: float,
    takes_name: bool = False,
    run_id: str = "",
    params: Sequence[str] = (),
    backends: Sequence[BackendStat] = (),
) -> SpawnedAggregator:
    """Start an aggregator and wait, at most `timeout_s`, until it listens.

    `flags` are configuration keys such as `run.dir`; None leaves a key unchanged. The run ends with the process
    `owner_pid`. With `takes_name`, the first producer that has a name for the run gives it that name. Without
    `run_id`, the aggregator chooses one. `params` are written as `NAME=VALUE`. `backends` are those whose writers
    the caller is about to start. The caller must wait for the returned process. Raises the error that the
    aggregator reported, or EndpointError if it reported none.
    """
    conditions = StartConditions(environment(flags), working_directory(), owner_pid)
    arguments = [f"--name={name}"] + ([f"--run-id={run_id}"] if run_id else [])
    arguments += ["--takes-name"] if takes_name else []
    arguments += [f"--param={param}" for param in params]
    arguments += [f"--backend={stat.kind}={stat.name}" for stat in backends]
    return _start(arguments, conditions, timeout_s, discard=dismiss)


def resume(directory: str, flags: Mapping[str, object], *, owner_pid: int, timeout_s: float) -> SpawnedAggregator:
    """Start an aggregator that continues the run of a directory, at the same addresses. Otherwise as `spawn`."""
    conditions = StartConditions(environment(flags), working_directory(), owner_pid)
    return _start(["--resume", directory], conditions, timeout_s, discard=_kill)


def respawn(dead: SpawnedAggregator, timeout_s: float) -> SpawnedAggregator:
    """Start a successor for the run of a dead aggregator: same directory, same addresses. Raises like `spawn`."""
    return _start(["--resume", dead.directory], dead.conditions, timeout_s, discard=_kill)


def _start(
    arguments: list[str],
    conditions: StartConditions,
    timeout_s: float,
    *,
    discard: Callable[[subprocess.Popen[bytes]], object],
) -> SpawnedAggregator:
    deadline = time.monotonic() + timeout_s
    with _launched(arguments, conditions) as (process, ready, stderr):
        try:
            facts = _facts(_read_line(ready, deadline), stderr, timeout_s, in_time=time.monotonic() < deadline)
            welcome = hello(str(facts["endpoint"]), max(0.1, deadline - time.monotonic()))
        except BaseException:
            discard(process)
            raise
    return SpawnedAggregator(
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
    arguments: list[str], conditions: StartConditions
) -> Iterator[tuple[subprocess.Popen[bytes], IO[bytes], IO[bytes]]]:
    """Start a process. Yield it with its ready pipe and stderr, which close at the end. Raises EndpointError."""
    with ExitStack() as files:
        try:
            stderr = files.enter_context(tempfile.TemporaryFile())
            reader, writer = os.pipe()
            ready = files.enter_context(os.fdopen(reader, "rb", buffering=0))
            command = [*telemetry_command(), "serve", *arguments, "--ready-fd", str(writer)]
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
            raise EndpointError(f"can't start {sys.executable}: {error.strerror}") from error
        yield process, ready, stderr


def dismiss(process: subprocess.Popen[bytes]) -> None:
    """End an aggregator whose run no process has joined.

    It is asked to end, so that it removes its addresses. Blocks briefly until it has ended, so that no zombie is
    left.
    """
    process.terminate()
    try:
        process.wait(_LAST_RESPECTS_S)
    except subprocess.TimeoutExpired:
        _kill(process)


def _kill(process: subprocess.Popen[bytes]) -> None:
    """Kill an aggregator. Asked to end, it would end a run that other processes take part in."""
    process.kill()
    process.wait()


def telemetry_command() -> list[str]:
    """Return the command of this package. Without -P, the working directory would precede the standard library."""
    return [sys.executable, "-P", "-m", "telemetry"]


def working_directory() -> str | None:
    """Return the working directory, or None if it was removed."""
    try:
        return os.getcwd()
    except OSError:  # it was removed: the started process must report that
        return None


def environment(flags: Mapping[str, object]) -> dict[str, str]:
    """Return the environment of this process plus flags as configuration variables.

    The endpoint of another run is removed. So are variables of the service manager, which manages this process and
    not the aggregator.
    """
    environ = dict(os.environ)
    for variable in ("TELEMETRY_ENDPOINT", "NOTIFY_SOCKET", "WATCHDOG_PID", "WATCHDOG_USEC"):
        environ.pop(variable, None)
    return environ | variables(flags)


def variables(flags: Mapping[str, object]) -> dict[str, str]:
    """Return flags as configuration variables, those that are not None. The items of a list stand one on a line."""
    return {
        f"TELEMETRY_{key.replace('.', '__').upper()}": _as_text(value)
        for key, value in flags.items()
        if value is not None
    }


def _as_text(value: object) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    return "\n".join(map(str, value)) if isinstance(value, list | tuple) else str(value)


def _read_line(ready: IO[bytes], deadline: float) -> bytes:
    """Read the ready message. Return an empty line if the aggregator is silent until the deadline or ends first."""
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
        how = "exited before it was ready" if in_time else f"was not ready within {timeout_s:g} s"
        raise EndpointError(
            f"the aggregator {how}{_last_words(stderr)}",
            hint="run `python -m telemetry serve` to see what is wrong",
        )
    if "error" in facts:
        raise _reported(facts)
    return facts


def _reported(facts: dict[str, object]) -> TelemetryError:
    """Rebuild the aggregator's error with its own class."""
    kinds = {kind.__name__: kind for kind in (ConfigError, UsageError, RunDirectoryError, EndpointError, KeysError)}
    kind = kinds.get(str(facts.get("kind")), TelemetryError)
    return kind(str(facts["error"]), hint=str(facts.get("hint", "")))


def _last_words(stderr: IO[bytes]) -> str:
    size = stderr.seek(0, os.SEEK_END)
    stderr.seek(max(0, size - _LAST_WORDS_BYTES))
    lines = stderr.read().decode(errors="replace").strip().splitlines()
    return f": {lines[-1]}" if lines else ""
