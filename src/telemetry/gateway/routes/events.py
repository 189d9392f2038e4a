"""`POST /v1/events`: events of any kind, for programs that speak no ZeroMQ."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from math import isfinite
from typing import Annotated, Any, Final, Literal, Union

from msgspec import Meta, Struct, field

from telemetry import limits
from telemetry.client.instruments import Instrument
from telemetry.client.recording import Recording
from telemetry.client.wall_time import monotonic_of
from telemetry.errors import InstrumentError
from telemetry.gateway.endpoint import Answer, Call, Endpoint, FieldProblem, Problem
from telemetry.wire.events import Labels, Name, Natural, Scalar, Step

_Unit = Annotated[str, Meta(max_length=limits.UNIT_CHARS)]
_Text = Annotated[str, Meta(max_length=limits.TEXT_CHARS)]
_AXIS: Final = "step"
_ABSOLUTE: Final = re.compile(r"/|data:|[A-Za-z][A-Za-z0-9+.-]+://")
_UNIX: Final = "times are Unix nanoseconds"


class _Event(Struct, kw_only=True, frozen=True, tag_field="type", forbid_unknown_fields=True):
    time_ns: Natural = 0
    """Unix time in nanoseconds, not before this machine started; 0: now."""


class CountEvent(_Event, tag="count", kw_only=True, frozen=True):
    """An increment of a counter."""

    name: Name
    value: float = 1.0
    unit: _Unit = ""
    labels: Labels = {}


class SampleEvent(_Event, tag="sample", kw_only=True, frozen=True):
    """A value of a series."""

    name: Name
    value: float
    unit: _Unit = ""
    labels: Labels = {}


class GaugeEvent(_Event, tag="gauge", kw_only=True, frozen=True):
    """A new value of a gauge."""

    name: Name
    value: float
    unit: _Unit = ""
    labels: Labels = {}


class ExpectEvent(_Event, tag="expect", kw_only=True, frozen=True):
    """The total that a counter or the count of a series will reach."""

    name: Name
    total: Annotated[float, Meta(ge=0, le=limits.HIGHEST_BOUND)]


class MarkEvent(_Event, tag="mark", kw_only=True, frozen=True):
    """A moment worth a line."""

    text: _Text
    labels: Labels = {}


class ParamsEvent(_Event, tag="params", kw_only=True, frozen=True):
    """Settings of the run."""

    values: Annotated[dict[Name, Scalar], Meta(max_length=limits.PARAMS_PER_RECORD)]


class StepEvent(_Event, tag="step", kw_only=True, frozen=True):
    """Values of one step. A null stands for a value that is not finite."""

    step: Step
    values: Annotated[dict[Name, float | None], Meta(max_length=limits.PARAMS_PER_RECORD)]
    axis: Name = _AXIS


class EndStepEvent(_Event, tag="end_step", kw_only=True, frozen=True):
    """The end of a step: no values for it, or for the steps before it, follow from this gateway."""

    step: Step
    axis: Name = _AXIS


class SpanEvent(_Event, tag="span", kw_only=True, frozen=True):
    """An activity with a beginning and an end, in Unix nanoseconds."""

    name: Name
    start_ns: Natural
    end_ns: Natural
    track: Annotated[str, Meta(max_length=limits.NAME_CHARS)] = ""
    labels: Labels = {}


class TextEvent(_Event, tag="text", kw_only=True, frozen=True):
    """A named text."""

    name: Name
    text: _Text
    step: Step | None = None
    axis: Name = _AXIS


class ArtifactEvent(_Event, tag="artifact", kw_only=True, frozen=True):
    """A file by reference: a URI, or an absolute path on this machine. The kind `image` is known to trackers."""

    name: Name
    uri: Annotated[str, Meta(min_length=1, max_length=limits.TEXT_CHARS)]
    kind: _Unit = ""
    step: Step | None = None
    axis: Name = _AXIS


Event = Union[  # noqa: UP007 – msgspec makes the schema from it
    CountEvent,
    SampleEvent,
    GaugeEvent,
    ExpectEvent,
    MarkEvent,
    ParamsEvent,
    StepEvent,
    EndStepEvent,
    SpanEvent,
    TextEvent,
    ArtifactEvent,
]


class Events(Struct, kw_only=True, frozen=True, forbid_unknown_fields=True):
    """A batch of events. If one of them does not fit this schema, none is recorded."""

    events: Annotated[list[Event], Meta(min_length=1, max_length=limits.GATEWAY_EVENTS)]


class RefusedEvent(Struct, kw_only=True, frozen=True):
    """An event that was not recorded. The others were."""

    index: int
    reason: str


class EventsAnswer(Struct, kw_only=True, frozen=True):
    """The outcome of a batch of events."""

    status: Literal["success", "partial", "pending"]
    """`success`: all are in the run. `partial`: all but the refused ones. `pending`: not confirmed yet."""
    message: str
    recorded: int
    refused: list[RefusedEvent] = field(default_factory=list)


async def post_events(call: Call) -> Answer:
    events: list[Any] = call.body.events
    run = call.gateway.run
    refused = await call.record(lambda: list(record_all(run.recording, events)))
    if len(refused) == len(events):
        details = [
            FieldProblem(loc=["body", "events", refusal.index], msg=refusal.reason) for refusal in refused[:100]
        ]
        raise Problem(422, f"no event was recorded: {refused[0].reason}", details)
    recorded = len(events) - len(refused)
    commit = await run.commit(call.gateway.options.confirm_within_s)
    if not commit.confirmed:
        message = f"{recorded} events are accepted; the aggregator has not confirmed them yet"
        return Answer(202, EventsAnswer(status="pending", message=message, recorded=recorded, refused=refused))
    status: Literal["success", "partial"] = "partial" if refused else "success"
    message = f"{recorded} of {len(events)} events recorded"
    if commit.dropped:
        reasons = ", ".join(f"{number} as {reason}" for reason, number in commit.dropped.items())
        message += f"; the run dropped some events that came at this moment: {reasons}"
        status = "partial"
    return Answer(200, EventsAnswer(status=status, message=message, recorded=recorded, refused=refused))


def record_all(recording: Recording, events: list[Any]) -> Iterator[RefusedEvent]:
    """Record events in order, and yield those that can't be recorded."""
    for index, event in enumerate(events):
        if event.time_ns and _at_ns(event) is None:
            reason = f"time_ns is not a time since this machine started; {_UNIX}"
        else:
            try:
                reason = _RECORD[type(event)](recording, event)
            except InstrumentError as error:
                reason = str(error)
        if reason:
            yield RefusedEvent(index=index, reason=reason)


def _at_ns(event: _Event) -> int | None:
    return monotonic_of(event.time_ns) if event.time_ns else None


def _number_problem(value: float) -> str:
    return "" if isfinite(value) else "the value is not finite"


def _positive_problem(value: float) -> str:
    return "the value is negative" if value < 0 else _number_problem(value)


def _room_problem(instrument: Instrument) -> str:
    if instrument.definition.id < limits.PRODUCER_IDS:
        return ""
    return f"this gateway has {limits.PRODUCER_IDS:,} instruments, the most there can be; use fewer labels"


def _count(recording: Recording, event: CountEvent) -> str:
    if problem := _positive_problem(event.value):
        return problem
    counter = recording.counter(event.name, event.unit, labels=event.labels)
    counter.add(event.value, _at_ns(event))
    return _room_problem(counter)


def _sample(recording: Recording, event: SampleEvent) -> str:
    if problem := _positive_problem(event.value):
        return problem
    series = recording.series(event.name, event.unit, labels=event.labels)
    series.record(event.value, _at_ns(event))
    return _room_problem(series)


def _gauge(recording: Recording, event: GaugeEvent) -> str:
    if problem := _number_problem(event.value):
        return problem
    gauge = recording.gauge(event.name, event.unit, labels=event.labels)
    gauge.set(event.value, _at_ns(event))
    return _room_problem(gauge)


def _expect(recording: Recording, event: ExpectEvent) -> str:
    if problem := _number_problem(event.total):
        return problem
    recording.expect(event.name, event.total, at_ns=_at_ns(event))
    return ""


def _mark(recording: Recording, event: MarkEvent) -> str:
    recording.mark(event.text, labels=event.labels, at_ns=_at_ns(event))
    return ""


def _params(recording: Recording, event: ParamsEvent) -> str:
    recording.params(event.values, at_ns=_at_ns(event))
    return ""


def _step(recording: Recording, event: StepEvent) -> str:
    values = {name: float("nan") if value is None else value for name, value in event.values.items()}
    recording.log(values, step=event.step, axis=event.axis, at_ns=_at_ns(event))
    return ""


def _end_step(recording: Recording, event: EndStepEvent) -> str:
    recording.end_step(event.step, axis=event.axis, at_ns=_at_ns(event))
    return ""


def _span(recording: Recording, event: SpanEvent) -> str:
    if event.end_ns < event.start_ns:
        return "the span ends before it starts"
    start_ns = monotonic_of(event.start_ns)
    if start_ns is None:
        return f"the span starts before this machine did; {_UNIX}"
    end_ns = start_ns + event.end_ns - event.start_ns
    recording.span_at(event.name, start_ns, end_ns, event.track, labels=event.labels)
    return ""


def _text(recording: Recording, event: TextEvent) -> str:
    recording.text(event.name, event.text, step=event.step, axis=event.axis, at_ns=_at_ns(event))
    return ""


def _artifact(recording: Recording, event: ArtifactEvent) -> str:
    if not _ABSOLUTE.match(event.uri):
        return "the path is relative: give an absolute path or a URI"
    recording.artifact(event.name, event.uri, event.kind, step=event.step, axis=event.axis, at_ns=_at_ns(event))
    return ""


_RECORD: Final[dict[type, Callable[[Recording, Any], str]]] = {
    CountEvent: _count,
    SampleEvent: _sample,
    GaugeEvent: _gauge,
    ExpectEvent: _expect,
    MarkEvent: _mark,
    ParamsEvent: _params,
    StepEvent: _step,
    EndStepEvent: _end_step,
    SpanEvent: _span,
    TextEvent: _text,
    ArtifactEvent: _artifact,
}

ENDPOINTS: Final = (
    Endpoint(
        "POST",
        "/v1/events",
        post_events,
        "Record events",
        {200: EventsAnswer, 202: EventsAnswer},
        description="Counts, samples, gauges, marks, params, steps, spans, texts and artifacts.",
        body=Events,
        writes=True,
    ),
)
