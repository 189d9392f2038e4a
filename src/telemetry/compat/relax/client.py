"""`relax.utils.metrics.client`: the client of the metrics service.

    client = MetricsClient()
    client.log_metric(step, "train/loss", loss)
    client.report_step(step)

Without a URL, values go into the run of this process, else to the metrics service at the default address if one
answers. With a URL, they go to that service over HTTP. The logger `telemetry.compat.relax` tells where, at DEBUG.
"""

from __future__ import annotations

import atexit
import logging
import time
from collections.abc import Mapping, Sequence
from typing import Any, Final

from telemetry import limits
from telemetry.client import user_warnings
from telemetry.client.catalog import check_text
from telemetry.client.signal_safe import LivingObjects, Locked
from telemetry.client.user_warnings import warn_once
from telemetry.common.formatting import number_of
from telemetry.compat.relax.http import HttpTransport
from telemetry.compat.relax.native import NO_RUN, NativeTransport, missing_run
from telemetry.compat.relax.serve_url import get_serve_url
from telemetry.compat.relax.values import (
    STEP,
    Entry,
    Place,
    count_lost,
    plain_values,
    refuse,
    shown,
    step_of,
    tagged,
)

_LOG: Final = logging.getLogger("telemetry.compat.relax")
REPORT_TIMEOUT_S: Final = 1.0
VALUES: Final = 100_000
"""Number of values that a client holds. Beyond it, the oldest step is dropped."""
OPEN_STEPS: Final = 1_024
"""Steps with values that were sent at once, whose counts are kept until the report."""
_LOOK_AGAIN_S: Final = 5.0
_LOOK_SHARE: Final = 20.0  # a look that takes a second is repeated after 20 s at the earliest
_Tags = Mapping[str, str] | None


class MetricsClient(Locked):
    """A client that holds the values of a step until `report_step`. Thread-safe. Its methods never raise.

    `report_timeout_s` is the longest time that `report_step` waits for the answer of a service.
    """

    def __init__(self, service_url: str | None = None, *, report_timeout_s: float = REPORT_TIMEOUT_S) -> None:
        super().__init__()
        self.asked_url = (service_url or "").rstrip("/")
        """The address that the program chose; empty if it chose none."""
        self._service = HttpTransport(service_url, report_timeout_s) if service_url else None
        self._native = NativeTransport()
        self._timeout_s = report_timeout_s
        self._look_again_s = 0.0
        self.renew_lock()
        _CLIENTS.add(self)
        self._look()

    def renew_lock(self) -> None:
        """Replace the lock, and forget the values of the parent."""
        super().renew_lock()
        self._held: dict[Place, list[Entry]] = {}
        self._count = 0
        self._sent: dict[Place, int] = {}
        """Number of values that were recorded or sent at once, for steps that are not reported."""

    def log_metric(
        self,
        step: int,
        metric_name: str,
        metric_value: Any,
        tags: _Tags = None,
        immediate: bool = False,
        *,
        axis: str = STEP,
    ) -> bool:
        """Hold a value for its step; with `immediate`, record or send it at once. Return False if it is refused.

        Without `immediate` the value is recorded by `report_step`.
        """
        return self._log(step, ((metric_name, metric_value),), tags, immediate, axis)

    def log_metrics_batch(
        self,
        step: int,
        metrics: Mapping[str, Any],
        tags: _Tags = None,
        immediate: bool = False,
        *,
        axis: str = STEP,
    ) -> bool:
        """Hold values for their step; with `immediate`, record or send them at once.

        Values that are refused are named once. Return False if no value is taken.
        """
        try:
            pairs = list(metrics.items())
        except Exception as error:  # noqa: BLE001 – the argument may be anything, which must not reach the program
            self._refuse_value("log_metrics_batch", f"{shown(metrics)} is no dictionary: {error}")
            return False
        return self._log(step, pairs, tags, immediate, axis)

    def report_step(self, step: int, *, axis: str = STEP) -> dict[str, Any]:
        """Record or send the values of a step, and close it. Return what is known about it then.

        `status` is "success", "pending" while a service has not answered, or "error". `results` has the state of
        each backend, as far as it is known. A run delivers to its backends later, and has no states yet.
        """
        return self._report(step, axis, waits=True)

    def end_step(self, step: int, *, axis: str = STEP) -> dict[str, Any]:
        """Do the same as `report_step`, without waiting for the answer of a service."""
        return self._report(step, axis, waits=False)

    def clear_buffer(self, step: int | None = None) -> None:
        """Forget the held values of a step, or all of them. Values that are recorded or sent already stay."""
        if steps := _steps_or_refuse(step):
            with self._lock:
                for place in [each for each in self._held if steps[1] in (None, each[1])]:
                    self._count -= len(self._held.pop(place))

    def clear_metrics(self, step: int | None = None, *, axis: str = STEP) -> bool:
        """Forget values of a step, or of all steps, that are recorded or sent but not reported.

        Return False if there is no run, or no room in the queue.
        """
        if (steps := _steps_or_refuse(step, axis)) is None:
            return False
        with self._lock:
            for place in [each for each in self._sent if each[0] == axis and steps[1] in (None, each[1])]:
                del self._sent[place]
        return self._transport.clear(steps)

    def get_buffered_metrics_count(self, step: int | None = None) -> int:
        """Return the number of held values of a step, or of all steps."""
        if (steps := _steps_or_refuse(step)) is None:
            return 0
        with self._lock:
            return sum(len(entries) for place, entries in self._held.items() if steps[1] in (None, place[1]))

    def health_check(self) -> dict[str, Any]:
        """Return the state of the service or run and its backends. Wait at most five seconds, for a run one."""
        self._look()
        health = self._transport.health()
        _LOG.debug("health: %s", health)
        return health

    @property
    def service_url(self) -> str:
        """The address of the service that gets the values. Empty: they go into the run of this process."""
        return self._transport.url

    @property
    def open_steps(self) -> set[Place]:
        """The axes and steps with values that this client has not reported."""
        with self._lock:
            return {*self._held, *self._sent}

    def _log(self, step: Any, pairs: Sequence[tuple[Any, Any]], tags: _Tags, immediate: bool, axis: str) -> bool:
        if (place := _place_or_refuse(step, axis)) is None:
            self._count_lost(len(pairs))
            return False
        try:
            texts = {str(key): str(value) for key, value in tags.items()} if tags else None
        except Exception as error:  # noqa: BLE001 – as above
            refuse("tags", f"{shown(tags)} are no tags: {error}")
            texts = None
        entries: list[Entry] = []
        for name, value in pairs:
            if type(value) is float and type(name) is str and name.isascii() and 0 < len(name) <= limits.NAME_CHARS:
                entries.append((name, value, texts))  # the usual value, at a tenth of the cost
            else:
                values = plain_values(name, value, self._transport.to_distribution, self._refuse_value)
                entries += [(each, plain, texts) for each, plain in values]
        if not entries:
            return not pairs
        if not immediate:
            self._hold(place, entries)
            return True
        is_taken = self._checked_transport().put(place, entries)
        _LOG.debug("step %d: %d values are %s at once", place[1], len(entries), "taken" if is_taken else "refused")
        if is_taken:
            with self._lock:
                self._sent[place] = self._sent.get(place, 0) + len(entries)
                if len(self._sent) > OPEN_STEPS:
                    del self._sent[next(iter(self._sent))]
        return is_taken

    def _refuse_value(self, name: str, why: str) -> None:
        self._count_lost(1)
        refuse(name, why)

    def _count_lost(self, count: int, *, buffer_full: bool = False) -> None:
        """Count values as `count_lost` does, unless they are those of a service."""
        if self._transport is self._native:
            count_lost(count, buffer_full=buffer_full)

    def _hold(self, place: Place, entries: list[Entry]) -> None:
        """Add values of a step. Drop the oldest step if there are too many."""
        with self._lock:
            self._held.setdefault(place, []).extend(entries)
            self._count += len(entries)
            while self._count > VALUES:
                (axis, step), oldest = next(iter(self._held.items()))
                del self._held[axis, step]
                self._count -= len(oldest)
                self._count_lost(len(oldest), buffer_full=True)
                warn_once(
                    "step buffer",
                    f"{number_of(len(oldest), 'value')} of step {step} on the axis {axis!r} were dropped, because "
                    f"more than {VALUES:,} values wait for their report. Call report_step for each step",
                )

    def _report(self, step: Any, axis: str, *, waits: bool) -> dict[str, Any]:
        if (place := _place_or_refuse(step, axis)) is None:
            return {"status": "error", "message": f"{shown(step)} is not a step: use an integer of 64 bits"}
        with self._lock:
            entries = self._held.pop(place, [])
            self._count -= len(entries)
            count = self._sent.pop(place, 0) + len({tagged(name, tags) for name, _, tags in entries})
        if waits and time.monotonic() >= self._look_again_s:
            self._look()
        answer = self._checked_transport().report(place, entries, count, waits=waits)
        _LOG.debug("report of step %d on the axis %s: %s", place[1], axis, answer)
        return answer

    @property
    def _transport(self) -> NativeTransport | HttpTransport:
        """The service of the URL. Without one, the run of this process if it has one, else the default service.

        A client is often made before the run, so the run wins from the moment in which it is there.
        """
        service = self._service
        return service if service is not None and (self.asked_url or missing_run()) else self._native

    def _checked_transport(self) -> NativeTransport | HttpTransport:
        """Return the transport of the values. Say once if they are dropped."""
        if self._service is None and (why := missing_run()):
            if why == NO_RUN:
                why = (
                    f"this process has no run, and no metrics service answers at {get_serve_url('/metrics')}; "
                    "start the program with `telemetry run -- CMD`"
                )
            warn_once(f"dropped {why}", f"nothing is recorded: {why}")
        return self._transport

    def _look(self) -> None:
        """Look for the default service if there is neither a service nor a run. Wait as long as for its health."""
        if self._service is not None or missing_run() != NO_RUN:
            return
        service, began_s = HttpTransport(get_serve_url("/metrics"), self._timeout_s), time.monotonic()
        health = service.health()
        now_s = time.monotonic()
        self._look_again_s = now_s + max(_LOOK_AGAIN_S, _LOOK_SHARE * (now_s - began_s))
        if health.get("status") == "healthy":
            _LOG.debug("this process has no run, so its values go to %s", service.url)
            self._service = service
        else:
            _LOG.debug("%s is no metrics service: %s", service.url, health)


_CLIENTS: Final[LivingObjects[MetricsClient]] = LivingObjects()


@atexit.register
def _warn_of_rest() -> None:
    """Report the values that still wait when the program ends."""
    steps = [len(entries) for client in _CLIENTS.living() for entries in list(client._held.values())]
    if steps:
        user_warnings.warn(
            f"not recorded, because report_step was not called for them: {number_of(sum(steps), 'value')} of "
            f"{number_of(len(steps), 'step')}"
        )


def _steps_or_refuse(step: Any, axis: str = STEP) -> tuple[str, int | None] | None:
    """Return an axis and a step, or no step for all; None, after a message, if one of them can't be used."""
    place = _place_or_refuse(0 if step is None else step, axis)
    return (axis, None) if place is not None and step is None else place


def _place_or_refuse(step: Any, axis: str) -> Place | None:
    """Return an axis and a step; None, after a message, if one of them can't be used."""
    try:
        if axis != STEP:
            check_text("an axis", axis, limits.NAME_CHARS)
        return axis, step_of(step)
    except Exception as error:  # noqa: BLE001 – a step may be anything, which must not reach the program
        refuse(f"step {shown(step)}", str(error))
        return None


_CLIENT: Final[list[MetricsClient]] = []


def get_metrics_client(service_url: str | None = None) -> MetricsClient:
    """Return the client of this process for a URL, or for its run. Another URL makes a new client.

    A slash at the end of the URL makes no difference.
    """
    wanted = (service_url or "").rstrip("/")
    if not _CLIENT or _CLIENT[0].asked_url != wanted:
        _CLIENT[:] = [MetricsClient(service_url)]
    return _CLIENT[0]
