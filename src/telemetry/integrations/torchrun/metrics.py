"""Metrics that a worker puts with its rank, and metrics and events of the agent."""

from __future__ import annotations

import json
import os
import signal
import time
from collections.abc import Iterator, Mapping
from typing import Any, Final

from telemetry import limits
from telemetry.client.module_level import counter, gauge, mark, series
from telemetry.client.redaction import REDACTION
from telemetry.client.wall_time import monotonic_ns
from telemetry.integrations.metric_points import PutPoint, point_recorder, unit_of

_ROUTES_KEPT: Final = 20_000  # recorders of further metrics are made at each call


class MetricRecorders:
    """The recorders of this process by group and name. Thread-safe."""

    def __init__(self, agent: Agent) -> None:
        self._agent = agent
        self._routes: dict[tuple[object, object], PutPoint] = {}
        os.register_at_fork(after_in_child=self._routes.clear)  # an agent may fork its workers, which have ranks

    def put(self, group: object, name: object, value: Any) -> None:
        """Record a value of a metric."""
        try:
            put = self._routes[group, name]
        except (KeyError, TypeError):
            put = self._new_route(group, name)
        put(value)

    def _new_route(self, group: object, name: object) -> PutPoint:
        labels = worker_labels()
        own = None
        if labels is None and group == PLATFORM_GROUP and isinstance(name, str):
            own = self._agent.recorder(name)
        put = own or point_recorder(group, name, **(labels or {}))
        try:
            if len(self._routes) < _ROUTES_KEPT:
                self._routes[group, name] = put
        except TypeError:
            pass  # a group or a name that is no text may not be hashable
        return put


def worker_labels() -> dict[str, str] | None:
    """Return the label with the rank if this process is a worker of torchrun. Return None in other processes.

    In a world of many ranks the label is left out, and all ranks share a series.
    """
    environment = os.environ
    rank = environment.get("RANK", "")
    if "TORCHELASTIC_RUN_ID" not in environment or not rank.isdecimal():
        return None
    world_size = environment.get("WORLD_SIZE", "")
    return {"rank": rank} if not world_size.isdecimal() or int(world_size) <= limits.RANKS_LABELLED else {}


PLATFORM_GROUP: Final = "torchelastic"
_STATUS_EVENT: Final = "torchelastic.worker.status."
_STATES: Final = frozenset({"unknown", "init", "healthy", "unhealthy", "stopped", "succeeded", "failed"})
_OUTCOMES: Final = frozenset({"SUCCEEDED", "FAILED", "TERMINATED"})
_COUNT_EVERY_NS: Final = 1_000_000_000
_NO_MESSAGE: Final = "<NONE>"


class Agent:
    """The state of the agent in this process and of its workers, recorded when it changes."""

    def __init__(self) -> None:
        self._host = os.uname().nodename[:200]
        self._checks = 0
        """Successful checks that are not counted yet."""
        self._counted_ns = 0
        self._checks_name = ""
        self._rendezvous_failure = ""
        self._forget_run()

    def _forget_run(self) -> None:
        self._restarts = 0
        self._states: dict[str, str] = {}
        """State of the workers, by `workers.ROLE`."""
        self._started: set[object] = set()
        """Ranks that have started since the last restart."""
        self._failed: set[tuple[object, int]] = set()
        """Rank and number of restarts of the failures that have a mark."""
        self._outcomes: dict[object, str] = {}

    # --- metrics ---------------------------------------------------------------------------------

    def recorder(self, name: str) -> PutPoint | None:
        """Return the function that takes a metric of the agent, or None for a metric that needs no other treatment.

        May raise InstrumentError.
        """
        if name.endswith("._monitor_workers.success"):
            return self._checks_recorder(name)
        if name.endswith("._monitor_workers.duration.ms"):
            return self._changes_recorder(name)
        if name.endswith((".run.success", ".run.failure")):
            return self._outcome_recorder(name.rpartition(".")[0])
        if name.startswith("workers."):
            prefix, _, field = name.rpartition(".")
            if field in _STATES and prefix != "workers":
                return self._state_recorder(prefix, field)
            return self._changes_recorder(name)
        return None

    def _checks_recorder(self, name: str) -> PutPoint:
        self._checks_name = name

        def put(value: Any) -> None:
            self._checks += 1
            if time.monotonic_ns() - self._counted_ns >= _COUNT_EVERY_NS:
                self._count_checks()

        return put

    def _count_checks(self) -> None:
        self._counted_ns = time.monotonic_ns()
        if self._checks:
            counter(self._checks_name, group=PLATFORM_GROUP).add(self._checks)
            self._checks = 0

    def _changes_recorder(self, name: str) -> PutPoint:
        changing = gauge(name, unit_of(name), labels=self._gauge_labels())
        last: Any = None

        def put(value: Any) -> None:
            nonlocal last
            if value != last:
                last = value
                changing.set(value)

        return put

    def _state_recorder(self, prefix: str, state: str) -> PutPoint:
        """Return a recorder that sets the gauge of the current state to 1, and the one of the state before to 0."""

        def put(value: Any) -> None:
            before = self._states.get(prefix)
            if before == state:
                return
            self._states[prefix] = state
            labels = self._gauge_labels()
            if before is not None:
                gauge(f"{prefix}.{before}", labels=labels).set(0)
            gauge(f"{prefix}.{state}", labels=labels).set(1)
            self._count_checks()

        return put

    def _outcome_recorder(self, prefix: str) -> PutPoint:
        """Return a recorder of the end of a run. The agent's own word, success or failure, is ignored."""
        succeeded = point_recorder(PLATFORM_GROUP, f"{prefix}.success")
        failed = point_recorder(PLATFORM_GROUP, f"{prefix}.failure")

        def put(value: Any) -> None:
            self._count_checks()
            for role_prefix, state in self._states.items():
                if state == "healthy":  # the agent was interrupted
                    gauge(f"{role_prefix}.{state}", labels=self._gauge_labels()).set(0)
            states = self._outcomes.values()
            if states and all(state == "SUCCEEDED" for state in states):
                succeeded(1)
                text = "torchrun: all workers succeeded"
            else:
                failed(1)
                text = "torchrun: workers failed" if states else "torchrun: the outcome of the workers is unknown"
            ranks = ", ".join(str(rank) for rank, state in self._outcomes.items() if state == "FAILED")
            _mark(text, {"host": self._host, "restarts": self._restarts, "failed_ranks": ranks})
            self._forget_run()

        return put

    def _gauge_labels(self) -> dict[str, str]:
        """Return labels that tell the gauges of several agents apart."""
        return {"group": PLATFORM_GROUP, "host": self._host}

    # --- events ----------------------------------------------------------------------------------

    def take_event(self, event: Any) -> None:
        """Record an event of the agent, of a worker, or of the user's program."""
        name, source = str(event.name), str(getattr(event.source, "value", event.source))
        metadata: Mapping[str, Any] = event.metadata or {}
        at_ns = monotonic_ns(event.timestamp / 1_000) if event.timestamp else None
        state = metadata.get("state")
        if not name.startswith(_STATUS_EVENT) or not isinstance(state, str):
            _mark(name, {"source": source, **_texts(metadata)}, at_ns)
        elif source == "WORKER":
            self._take_worker_event(state, metadata, at_ns)
        else:
            self._take_agent_event(state, metadata, at_ns)

    def take_failures(self, failures: Mapping[Any, Any], restarts: int) -> None:
        """Record failures of workers by rank, when the agent finds them.

        The agent ends all workers after the first failure, and counts them as failed, too. These come last.
        """
        for rank, failure in sorted(failures.items(), key=lambda item: item[1].exitcode == -signal.SIGTERM):
            self._mark_failure(
                rank, restarts, {"exit_code": failure.exitcode, "error": message_of(failure.message)}
            )

    def take_rendezvous_event(self, run_id: object, message: object, node_state: Any) -> None:
        """Record a failure of the rendezvous. The same failure may repeat with each heartbeat."""
        text = str(message)
        if getattr(node_state, "value", node_state) == "FAILED" and text != self._rendezvous_failure:
            self._rendezvous_failure = text
            _mark("rendezvous failed", {"run": run_id, "error": text})

    def _take_worker_event(self, state: str, metadata: Mapping[str, Any], at_ns: int | None) -> None:
        rank, restarts = metadata.get("global_rank"), int(metadata.get("agent_restarts") or 0)
        if state == "START":
            if rank in self._started or restarts > self._restarts:
                self._started.clear()
                reason = "a worker failed" if restarts > self._restarts else "the number of agents changed"
                _mark("workers restarted", {"restarts": restarts, "reason": reason}, at_ns)
            self._started.add(rank)
            self._restarts = restarts
            _mark("worker started", _worker_texts(metadata), at_ns)
            return
        if state in _OUTCOMES:
            self._outcomes[rank] = state
            self._restarts = restarts
        details = dict(_details(metadata))
        if state == "FAILED":
            self._mark_failure(rank, restarts, details, at_ns)
        else:
            _mark(f"worker {state.lower()}", _worker_texts(metadata) | details, at_ns)

    def _mark_failure(
        self, rank: object, restarts: int, details: Mapping[str, object], at_ns: int | None = None
    ) -> None:
        if (rank, restarts) not in self._failed:
            self._failed.add((rank, restarts))
            _mark("worker failed", {"rank": rank, "restarts": restarts, **_texts(details)}, at_ns)

    def _take_agent_event(self, state: str, metadata: Mapping[str, Any], at_ns: int | None) -> None:
        duration_ms = metadata.get("duration_ms")
        if state == "SUCCEEDED":
            return  # the agent has worked; its workers may have failed
        if isinstance(duration_ms, (int, float)):
            series(f"{state.lower()}.duration.ms", "ms", group=PLATFORM_GROUP).record(duration_ms)
        if state == "RENDEZVOUS":
            labels = {"restarts": metadata.get("agent_restarts"), "backend": metadata.get("rdzv_backend")}
            _mark("rendezvous", labels, at_ns)
        elif state == "FAILED":
            last_line = str(metadata.get("raw_error") or "").strip().rpartition("\n")[2]
            _mark("torchrun: the agent failed", {"host": self._host, "error": last_line}, at_ns)


def message_of(raw: object) -> str:
    """Return the message of a failure, which may be JSON, or a mapping with the message and a traceback."""
    message: Any = raw
    if isinstance(raw, str):
        try:
            message = json.loads(raw)
        except ValueError:
            return raw
    while isinstance(message, Mapping):
        message = message.get("message")
    text = "" if message is None else str(message)
    return "" if text == _NO_MESSAGE else text


def _mark(text: str, labels: Mapping[str, object], at_ns: int | None = None) -> None:
    """Record a mark. Mask secrets, which error messages and events of the program may contain."""
    redactor = REDACTION.redactor
    texts = {key: redactor.cut_text(str(value), limits.TEXT_CHARS) for key, value in _texts(labels).items()}
    mark(redactor.cut_text(text, limits.TEXT_CHARS), at_ns=at_ns, labels=redactor.labels(texts))


def _texts(values: Mapping[str, object]) -> dict[str, object]:
    """Return the values that say something."""
    return {key: value for key, value in values.items() if value is not None and value != ""}


def _worker_texts(metadata: Mapping[str, Any]) -> dict[str, object]:
    labels = {"rank": metadata.get("global_rank"), "restarts": metadata.get("agent_restarts")}
    return _texts(labels | {"role": metadata.get("role"), "pid": metadata.get("worker_id")})


def _details(metadata: Mapping[str, Any]) -> Iterator[tuple[str, object]]:
    """Yield exit code and error of a worker that ended."""
    try:
        more = json.loads(metadata.get("metadata") or "{}")
    except (TypeError, ValueError):
        more = {}
    exit_code = more.get("exit_code") if isinstance(more, Mapping) else None
    if isinstance(exit_code, list):  # torch puts it into a list
        exit_code = exit_code[0] if exit_code else None
    yield "exit_code", exit_code
    yield "error", message_of(metadata.get("raw_error"))
