"""Starts an aggregator: `python -m telemetry serve` in a session of its own, told apart by its ready message."""

from __future__ import annotations

import json
import os
import select
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import IO, Final

from telemetry import limits
from telemetry.errors import ConfigError, EndpointError, RunDirectoryError, TelemetryError, UsageError
from telemetry.transport.client import hello
from telemetry.transport.endpoints import seen_from

_READY_BYTES: Final = 64 * limits.KIB
_LAST_WORDS_BYTES: Final = 4 * limits.KIB


@dataclass(frozen=True)
class Aggregator:
    """An aggregator process that this process started."""

    endpoint: str
    snapshots: str
    run_id: str
    name: str
    directory: str
    pid: int
    process: subprocess.Popen[bytes]

    @property
    def gone(self) -> bool:
        """Whether the process has ended."""
        return self.process.poll() is not None


def spawn(name: str, flags: Mapping[str, object], *, owner_pid: int, timeout_s: float) -> Aggregator:
    """Starts an aggregator and waits, at most `timeout_s`, until it listens.

    `flags` are configuration keys such as `run.dir`; None leaves a key as it is. The run ends with the process
    `owner_pid`. Raises what the aggregator reported, or EndpointError if it said nothing.
    """
    deadline = time.monotonic() + timeout_s
    reader, writer = os.pipe()
    # without -P the program's working directory would come before the standard library
    command = [sys.executable, "-P", "-m", "telemetry", "serve", f"--name={name}"]
    command += ["--ready-fd", str(writer), "--owner-pid", str(owner_pid)]
    with tempfile.TemporaryFile() as stderr, os.fdopen(reader, "rb", buffering=0) as ready:
        try:
            process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=stderr,
                pass_fds=(writer,),
                start_new_session=True,
                env=_environment(flags),
            )
        except OSError as error:
            raise EndpointError(f"{command[0]} can't be started: {error.strerror}") from error
        finally:
            os.close(writer)
        # the thread collects the exit status, so that no zombie is left and `gone` is up to date
        threading.Thread(target=process.wait, name="telemetry-reaper", daemon=True).start()
        try:
            facts = _facts(_read_line(ready, deadline), stderr, timeout_s)
            welcome = hello(str(facts["endpoint"]), max(0.1, deadline - time.monotonic()))
        except BaseException:
            process.terminate()
            raise
    return Aggregator(
        endpoint=str(facts["endpoint"]),
        snapshots=seen_from(welcome.snapshots, str(facts["endpoint"])),
        run_id=welcome.run_id,
        name=welcome.name,
        directory=welcome.directory,
        pid=process.pid,
        process=process,
    )


def _environment(flags: Mapping[str, object]) -> dict[str, str]:
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


def _facts(line: bytes, stderr: IO[bytes], timeout_s: float) -> dict[str, object]:
    try:
        facts = json.loads(line)
    except ValueError:
        facts = None
    if not isinstance(facts, dict):
        raise EndpointError(
            f"the aggregator did not get ready within {timeout_s:g} s{_last_words(stderr)}",
            hint="`python -m telemetry serve` shows what is wrong",
        )
    if "error" in facts:
        raise _reported(facts)
    return facts


def _reported(facts: dict[str, object]) -> TelemetryError:
    """The aggregator's own error, of its own class."""
    kinds = {kind.__name__: kind for kind in (ConfigError, UsageError, RunDirectoryError, EndpointError)}
    kind = kinds.get(str(facts.get("kind")), TelemetryError)
    return kind(str(facts["error"]), hint=str(facts.get("hint", "")))


def _last_words(stderr: IO[bytes]) -> str:
    size = stderr.seek(0, os.SEEK_END)
    stderr.seek(max(0, size - _LAST_WORDS_BYTES))
    lines = stderr.read().decode(errors="replace").strip().splitlines()
    return f": {lines[-1]}" if lines else ""
