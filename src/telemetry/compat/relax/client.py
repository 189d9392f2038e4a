"""`relax.utils.metrics.client`: the client of the metrics service.

    client = MetricsClient()
    client.log_metric(step, "train/loss", loss)
    client.report_step(step)

Without a URL, values go into the run of this process, else to the metrics service at the default address if one
answers. With a URL, they go to that service over HTTP. The logger `telemetry.compat.relax` tells where, at DEBUG.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any, Final

from telemetry import limits
from telemetry.client.catalog import check_text
from telemetry.client.locked import Locked
from telemetry.compat.relax.default_transport import DefaultTransport
from telemetry.compat.relax.http_transport import HttpTransport
from telemetry.compat.relax.native import STEP
from telemetry.compat.relax.step_buffer import Entry, Place, StepBuffer
from telemetry.compat.relax.told import refuse
from telemetry.compat.relax.values import plain_tags, plain_values, shown, step_of

_LOG: Final = logging.getLogger("telemetry.compat.relax")
REPORT_TIMEOUT_S: Final = 1.0
_OPEN_STEPS: Final = 1_024


class MetricsClient:
    """A client that holds the values of a step until `report_step`. Thread-safe. Its methods never raise.

    `report_timeout_s` is the longest time that `report_step` waits for the answer of a service.
    """

    def __init__(self, service_url: str | None = None, *, report_timeout_s: float = REPORT_TIMEOUT_S) -> None:
        self._transport = (
            HttpTransport(service_url, report_timeout_s) if service_url else DefaultTransport(report_timeout_s)
        )
        self._asked_url = (service_url or "").rstrip("/")
        self._buffer = StepBuffer()
        self._sent = _SentCounts()
        self._names: set[str] = set()
        """Names that are known to be valid."""

    def log_metric(
        self,
        step: int,
        metric_name: str,
        metric_value: Any,
        tags: Mapping[str, str] | None = None,
        immediate: bool = False,
        *,
        axis: str = STEP,
    ) -> bool:
        """Hold a value for its step; with `immediate`, record or send it at once. Return False if it is refused.

        Without `immediate` the value is recorded by `report_step`.
        """
        is_plain = type(metric_value) is float and type(metric_name) is str and type(step) is int
        if is_plain and axis is STEP and tags is None and not immediate and metric_name in self._names:
            self._buffer.add((STEP, step), ((metric_name, metric_value, None),))
            return True
        return self._log(step, [(metric_name, metric_value)], tags, immediate, axis)

    def log_metrics_batch(
        self,
        step: int,
        metrics: Mapping[str, Any],
        tags: Mapping[str, str] | None = None,
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
            refuse("log_metrics_batch", f"{shown(metrics)} is no dictionary: {error}")
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
        place = _place_or_refuse(step, STEP) if step is not None else None
        if step is None or place is not None:
            self._buffer.clear(None if place is None else place[1])

    def clear_metrics(self, step: int | None = None, *, axis: str = STEP) -> bool:
        """Forget values of a step, or of all steps, that are recorded or sent but not reported.

        Return False if there is no run, or no room in the queue.
        """
        place = _place_or_refuse(0 if step is None else step, axis)
        if place is None:
            return False
        self._sent.clear(axis, None if step is None else place[1])
        return self._transport.clear((axis, None if step is None else place[1]))

    def get_buffered_metrics_count(self, step: int | None = None) -> int:
        """Return the number of held values of a step, or of all steps."""
        place = _place_or_refuse(step, STEP) if step is not None else None
        if step is not None and place is None:
            return 0
        return self._buffer.count(None if place is None else place[1])

    def health_check(self) -> dict[str, Any]:
        """Return the state of the service or run and its backends. Wait at most five seconds, for a run one."""
        health = self._transport.health()
        _LOG.debug("health: %s", health)
        return health

    @property
    def service_url(self) -> str:
        """The address of the service that gets the values. Empty: they go into the run of this process."""
        return self._transport.url

    @property
    def open_steps(self) -> int:
        """Number of steps with values that this client has not reported."""
        return len(self._buffer.places | self._sent.places)

    def _log(
        self, step: Any, pairs: list[tuple[Any, Any]], tags: Mapping[str, str] | None, immediate: bool, axis: str
    ) -> bool:
        place = _place_or_refuse(step, axis)
        if place is None:
            return False
        try:
            words = plain_tags(tags) or None
        except Exception as error:  # noqa: BLE001 – as above
            refuse("tags", f"{shown(tags)} are no tags: {error}")
            words = None
        entries: list[Entry] = []
        names = self._names
        for name, value in pairs:
            if type(value) is float and type(name) is str and name in names:
                entries.append((name, value, words))
                continue
            found = plain_values(name, value, self._transport.to_distribution, refuse)
            entries += [(one, plain, words) for one, plain in found]
            if len(names) < limits.STEP_NAMES_KNOWN:
                names.update(one for one, _ in found)
        if not entries:
            return not pairs
        if not immediate:
            self._buffer.add(place, entries)
            return True
        taken = self._transport.put(place, entries)
        _LOG.debug("step %d: %d values are %s at once", place[1], len(entries), "taken" if taken else "refused")
        if taken:
            self._sent.add(place, len(entries))
        return taken

    def _report(self, step: Any, axis: str, *, waits: bool) -> dict[str, Any]:
        place = _place_or_refuse(step, axis)
        if place is None:
            return {"status": "error", "message": f"{shown(step)} is not a step: use an integer of 64 bits"}
        entries = self._buffer.take(place)
        number = len({(name, *sorted(tags.items())) if tags else name for name, _, tags in entries})
        answer = self._transport.report(place, entries, number + self._sent.take(place), waits=waits)
        _LOG.debug("report of step %d on the axis %s: %s", place[1], axis, answer)
        return answer


class _SentCounts(Locked):
    """Numbers of values that were sent at once, for steps that are not reported yet. The oldest are forgotten."""

    def __init__(self) -> None:
        super().__init__()
        self._counts: dict[Place, int] = {}

    def renew_lock(self) -> None:
        """Replace the lock, and forget the steps of the parent."""
        super().renew_lock()
        self._counts = {}

    def add(self, place: Place, count: int) -> None:
        """Add a number of values to a step."""
        with self._lock:
            self._counts[place] = self._counts.get(place, 0) + count
            if len(self._counts) > _OPEN_STEPS:
                del self._counts[next(iter(self._counts))]

    def take(self, place: Place) -> int:
        """Return the number of a step and forget it."""
        with self._lock:
            return self._counts.pop(place, 0)

    def clear(self, axis: str, step: int | None) -> None:
        """Forget the number of a step, or of all steps of an axis."""
        with self._lock:
            for place in [each for each in self._counts if each[0] == axis and step in (None, each[1])]:
                del self._counts[place]

    @property
    def places(self) -> set[Place]:
        """The axes and steps that have values."""
        with self._lock:
            return set(self._counts)


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
    if not _CLIENT or _CLIENT[0]._asked_url != wanted:
        _CLIENT[:] = [MetricsClient(service_url)]
    return _CLIENT[0]
