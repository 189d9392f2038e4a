"""The run of a job on a Ray cluster, as its driver sees it."""

from __future__ import annotations

import atexit
import os
import secrets
import threading
import time
from collections.abc import Mapping, Sequence, Set
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, Self

from telemetry.client import Run, start, user_warnings
from telemetry.client.process import ENDPOINT_VARIABLE, PROCESS
from telemetry.client.recording import Recording
from telemetry.config import load
from telemetry.errors import EndpointError, TelemetryError, UsageError
from telemetry.integrations.ray import names
from telemetry.integrations.ray.keys import KEYS_VARIABLE
from telemetry.integrations.ray.placement import RootPlan, actor_options
from telemetry.integrations.ray.root import RootBody
from telemetry.store.processes import start_of
from telemetry.supervise.outcome import second_best
from telemetry.supervise.run_files import RunFiles
from telemetry.supervise.writers import Writers, check_kinds, kind_of, said_when_long, with_backends
from telemetry.transport.client import ControlClient, hello
from telemetry.transport.endpoints import (
    TCP,
    is_loopback,
    is_tcp,
    refuses,
    runtime_directory,
    seen_from,
    split_key,
    with_key,
)
from telemetry.transport.keys import of_user
from telemetry.transport.subscription import Subscription
from telemetry.wire.codec import snapshot_from_json
from telemetry.wire.control import Stop
from telemetry.wire.report import Report
from telemetry.wire.snapshot import TERMINAL

if TYPE_CHECKING:
    from telemetry.wire.report import Source

_LOOK_AGAIN_S: Final = 0.2
_START_TIMEOUT_S: Final = 60.0  # Ray starts two actors, one after the other
_CALL_S: Final = 30.0  # more than a call's own timeout, for an actor that is being restarted
_LATE_S: Final = 10.0  # at the end, for the leaf of a node that has just joined
_CLOSE_S: Final = 60.0
_FOR_BACKENDS: Final = {"upstream.spans": "true"}  # backends get what the root has
_LEAVES: Final = "leaves"  # a folder of its own, so that `latest` beside the root's directory is the root


class JobRunsError(UsageError):
    """A job of this name runs on the cluster already."""


class RayRun(Recording):
    """The run of a job, made by `run`. It has the recording calls of `telemetry.start`. Any thread may use it."""

    def __init__(self, job: str, name: str, root: Any, facts: dict[str, Any], producer: Run) -> None:
        super().__init__(PROCESS)
        self.job = job
        self._name = name
        self.run_id = str(facts["run_id"])
        self.endpoint = str(facts["endpoint"])
        """Control address of the root, for processes with the keys of the run."""
        self.directory = str(facts["directory"])
        """Run directory of the root, on the driver's node."""
        self._root = root
        self._starts_root = bool(facts["pid"])
        self._producer = producer
        self._writers = Writers((), user_warnings.warn)
        self._report: Report | None = None
        self._last_facts: tuple[list[dict[str, Any]], dict[str, Any]] = [], {}
        """Facts about the leaves and the root, taken before their actors ended."""
        self._lock = threading.RLock()
        self._pid = os.getpid()
        atexit.register(self._at_exit)

    def __repr__(self) -> str:
        return f"<RayRun {self.job!r} {self.run_id}>"

    def leaves(self) -> list[dict[str, Any]]:
        """Return facts about the leaf of each node: its process, its run directory, its last error.

        After the end of the run they are those at its end. Raise EndpointError if the root's actor does not answer.
        """
        facts: list[dict[str, Any]] = self._last_facts[0] if self.finished else self._asked("leaves")
        return facts

    def root(self) -> dict[str, Any]:
        """Return facts about the root: its process, its address, the names of its nodes. Otherwise as `leaves`."""
        facts: dict[str, Any] = self._last_facts[1] if self.finished else self._asked("facts", _CALL_S)
        return facts

    def live_report(self) -> Report:
        """Return the state so far of the whole run; after its end, the result.

        Raise EndpointError if the root does not answer.

        Example:
            print(run.live_report())
        """
        if self._report is not None:
            return self._report
        return Report(snapshot=snapshot_from_json(self._asked("state")), source="status")

    def _asked(self, method: str, *arguments: float) -> Any:
        """Return the answer of the root's actor. Raises EndpointError."""
        ray = names.ray_module()
        try:
            return ray.get(getattr(self._root, method).remote(*arguments))
        except ray.exceptions.RayError as error:
            raise EndpointError(f"the root does not answer: {_lines(error)[-1]}") from error

    def result(self) -> Report:
        """Return the result: the final snapshot of the whole run, and its directory on the driver's node.

        Raises UsageError before the end of the `with` block.
        """
        if self._report is None:
            raise UsageError(f"the job {self.job!r} has no result yet", hint="call run.finish() first")
        return self._report

    def finish(self, timeout: float | None = None) -> Report:
        """End the run on all nodes and return its result. Call it before `ray.shutdown()`, which kills workers.

        Workers send what they hold, and events recorded later are in no result. It blocks for at most about
        `timeout` seconds, by default `run.drain_timeout_s` plus `emit.finish_timeout_s`, and a minute for processes
        that don't end. It never raises for a node in trouble: the report names it. A second call returns the same
        report.
        """
        with self._lock:
            if self._report is None:
                config = load().config
                usual_s = config.run.drain_timeout_s + config.emit.finish_timeout_s
                report = self._finished(usual_s if timeout is None else timeout)
                self._report = self._delivered(report, config.backends.finish_timeout_s)
                self._close()
                atexit.unregister(self._at_exit)
            return self._report

    @property
    def finished(self) -> bool:
        return self._report is not None

    @property
    def owner(self) -> bool:
        """True in the process that started the run. Its end ends the run."""
        return self._pid == os.getpid()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._producer.__exit__(kind, error, trace)
        self.finish()

    # --- the end ---------------------------------------------------------------------------------

    def _finished(self, timeout_s: float) -> Report:
        ray = names.ray_module()
        files = RunFiles(self.directory, self.run_id, self._name)
        of_producer = self._producer.finish(timeout_s)
        if self._producer.owner:  # `telemetry.start` of this process has started the root
            return of_producer
        if not self._starts_root:
            self._await_nodes()
            return end_root(self.endpoint, files, timeout_s)
        os.environ.pop(ENDPOINT_VARIABLE, None)
        if not ray.is_initialized():
            os.environ[KEYS_VARIABLE] = self._keys
            return end_root(self.endpoint, files, timeout_s)
        try:
            answer = ray.get(self._root.finish.remote("finished", timeout_s), timeout=2 * timeout_s + _CALL_S)
        except ray.exceptions.RayError as error:
            return second_best(files, None, f"the root's actor did not answer: {_lines(error)[0]}")
        return _decoded(answer)

    def _begin_writers(self, to: Sequence[str], environment: Mapping[str, str]) -> None:
        own = {**environment, KEYS_VARIABLE: self._keys}
        self._writers = Writers(to, user_warnings.warn, variables=dict.fromkeys(map(kind_of, to), own))
        self._writers.begin(self.endpoint, self.directory)

    def _delivered(self, report: Report, timeout_s: float) -> Report:
        """End the backends of a finished run and add their outcome to the report."""
        self._writers.end(timeout_s, report.snapshot.backends, said_when_long(user_warnings.warn, timeout_s))
        return with_backends(report, self._writers.stats)

    @property
    def _keys(self) -> str:
        return str(runtime_directory() / names.folder_name(self.run_id) / "keys")

    def _await_nodes(self) -> None:
        """Wait until the root has heard the leaves of all nodes, for a moment."""
        ray = names.ray_module()
        if ray.is_initialized():
            with suppress(ray.exceptions.RayError):
                ray.get(self._root.await_nodes.remote(_LATE_S), timeout=_CALL_S)

    def _close(self) -> None:
        """End all actors of the run. Warn if one is left."""
        ray = names.ray_module()
        if not ray.is_initialized():
            return
        with suppress(ray.exceptions.RayError):
            answers = [self._root.leaves.remote(), self._root.facts.remote(_CALL_S)]
            self._last_facts = tuple(ray.get(answers, timeout=_CALL_S))
        try:
            ray.get(self._root.close.remote(), timeout=_CLOSE_S)
        except ray.exceptions.RayError as error:
            user_warnings.warn(f"actors of the job {self.job} may be left on the cluster: {_lines(error)[0]}")
        ray.kill(self._root, no_restart=True)

    def _at_exit(self) -> None:
        """End a run that the program left open. This runs before Ray's own exit function, which kills workers."""
        if self.owner:
            self.finish()


def run(
    job: str,
    *,
    dir: str | os.PathLike[str] | None = None,
    leaf_dir: str | os.PathLike[str] | None = None,
    start_timeout_s: float = _START_TIMEOUT_S,
    **ray_options: Any,
) -> RayRun:
    """Start the run of a job on a Ray cluster and return it: a root here, and a leaf on each node.

    Example:
        with telemetry.integrations.ray.run("job", address="auto") as run:
            ray.get([train.remote(shard) for shard in shards])
        print(run.result())

    Call it in the driver, on a node of the cluster. Without a connection to Ray, it calls `ray.init` with
    `ray_options`. A program that calls `ray.init` itself passes `runtime_env=telemetry.integrations.ray.env(job)`
    there. Workers then record with `telemetry.series` and the like; nodes that join later get a leaf as well.

    `dir` is the parent folder of the run directory, by default the setting `run.dir`. `leaf_dir` is the one on each
    node, by default `leaves` in the same path. With TELEMETRY_ENDPOINT in the environment, the run of that address
    is the root.

    Raises UsageError for a wrong argument, or if the job runs already; EndpointError after `start_timeout_s`.
    """
    names.check_job(job)
    _connect(names.ray_module(), job, ray_options)
    return begin(job, dir=dir, leaf_dir=leaf_dir, start_timeout_s=start_timeout_s)


def begin(
    job: str,
    *,
    name: str = "",
    dir: str | os.PathLike[str] | None = None,
    leaf_dir: str | os.PathLike[str] | None = None,
    start_timeout_s: float = _START_TIMEOUT_S,
    to: Sequence[str] = (),
    environment: Mapping[str, str] | None = None,
) -> RayRun:
    """Start the run of a job in a process that is connected to Ray. Arguments and errors are those of `run`.

    `name` is the name of the run, if it is not that of the job.
    A root that is started here delivers to the backends `to`. Their writers run beside this process, with the
    variables of `environment`.
    """
    check_kinds(to)
    ray = names.ray_module()
    address = str(ray.util.get_node_ip_address())
    upstream = os.environ.get(ENDPOINT_VARIABLE, "")
    upstream = reachable_root(upstream, address, _hosts(ray)) if upstream else ""
    folder = Path(load().config.run.dir if dir is None else dir).absolute()
    if upstream and dir is None:
        folder = Path(hello(upstream).directory).parent
    plan = RootPlan(
        job=job,
        name=name or job,
        run_id=secrets.token_hex(4),
        node_id=str(ray.get_runtime_context().get_node_id()),
        address=address,
        directory=str(folder),
        leaf_directory=str(folder / _LEAVES if leaf_dir is None else Path(leaf_dir).absolute()),
        driver=(os.getpid(), start_of(os.getpid())),
        settings={**(_FOR_BACKENDS if to else {}), **names.settings_of(os.environ)},
        upstream=upstream,
        keys=load().config.security.keys_dir,
    )
    root = _root_actor(ray, plan)
    try:
        run = RayRun(job, plan.name, root, *_begun(ray, root, plan, start_timeout_s))
        if run._starts_root:
            run._begin_writers(to, environment or {})
        return run
    except BaseException:
        if not upstream:
            os.environ.pop(ENDPOINT_VARIABLE, None)
        _undo(ray, root)
        raise


def _connect(ray: Any, job: str, options: dict[str, Any]) -> None:
    """Connect this process to Ray, or check how it is connected."""
    if not ray.is_initialized():
        runtime_env = names.env(job, options.pop("runtime_env", None))
        ray.init(runtime_env=runtime_env, **options)
        return
    if options:
        raise UsageError(
            f"this process is connected to Ray already, so {', '.join(sorted(options))} can't be used",
            hint="pass them to ray.init()",
        )
    if ray.util.client.ray.is_connected():
        raise UsageError(
            "a driver that is connected with ray:// is not on the cluster",
            hint="start it on a node of the cluster, for example with `ray job submit`",
        )
    variables = ray.get_runtime_context().runtime_env.get("env_vars", {})
    other = variables.get(names.JOB_VARIABLE)
    if other is None:
        user_warnings.warn(
            "workers of this job record nothing by themselves; pass "
            f"runtime_env=telemetry.integrations.ray.env({job!r}) to ray.init()"
        )
    elif other != job:
        raise UsageError(f"ray.init() got the environment of the job {other!r}, not of {job!r}")


def _root_actor(ray: Any, plan: RootPlan) -> Any:
    """Create the actor of the root on this node. Raises UsageError if the job has one."""
    pinned = ray.util.scheduling_strategies.NodeAffinitySchedulingStrategy(plan.node_id, soft=False)
    options = {**actor_options(names.root_actor(plan.job)), "scheduling_strategy": pinned}
    try:
        return ray.remote(RootBody).options(**options).remote(plan)
    except ValueError as error:  # Ray's error for a name that is taken
        raise JobRunsError(
            f"the job {plan.job!r} runs on this Ray cluster already",
            hint="choose another name; if its driver has just ended, wait a few seconds",
        ) from error


def _begun(ray: Any, root: Any, plan: RootPlan, timeout_s: float) -> tuple[dict[str, Any], Run]:
    """Wait for the root and for the leaf of this node, and join it. Raises TelemetryError."""
    try:
        facts: dict[str, Any] = ray.get(root.facts.remote(timeout_s), timeout=timeout_s + _CALL_S)
    except ray.exceptions.RayError as error:
        raise EndpointError(f"the actor of the root did not start: {_lines(error)[0]}") from error
    if "error" in facts:
        raise EndpointError(str(facts["error"]), hint=str(facts["hint"]))
    if plan.upstream:
        welcome = hello(plan.upstream)
        facts |= {"directory": welcome.directory, "run_id": welcome.run_id}
    else:
        os.environ[ENDPOINT_VARIABLE] = names.leaf_address(plan.job, plan.node_id)
    try:
        producer = start(start_timeout_s=timeout_s)
        late = ray.get(root.await_nodes.remote(timeout_s))
    except TelemetryError as error:
        troubles = [ray.get(root.facts.remote(timeout_s)).get("trouble")]
        troubles += [leaf["error"] for leaf in ray.get(root.leaves.remote())]
        reasons = [str(reason) for reason in troubles if reason]
        raise EndpointError("; ".join([error.message, *reasons]), hint=error.hint) from error
    if late:
        user_warnings.warn(f"nodes without a leaf after {timeout_s:g} s, which is tried again: {', '.join(late)}")
    return facts, producer


def _undo(ray: Any, root: Any) -> None:
    try:
        ray.get(root.close.remote(), timeout=_CLOSE_S)
    except ray.exceptions.RayError as error:
        user_warnings.warn(f"actors of the job may be left on the cluster: {_lines(error)[0]}")
    ray.kill(root, no_restart=True)


def _hosts(ray: Any) -> set[str]:
    return {str(node["NodeManagerAddress"]) for node in ray.nodes() if node["Alive"]}


def _decoded(answer: dict[str, Any]) -> Report:
    source: Source = answer["source"]
    return Report(
        snapshot=snapshot_from_json(answer["snapshot"]), source=source, source_reason=answer["source_reason"]
    )


def _lines(error: BaseException) -> list[str]:
    return str(error).strip().splitlines() or [type(error).__name__]


def reachable_root(endpoint: str, address: str, hosts: Set[str]) -> str:
    """Return the address of a root as all nodes of the cluster reach it.

    `address` is the one of this node, `hosts` those of all nodes. Raises UsageError if the root reaches only this
    machine but there are others, KeysError for an unknown key.
    """
    plain, key = split_key(endpoint)
    if key:
        endpoint = with_key(plain, of_user().resolve(key).decode())
    if not (hosts - {address}) or (is_tcp(endpoint) and not is_loopback(endpoint)):
        return endpoint
    if is_tcp(endpoint):
        outside = seen_from(f"{TCP}0.0.0.0:{plain.rpartition(':')[2]}", f"{TCP}{_host(address)}:1")
        if not refuses(outside):
            return with_key(outside, split_key(endpoint)[1])
    raise UsageError(
        f"{endpoint} reaches only this machine, but the Ray cluster has others",
        hint="use `telemetry run --ray`, or `telemetry serve --bind tcp://ADDRESS:PORT` with keys",
    )


def end_root(endpoint: str, files: RunFiles, timeout_s: float) -> Report:
    """Ask a root to end and return its result, or the best one after `timeout_s`. Never raises."""
    newest = None
    if files.has_result():
        return second_best(files, None, "the run had ended before")
    try:
        snapshots = Subscription(seen_from(hello(endpoint).snapshots, endpoint))
    except TelemetryError as error:
        return second_best(files, None, error.message)
    with snapshots:
        try:
            with ControlClient(endpoint) as client:
                client.request(Stop(reason="finished"))
        except TelemetryError as error:
            return second_best(files, snapshots.newest, f"can't ask the root to stop: {error.message}")
        deadline = time.monotonic() + timeout_s
        while time.monotonic() < deadline:
            newest = snapshots.recv(_LOOK_AGAIN_S) or newest
            if newest is not None and newest.state in TERMINAL:
                return Report(snapshot=newest, source="pubsub")
            if newest is None and files.has_result():
                break
    return second_best(files, newest, f"the root published no final snapshot within {timeout_s:g} s")


def _host(address: str) -> str:
    return f"[{address}]" if ":" in address else address
