"""The actor on each node of a Ray cluster. It starts and watches the leaf of this node."""

from __future__ import annotations

import os
import tempfile
import threading
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from telemetry.client import notice
from telemetry.errors import EndpointError, TelemetryError
from telemetry.integrations.ray import names
from telemetry.integrations.ray.keys import take_pair
from telemetry.integrations.ray.service import Service, raylet_pid, remove_abandoned, remove_sockets
from telemetry.transport.endpoints import ipc_path, runtime_directory
from telemetry.transport.keys import KeyPair

_PAUSE_S: Final = 1.0  # before the next attempt to start the aggregator; it doubles each time
_LONGEST_PAUSE_S: Final = 30.0


@dataclass(frozen=True, kw_only=True)
class LeafPlan:
    """Facts that a leaf needs from its root."""

    job: str
    name: str
    """Name of the root's run."""
    run_id: str
    """Id of the root's run."""
    node_id: str
    node: str
    """Name of the node."""
    upstream: str
    """Control address of the root."""
    directory: str
    """Parent folder of the leaf's run directory."""
    settings: dict[str, str]
    """Settings of the driver's environment, by their keys."""
    pair: KeyPair | None = None
    """Pair of the job, if the root has keys of its own."""


class LeafBody:
    """The body of a leaf's actor. Its thread starts the aggregator, so that no call waits for it."""

    def __init__(self, plan: LeafPlan) -> None:
        self._plan = plan
        self._error = ""
        self._closing = threading.Event()
        self._closed = False
        self._service: Service | None = None
        self._thread = threading.Thread(target=self._start, name="telemetry-leaf", daemon=True)
        self._thread.start()

    def facts(self) -> dict[str, object]:
        """Return the process and the directory of the leaf, or why there is none."""
        aggregator = self._service.aggregator if self._service is not None else None
        return {
            "node": self._plan.node,
            "pid": 0 if aggregator is None else aggregator.pid,
            "actor_pid": os.getpid(),
            "endpoint": "" if aggregator is None else aggregator.endpoint,
            "directory": "" if aggregator is None else aggregator.directory,
            "error": self._error,
        }

    def close(self, patience_s: float) -> None:
        """Wait for the end of the leaf, for at most `patience_s`, and remove its private files."""
        self._closing.set()
        self._thread.join(patience_s)
        if self._service is not None and not self._closed:
            self._service.end(patience_s)
        self._closed = True
        with suppress(OSError, TelemetryError):
            remove_sockets(str(ipc_path(self._address) or ""))

    @property
    def _address(self) -> str:
        return names.leaf_address(self._plan.job, self._plan.node_id)

    # --- the thread ------------------------------------------------------------------------------

    def _start(self) -> None:
        pause_s = _PAUSE_S
        while not self._closing.is_set():
            try:
                if self._service is None:
                    self._service = self._made()
                self._service.begin()
                self._error = ""
                return
            except TelemetryError as error:
                self._say(str(error))
            except Exception as error:  # noqa: BLE001 – thread root: this node would never get a leaf
                self._say(repr(error))
            self._closing.wait(pause_s)
            pause_s = min(2 * pause_s, _LONGEST_PAUSE_S)

    def _made(self) -> Service:
        plan = self._plan
        remove_abandoned(runtime_directory())
        folder = runtime_directory() / names.folder_name(plan.run_id, plan.node_id)
        if plan.pair is not None:
            take_pair(folder, plan.pair)
        flags = {
            **plan.settings,
            "run.dir": _usable(plan.directory),
            "transport.bind": self._address,
            "upstream.address": plan.upstream,
            "upstream.node": plan.node,
        }
        name = f"{plan.name} on {plan.node}"
        # the leaf ends with the node, whatever becomes of this actor
        return Service(folder, name, flags, owner_pid=raylet_pid(), say=self._say)

    def _say(self, text: str) -> None:
        self._error = text
        notice.warn(f"node {self._plan.node}: {text}")


def _usable(directory: str) -> str:
    """Return a folder for run directories: the given one, or a temporary one if it can't be made on this node."""
    try:
        os.makedirs(directory, exist_ok=True)
        if os.access(directory, os.W_OK | os.X_OK):
            return directory
    except OSError:
        pass
    folder = Path(tempfile.gettempdir()) / f"telemetry-runs-{os.getuid()}"
    try:
        folder.mkdir(mode=0o700, exist_ok=True)
    except OSError as error:
        raise EndpointError(f"can't make a folder for the leaf: {error.strerror}") from error
    return str(folder)
