"""Capture of Locust: requests, durations of each endpoint, the number of users, and marks of the load test.

Locust fires its events in the process that sends the requests, so each worker of `--processes` records its own.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Mapping
from functools import cached_property
from typing import Any, Final
from weakref import WeakSet

from telemetry import limits
from telemetry.client import module_level as telemetry
from telemetry.client import records
from telemetry.client.process import PROCESS
from telemetry.client.recorders import Record
from telemetry.client.requests.kind import Requests
from telemetry.client.wall_time import monotonic_ns
from telemetry.common.formatting import number_of
from telemetry.integrations.capture.captures import Capture
from telemetry.integrations.capture.patching import Observers, Patch

_KIND: Final = "http"
_NS_PER_MS: Final = 1e6

Event = Mapping[str, Any]  # the arguments of an event of Locust


class LoadTest:
    """Recorder of the events of this process. Greenlets may call it."""

    def __init__(self) -> None:
        self._durations: dict[tuple[str, str], Record] = {}
        """Recorder of the durations of each endpoint, by request type and name."""
        self._runner: Any = None
        """Runner of the test. None in a worker: its master counts its users."""

    @cached_property
    def _requests(self) -> Requests:
        return telemetry.requests(_KIND)

    @cached_property
    def _lengths(self) -> Record:
        return telemetry.series(f"{_KIND}.response_length", "B").record

    def on_request(self, event: Event) -> None:
        """Record a request that has ended. Without a start time, it has ended just now."""
        duration_ms = event["response_time"]
        if duration_ms is None:
            telemetry.counter(f"{_KIND}.without_duration", "requests").add()
            return
        duration_ns, start_ns = round(duration_ms * _NS_PER_MS), monotonic_ns(event.get("start_time"))
        if start_ns is None:
            start_ns = time.monotonic_ns() - duration_ns
        end_ns = start_ns + duration_ns
        request = self._requests.issue(at_ns=start_ns)
        self._duration(event["request_type"], event["name"])(duration_ms, end_ns)
        if event.get("exception"):
            request.fail(_reason(event), at_ns=end_ns)
            return
        self._lengths(event.get("response_length") or 0, end_ns)
        request.complete(at_ns=end_ns)

    def _duration(self, request_type: str, name: str) -> Record:
        """Return the recorder of an endpoint's durations. Endpoints beyond the limit are called `other`."""
        record = self._durations.get((request_type, name))
        if record is None:
            is_full = len(self._durations) >= limits.IMPORTED_LABELS
            label = "other" if is_full else f"{request_type} {name}".strip()
            labels = {"name": records.clean(label, limits.LABEL_VALUE_CHARS)}
            record = telemetry.series(f"{_KIND}.duration", "ms", labels=labels).record
            if not is_full:
                self._durations[request_type, name] = record
        return record

    def on_test_start(self, event: Event) -> None:
        """Record the beginning of a test, and sample its users from now on."""
        PROCESS.ready()  # a request that ends while another greenlet attaches the process would be lost
        runner = event["environment"].runner
        if runner is None or type(runner).__name__ == "WorkerRunner":
            return
        locust, host = sys.modules["locust"], event["environment"].host
        telemetry.params({"locust": {"version": locust.__version__, "host": host or ""}})
        telemetry.mark("load test began")
        if runner is not self._runner:
            self._runner = runner
            runner.greenlet.spawn(_OBSERVERS.run, "sampling of users", self._sample_users)

    def on_spawning_complete(self, event: Event) -> None:
        """Record the end of a spawning."""
        if self._runner is not None:
            telemetry.mark(f"{number_of(event['user_count'], 'user')} spawned")

    def on_test_stop(self, event: Event) -> None:
        """Record the end of a test."""
        if self._runner is not None:
            telemetry.mark("load test ended")

    def on_quitting(self, event: Event) -> None:
        """Record the last number of users. The workers of a master report it after the end of the test."""
        self._record_users()

    def _sample_users(self) -> None:
        while True:
            self._record_users()
            sys.modules["gevent"].sleep(1.0)

    def _record_users(self) -> None:
        if self._runner is not None and _CAPTURE.is_installed:
            telemetry.gauge("users").set(self._runner.user_count)


def _reason(event: Event) -> str:
    """Return the text that the program gave, the status, or the class of the exception."""
    exception, status = event["exception"], getattr(event.get("response"), "status_code", None)
    if isinstance(exception, str) or type(exception).__name__ == "CatchResponseError":
        return str(exception)
    return f"status {status}" if (status or 0) >= 400 else type(exception).__name__


_OBSERVERS: Final = Observers("locust")
_LOAD_TEST: Final = LoadTest()
_with_listeners: Final[WeakSet[Any]] = WeakSet()
"""Objects of `locust.event.Events` that have listeners. Environments may share one."""


def _add_listeners(result: object, environment: Any, *args: object, **kwargs: object) -> None:
    events = environment.events
    if events not in _with_listeners:
        _with_listeners.add(events)
        for name in ("request", "test_start", "spawning_complete", "test_stop", "quitting"):
            getattr(events, name).add_listener(_listener(f"events.{name}", getattr(_LOAD_TEST, f"on_{name}")))


def _listener(what: str, observe: Callable[[Event], None]) -> Callable[..., None]:
    def listen(**event: Any) -> None:
        if _CAPTURE.is_installed:
            _OBSERVERS.run(what, observe, event)

    return listen


_CREATION: Final = _OBSERVERS.after(_add_listeners, "Environment")
_CAPTURE: Final = Capture({"locust.env": lambda env: [Patch(env.Environment, "__init__", _CREATION)]}, "locust")
install = _CAPTURE.install
uninstall = _CAPTURE.uninstall
