"""The way of values to a metrics service: Relax's own, or a gateway."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec

from telemetry.client.steps import number
from telemetry.compat.relax.http_link import HttpLink, LinkError, parsed
from telemetry.compat.relax.native import STEP
from telemetry.compat.relax.sender import Sender, Waiting
from telemetry.compat.relax.step_buffer import Entry, Place
from telemetry.compat.relax.told import refuse
from telemetry.compat.relax.values import Events, ToDistribution, listed

_ByTags = dict[tuple[tuple[str, str], ...], dict[str, Any]]
"""Values by tags and name."""
HEALTH_S: Final = 5.0
"""Time that a service has to say how it is."""
_BATCH: Final = 5_000  # values of one request, so that a body stays far below the limit of a service


class HttpTransport:
    """The metrics service at a URL. `put` never waits; `report` waits at most `report_timeout_s`."""

    to_distribution: Final[ToDistribution] = staticmethod(listed)

    def __init__(self, url: str, report_timeout_s: float) -> None:
        self._url = parsed(url)
        self._report_timeout_s = report_timeout_s
        self._sender = Sender(self._url)
        self.url = str(url).rstrip("/")

    @property
    def refused(self) -> int:
        """Number of values that were not taken by the queue, or were refused by the service."""
        return self._sender.refused

    def put(self, place: Place, entries: Sequence[Entry]) -> bool:
        """Queue values of a step. Return False if the queue is full, or if no value can be encoded."""
        requests = _requests(place, entries)
        return bool(requests) and self._sender.put(requests)

    def report(self, place: Place, entries: Sequence[Entry], number: int, *, waits: bool = True) -> dict[str, Any]:
        """Queue the last values of a step and its report. Return the answer, or that it is pending."""
        step = place[1]
        report = Waiting("report_step", _encoded(place, wait_s=0), 0, is_awaited=waits)
        if not self._sender.put([*_requests(place, entries), report]):
            return {"status": "error", "message": f"the queue for {self._url.text} is full: step {step} is dropped"}
        answer = self._sender.wait(report, self._report_timeout_s) if waits else None
        if answer is None:
            why = "which does not answer" if self._sender.is_silent else "which has not answered yet"
            return {
                "status": "pending",
                "message": f"Step {step} with {number} metrics waits for {self._url.text}, {why}",
                "results": {},
            }
        if 200 <= answer.status < 300:
            return answer.body
        return {**answer.body, "status": "error", "message": answer.message}

    def clear(self, place: tuple[str, int | None]) -> bool:
        """Ask the service to forget values that are not reported."""
        return self._sender.put([Waiting("clear_metrics", _encoded(place), 0)])

    def health(self) -> dict[str, Any]:
        """Ask the service for its health, over a connection of its own. Wait at most HEALTH_S."""
        link = HttpLink(self._url, HEALTH_S)
        try:
            answer = link.request("GET", "health")
        except LinkError as error:
            return {"status": "error", "message": f"{self._url.text} can't be reached: {error}"}
        finally:
            link.close()
        return answer.body if answer.status == 200 else {"status": "error", "message": answer.message}

    def close(self, timeout_s: float) -> None:
        """Wait until all values are sent, at most this time. Report the values that are left."""
        self._sender.close(timeout_s)


def _requests(place: Place, entries: Sequence[Entry]) -> list[Waiting]:
    """Return the requests for values of a step: one for each set of tags."""
    by_tags: _ByTags = {}
    for name, value, tags in entries:
        batch = by_tags.setdefault(tuple(sorted(tags.items())) if tags else (), {})
        if isinstance(value, Events):
            held = batch.get(name)
            batch[name] = [*(held if isinstance(held, list) else ()), *value.events]
        elif isinstance(value, float | str):
            batch[name] = value
        elif isinstance(value.values, list):
            batch[name] = value.values
        else:
            refuse(name, "it was counted into bins, because the service was not there yet")
    try:
        return _in_bodies(place, by_tags)
    except Exception:  # noqa: BLE001 – a value may hold anything, which must not reach the program
        return _in_bodies(place, _encodable(by_tags))


def _in_bodies(place: Place, by_tags: _ByTags) -> list[Waiting]:
    requests = []
    is_single = sum(map(len, by_tags.values())) == 1
    for tags_key, values in by_tags.items():
        tags = dict(tags_key) or None
        if is_single:
            [(name, value)] = values.items()
            body = _encoded(place, metric_name=name, metric_value=value, tags=tags)
            requests.append(Waiting("log_metric", body, 1))
            continue
        names = list(values)
        for start in range(0, len(names), _BATCH):
            part = {name: values[name] for name in names[start : start + _BATCH]}
            requests.append(Waiting("log_metrics_batch", _encoded(place, metrics=part, tags=tags), len(part)))
    return requests


def _encodable(by_tags: _ByTags) -> _ByTags:
    """Return the values that can be encoded, and refuse the others, each by its name."""
    found: _ByTags = {}
    for tags, values in by_tags.items():
        for name, value in values.items():
            parts = value if isinstance(value, list) else [value]
            problems = [_problem(tags, name, part) for part in parts]
            good = [part for part, problem in zip(parts, problems, strict=True) if not problem]
            if len(good) < len(parts):
                refuse(name, next(filter(None, problems)))
            if good:
                found.setdefault(tags, {})[name] = good if isinstance(value, list) else value
    return found


def _problem(tags: tuple[tuple[str, str], ...], name: str, value: object) -> str:
    """Return why a value can't be encoded, or an empty text."""
    try:
        msgspec.json.encode((dict(tags), name, value), enc_hook=_plain)
    except Exception as error:  # noqa: BLE001 – as above
        return f"{type(error).__name__}: {error}"
    return ""


def _encoded(place: tuple[str, int | None], **fields: object) -> bytes:
    """Return a body. Numbers that are not finite become null."""
    axis, step = place
    body: Mapping[str, object] = {"step": step, **fields}
    return msgspec.json.encode(body if axis == STEP else {**body, "axis": axis}, enc_hook=_plain)


def _plain(value: Any) -> object:
    """Return a part of a timeline event as a number, or as a text."""
    try:
        return number(value)
    except Exception:  # noqa: BLE001 – an event may hold anything; it is sent as a text
        return str(value)
