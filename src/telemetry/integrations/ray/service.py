"""An aggregator in the care of an actor. It outlives the actor: the actor's successor finds it and goes on."""

from __future__ import annotations

import os
import secrets
import shutil
import signal
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Final

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from telemetry import limits
from telemetry.errors import EndpointError, RunDirectoryError, TelemetryError
from telemetry.store.atomic import OWNER_ONLY, write_atomic
from telemetry.store.live_runs import LiveRun, forget, list_live
from telemetry.store.processes import process_lives, start_of
from telemetry.supervise.aggregator import AggregatorKeeper
from telemetry.supervise.run_files import RunFiles
from telemetry.supervise.spawn import SpawnedAggregator, resume, spawn
from telemetry.transport.endpoints import ipc_path, runtime_directory
from telemetry.wire.control import Stop

_KILLED_S: Final = 10.0  # for the end of a process that was killed
_ASKED_S: Final = 2.0
_STATE_FILE: Final = "service.json"
_SOCKETS: Final = ("", ".ev", ".sn", ".rec")
_LOOK_AGAIN_S: Final = 0.02
_RAYLET_VARIABLE: Final = "RAY_RAYLET_PID"


class _ServiceState(Struct, kw_only=True, frozen=True):
    """Facts with which another actor finds the run."""

    run_id: str
    directory: str = ""
    owner_pid: int
    owner_started: int
    """Start of the owner in clock ticks since boot."""
    sockets: str = ""
    """Path of the control socket, if the service has chosen it."""


class RayService:
    """An aggregator that is started once, and resumed by every later actor of the same name.

    `folder` is private to the service and has its state. It is on the same machine as the aggregator.
    """

    def __init__(
        self,
        folder: Path,
        name: str,
        flags: Mapping[str, object],
        *,
        owner_pid: int,
        run_id: str = "",
        say: Callable[[str], object],
    ) -> None:
        """`flags` are configuration keys, as for `spawn`. The run ends with the process `owner_pid`."""
        self.folder = folder
        self.keeper: AggregatorKeeper | None = None
        self.files = RunFiles("", run_id, name)
        self._name = name
        self._flags = flags
        self._owner_pid = owner_pid
        self._say = say

    @property
    def aggregator(self) -> SpawnedAggregator | None:
        return None if self.keeper is None else self.keeper.aggregator

    @property
    def over(self) -> bool:
        """True if no aggregator runs and none will be started. Blocks on the disk."""
        if self.keeper is not None:
            return self.keeper.gone
        return bool(self.files.directory) and self.files.has_result()

    def begin(self) -> None:
        """Start the aggregator, or resume its run if there is one. Blocks until it listens.

        Raises the error that the aggregator reported, EndpointError, or RunDirectoryError.
        """
        state = self._read()
        if state is None:
            state = _ServiceState(
                run_id=self.files.run_id or secrets.token_hex(4),
                owner_pid=self._owner_pid,
                owner_started=start_of(self._owner_pid),
                sockets=str(ipc_path(str(self._flags.get("transport.bind", ""))) or ""),
            )
            self._write(state)  # before the start: an aggregator whose actor dies now is found by its run id
        directory = self._without_orphan(state)
        self.files = RunFiles(directory, state.run_id, self._name)
        if self.over:
            return
        if directory:
            aggregator = resume(
                directory, self._flags, owner_pid=self._owner_pid, timeout_s=limits.RESTART_TIMEOUT_S
            )
        else:
            aggregator = spawn(
                self._name,
                self._flags,
                owner_pid=self._owner_pid,
                timeout_s=limits.RESTART_TIMEOUT_S,
                run_id=state.run_id,
            )
        self._write(replace(state, directory=aggregator.directory))
        self.files = RunFiles.of(aggregator, ())
        self.keeper = AggregatorKeeper(aggregator, self.files, self._say)

    def end(self, patience_s: float) -> None:
        """Ask the aggregator to end its run, wait for its end for at most `patience_s`, and remove the folder.

        Then interrupt it, and kill it at last.
        """
        if self.keeper is not None:
            with suppress(TelemetryError):
                self.keeper.ask(Stop(reason="the job has ended"), _ASKED_S)
            self.keeper.release()
            process = self.keeper.aggregator.process
            for harder in (None, process.terminate, process.kill):
                if harder is not None:
                    harder()
                if _ended(process.pid, patience_s):
                    break
        shutil.rmtree(self.folder, ignore_errors=True)

    def _without_orphan(self, state: _ServiceState) -> str:
        """Kill the aggregator of an earlier actor, whose exit this process can't see. Return its run directory.

        Its journal has everything that it acknowledged, so its successor goes on with the same numbers.
        """
        live = next((run for run in list_live(runtime_directory()) if run.run_id == state.run_id), None)
        if live is not None and live.alive and not RunFiles(live.dir, live.run_id, live.name).has_result():
            _kill(live)
        return state.directory or (live.dir if live is not None else "")

    def _read(self) -> _ServiceState | None:
        try:
            return msgspec.json.decode(self._path.read_bytes(), type=_ServiceState)
        except FileNotFoundError:
            return None
        except (OSError, msgspec.MsgspecError) as error:
            raise RunDirectoryError(f"can't read {self._path}: {error}") from error

    def _write(self, state: _ServiceState) -> None:
        try:
            self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            write_atomic(self._path, msgspec.json.encode(state), mode=OWNER_ONLY)
        except OSError as error:
            raise RunDirectoryError(f"can't write {self._path}: {error.strerror}") from error

    @property
    def _path(self) -> Path:
        return self.folder / _STATE_FILE


def remove_abandoned(runtime: Path) -> None:
    """Remove private files and sockets of services whose owner and aggregator are both dead. Never raises.

    The node of such a service has died, so no actor of it comes back.
    """
    for path in runtime.glob(f"*/{_STATE_FILE}"):
        with suppress(OSError, msgspec.MsgspecError):
            state = msgspec.json.decode(path.read_bytes(), type=_ServiceState)
            if not process_lives(state.owner_pid, state.owner_started) and forget(runtime, state.run_id):
                remove_sockets(state.sockets)
                shutil.rmtree(path.parent, ignore_errors=True)


def remove_sockets(path: str) -> None:
    """Remove the sockets of a dead aggregator beside its control socket, and their locks. Raises OSError."""
    for name in (f"{path}{ending}" for ending in _SOCKETS if path):
        for file in (Path(name), Path(f"{name}.lock")):
            file.unlink(missing_ok=True)


def _kill(live: LiveRun) -> None:
    """Kill an aggregator that is no child of this process, and wait until it is gone. Raises EndpointError."""
    with suppress(ProcessLookupError):
        os.kill(live.pid, signal.SIGKILL)
    deadline = time.monotonic() + _KILLED_S
    while process_lives(live.pid, live.process_started):
        if time.monotonic() > deadline:
            raise EndpointError(f"the aggregator of process {live.pid} does not end, so its run can't be resumed")
        time.sleep(_LOOK_AGAIN_S)


def _ended(pid: int, patience_s: float) -> bool:
    deadline = time.monotonic() + patience_s
    while process_lives(pid):
        if time.monotonic() > deadline:
            return False
        time.sleep(_LOOK_AGAIN_S)
    return True


def raylet_pid() -> int:
    """Return the process of the raylet of this node, which started this worker."""
    return int(os.environ.get(_RAYLET_VARIABLE, "") or os.getppid())
