"""The leaves of a job, one actor on each node that the cluster has or gets, and the plan that the root is given."""

from __future__ import annotations

import os
import tempfile
import threading
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import msgspec

from telemetry.client import user_warnings
from telemetry.common.clock import backoff_s
from telemetry.errors import EndpointError, RunDirectoryError, TelemetryError
from telemetry.integrations.ray import names
from telemetry.integrations.ray.keys import take_pair
from telemetry.integrations.ray.service import RayService, raylet_pid, remove_abandoned, remove_sockets
from telemetry.store.atomic import OWNER_ONLY, write_atomic
from telemetry.transport.client import ControlClient
from telemetry.transport.endpoints import ipc_path, runtime_directory
from telemetry.transport.keys import KeyPair
from telemetry.wire.control import ExpectNodes

_PAUSE_S: Final = 1.0  # before the next attempt to start the aggregator; it doubles each time
_LONGEST_PAUSE_S: Final = 30.0
_CLOSE_S: Final = 15.0  # for leaves that still write their own result
_CALL_S: Final = 10.0  # for the answer of an actor, which may be restarted


class Placement:
    """The actors of all leaves. One thread at a time may use it."""

    def __init__(self, plan: RootPlan, folder: Path) -> None:
        """Read the list of nodes in the folder. Raises RunDirectoryError."""
        self.nodes = NodeList(folder / "nodes.json")
        self._plan = plan
        self._told: list[str] = []
        """Names of the nodes that the root knows to expect."""
        self._leaves: dict[str, Any] = {}
        """Node id → handle of the actor of its leaf."""

    def look(self, upstream: str, pair: KeyPair | None) -> None:
        """Write down new nodes, here and at the root. Then put a leaf on each.

        Raises RunDirectoryError or EndpointError if a node can't be written down. It has no leaf then: a node that
        is not written down could be lost without a trace.
        """
        alive = live_nodes()
        self.nodes.add({node_id: name for node_id, name in alive.items() if node_id not in self.nodes})
        if self._told != self.nodes.names:
            node_names = self.nodes.names
            with ControlClient(upstream) as client:
                client.request(ExpectNodes(nodes=node_names))
            self._told = node_names
        for node_id, name in alive.items():
            if node_id not in self._leaves:
                self._leaves[node_id] = self._place(node_id, name, upstream, pair)

    def facts(self) -> list[dict[str, Any]]:
        """Return the facts of all leaves whose actors answer."""
        ray = names.ray_module()
        asked = [leaf.facts.remote() for leaf in dict(self._leaves).values()]
        ready, _ = ray.wait(asked, num_returns=len(asked), timeout=_CALL_S) if asked else ([], [])
        return [answer for answer in map(_answer, ready) if answer is not None]

    def close(self) -> None:
        """End all leaves and their actors. Blocks until they are gone."""
        ray = names.ray_module()
        leaves = {**self._leaves, **self._left_behind()}
        asked = [leaf.close.remote(_CLOSE_S) for leaf in leaves.values()]
        if asked:
            ray.wait(asked, num_returns=len(asked), timeout=2 * _CLOSE_S)
        for leaf in leaves.values():
            ray.kill(leaf, no_restart=True)
        self._leaves.clear()

    def _place(self, node_id: str, node: str, upstream: str, pair: KeyPair | None) -> Any:
        ray = names.ray_module()
        plan = self._plan
        leaf = LeafPlan(
            job=plan.job,
            name=plan.name,
            run_id=plan.run_id,
            node_id=node_id,
            node=node,
            upstream=upstream,
            directory=plan.leaf_directory,
            settings=plan.settings,
            pair=pair,
        )
        pinned = ray.util.scheduling_strategies.NodeAffinitySchedulingStrategy(node_id, soft=False)
        options = {
            **actor_options(names.leaf_actor(plan.job, node_id)),
            "scheduling_strategy": pinned,
            "get_if_exists": True,  # of an earlier actor of this root
        }
        return ray.remote(LeafBody).options(**options).remote(leaf)

    def _left_behind(self) -> dict[str, Any]:
        """Return leaves that an earlier actor of this root has placed, on nodes that are gone by now."""
        ray = names.ray_module()
        leaves = {}
        for node_id in self.nodes.ids:
            if node_id not in self._leaves:
                try:
                    name = names.leaf_actor(self._plan.job, node_id)
                    leaves[node_id] = ray.get_actor(name, namespace=names.NAMESPACE)
                except ValueError:
                    continue
        return leaves


def live_nodes() -> dict[str, str]:
    """Return the live nodes of the cluster by id, with their names."""
    ray = names.ray_module()
    return {str(node["NodeID"]): names.node_name(node) for node in ray.nodes() if node["Alive"]}


def _answer(reference: Any) -> dict[str, Any] | None:
    """Return the answer of an actor, or None if it is not there at the moment."""
    ray = names.ray_module()
    try:
        answer: dict[str, Any] = ray.get(reference)
    except ray.exceptions.RayError:
        return None
    return answer


class NodeList:
    """Nodes by their id in Ray, with their names, in a file."""

    def __init__(self, path: Path) -> None:
        """Read the list, if there is one. Raises RunDirectoryError."""
        self._path = path
        self._names: dict[str, str] = {}
        try:
            self._names = msgspec.json.decode(path.read_bytes(), type=dict[str, str])
        except FileNotFoundError:
            return
        except (OSError, msgspec.MsgspecError) as error:
            raise RunDirectoryError(f"can't read the list of nodes {path}: {error}") from error

    def __contains__(self, node_id: str) -> bool:
        return node_id in self._names

    @property
    def ids(self) -> list[str]:
        return list(self._names)

    @property
    def names(self) -> list[str]:
        return sorted(self._names.values())

    def add(self, nodes: dict[str, str]) -> None:
        """Add nodes. Blocks until they are on the disk. Raises RunDirectoryError, and then adds none."""
        names = self._names | nodes
        try:
            self._path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            write_atomic(self._path, msgspec.json.encode(names), mode=OWNER_ONLY)
        except OSError as error:
            raise RunDirectoryError(f"can't write the list of nodes {self._path}: {error.strerror}") from error
        self._names = names


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
        self._service: RayService | None = None
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
        failures = 0
        while not self._closing.wait(backoff_s(failures, _PAUSE_S, _LONGEST_PAUSE_S)):
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
            failures += 1

    def _made(self) -> RayService:
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
        return RayService(folder, name, flags, owner_pid=raylet_pid(), say=self._say)

    def _say(self, text: str) -> None:
        self._error = text
        user_warnings.warn(f"node {self._plan.node}: {text}")


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


@dataclass(frozen=True, kw_only=True)
class RootPlan:
    """Facts that the root's actor needs from the driver."""

    job: str
    name: str
    """Name of the run."""
    run_id: str
    node_id: str
    """Node of the driver, where the actor runs, too."""
    address: str
    """Address of that node."""
    directory: str
    leaf_directory: str
    driver: tuple[int, int]
    """Process of the driver: pid and start in clock ticks since boot."""
    settings: dict[str, str]
    """Settings of the driver's environment, by their keys."""
    upstream: str = ""
    """Control address of a root that exists already; empty: the actor starts one."""
    keys: str = ""
    """Folder of the keys with which the driver reaches that root."""


def actor_options(name: str) -> dict[str, Any]:
    """Return the options that all actors of a job share. They outlive the driver, and Ray restarts them."""
    return {
        "name": name,
        "namespace": names.NAMESPACE,
        "lifetime": "detached",
        "num_cpus": 0,
        "max_restarts": -1,
        "max_task_retries": -1,
        "max_concurrency": 4,
        "runtime_env": names.without_hook(),
    }
