"""`relax.utils.metrics.client`: the client of the metrics service.

    client = MetricsClient()
    client.log_metric(step, "train/loss", loss)
    client.report_step(step)

Without a URL, values go into the run of this process, else to the metrics service at the default address if one
answers. With a URL, they go to that service over HTTP. The logger `telemetry.compat.relax` tells where, at DEBUG.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping
from typing import Any, Final

from telemetry import limits
from telemetry.client.catalog import check_text
from telemetry.client.user_warnings import warn_once
from telemetry.compat.relax.http import HttpTransport, LinkError, health_of, parsed
from telemetry.compat.relax.native import NO_RUN, NativeTransport, missing_run
from telemetry.compat.relax.serve_url import get_serve_url
from telemetry.compat.relax.step_buffer import StepBuffer
from telemetry.compat.relax.values import STEP, Entry, Place, plain_tags, plain_values, refuse, shown, step_of

_LOG: Final = logging.getLogger("telemetry.compat.relax")
REPORT_TIMEOUT_S: Final = 1.0
_LOOK_AGAIN_S: Final = 5.0
_LOOK_SHARE: Final = 20.0  # a look that takes a second is repeated after 20 s at the earliest


class MetricsClient:
    """A client that holds the values of a step until `report_step`. Thread-safe. Its methods never raise.

    `report_timeout_s` is the longest time that `report_step` waits for the answer of a service.
    """

    def __init__(self, service_url: str | None = None, *, report_timeout_s: float = REPORT_TIMEOUT_S) -> None:
        self._service = HttpTransport(service_url, report_timeout_s) if service_url else None
        self._native = NativeTransport()
        self._asked_url = (service_url or "").rstrip("/")
        self._timeout_s = report_timeout_s
        self._look_again_s = 0.0
        self._buffer = StepBuffer()
        self._names: set[str] = set()
        """Names that are known to be valid."""
        self._look()

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
        if step is None:
            self._buffer.clear(None)
        elif (axis_step := _place_or_refuse(step, STEP)) is not None:
            self._buffer.clear(axis_step[1])

    def clear_metrics(self, step: int | None = None, *, axis: str = STEP) -> bool:
        """Forget values of a step, or of all steps, that are recorded or sent but not reported.

        Return False if there is no run, or no room in the queue.
        """
        axis_step = _place_or_refuse(0 if step is None else step, axis)
        if axis_step is None:
            return False
        number = None if step is None else axis_step[1]
        self._buffer.clear_sent(axis, number)
        return self._transport.clear((axis, number))

    def get_buffered_metrics_count(self, step: int | None = None) -> int:
        """Return the number of held values of a step, or of all steps."""
        if step is None:
            return self._buffer.count(None)
        axis_step = _place_or_refuse(step, STEP)
        return 0 if axis_step is None else self._buffer.count(axis_step[1])

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
    def open_steps(self) -> int:
        """Number of steps with values that this client has not reported."""
        return len(self._buffer.open_places)

    def _log(
        self, step: Any, pairs: list[tuple[Any, Any]], tags: Mapping[str, str] | None, immediate: bool, axis: str
    ) -> bool:
        axis_step = _place_or_refuse(step, axis)
        if axis_step is None:
            return False
        try:
            texts = plain_tags(tags) or None
        except Exception as error:  # noqa: BLE001 – as above
            refuse("tags", f"{shown(tags)} are no tags: {error}")
            texts = None
        entries: list[Entry] = []
        names = self._names
        for name, value in pairs:
            if type(value) is float and type(name) is str and name in names:
                entries.append((name, value, texts))
                continue
            values = plain_values(name, value, self._transport.to_distribution, refuse)
            entries += [(each, plain, texts) for each, plain in values]
            if len(names) < limits.STEP_NAMES_KNOWN:
                names.update(each for each, _ in values)
        if not entries:
            return not pairs
        if not immediate:
            self._buffer.add(axis_step, entries)
            return True
        self._warn()
        is_taken = self._transport.put(axis_step, entries)
        _LOG.debug(
            "step %d: %d values are %s at once", axis_step[1], len(entries), "taken" if is_taken else "refused"
        )
        if is_taken:
            self._buffer.count_sent(axis_step, len(entries))
        return is_taken

    def _report(self, step: Any, axis: str, *, waits: bool) -> dict[str, Any]:
        axis_step = _place_or_refuse(step, axis)
        if axis_step is None:
            return {"status": "error", "message": f"{shown(step)} is not a step: use an integer of 64 bits"}
        entries, sent = self._buffer.take(axis_step)
        count = sent + len({(name, *sorted(tags.items())) if tags else name for name, _, tags in entries})
        if waits and time.monotonic() >= self._look_again_s:
            self._look()
        self._warn()
        answer = self._transport.report(axis_step, entries, count, waits=waits)
        _LOG.debug("report of step %d on the axis %s: %s", axis_step[1], axis, answer)
        return answer

    @property
    def _transport(self) -> NativeTransport | HttpTransport:
        """The service of the URL. Without one, the run of this process if it has one, else the default service.

        A client is often made before the run, so the run wins from the moment in which it is there.
        """
        service = self._service
        return service if service is not None and (self._asked_url or missing_run()) else self._native

    def _look(self) -> None:
        """Look for the default service if there is neither a service nor a run. Wait at most HEALTH_S."""
        if self._service is not None or missing_run() != NO_RUN:
            return
        url, began_s = get_serve_url("/metrics"), time.monotonic()
        try:
            answer = health_of(parsed(url))
        except LinkError as error:
            _LOG.debug("no metrics service at %s: %s", url, error)
            return
        finally:
            now_s = time.monotonic()
            self._look_again_s = now_s + max(_LOOK_AGAIN_S, _LOOK_SHARE * (now_s - began_s))
        if answer.status == 200 and answer.body.get("status") == "healthy":
            _LOG.debug("this process has no run, so its values go to %s", url)
            self._service = HttpTransport(url, self._timeout_s)
        else:
            _LOG.debug("%s is no metrics service: %s", url, answer.message)

    def _warn(self) -> None:
        """Say once that values are dropped."""
        if self._service is None and (why := missing_run()):
            if why == NO_RUN:
                url = get_serve_url("/metrics")
                why = (
                    f"this process has no run, and no metrics service answers at {url}; start the program with "
                    "`telemetry run -- CMD`"
                )
            warn_once(f"dropped {why}", f"nothing is recorded: {why}")


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
