"""`POST /v1/traces` and `/v1/metrics`: OTLP over HTTP, and the recording of its bodies, which gRPC shares."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from telemetry.errors import UsageError
from telemetry.gateway.bodies import media_type
from telemetry.gateway.endpoint import JSON, Answer, Call, Endpoint, Failure, Handler, Problem
from telemetry.gateway.otlp.messages import Accepted, BadBody, Signal
from telemetry.gateway.otlp.metrics import take_metrics
from telemetry.gateway.otlp.traces import take_traces

if TYPE_CHECKING:
    from telemetry.gateway.gateway import Gateway

_PROTOBUF: Final = "application/x-protobuf"


async def post_traces(call: Call) -> Answer:
    return await _take(call, "traces")


async def post_metrics(call: Call) -> Answer:
    return await _take(call, "metrics")


async def _take(call: Call, signal: Signal) -> Answer:
    kind = media_type(call.headers)
    body, is_confirmed = await take(call.gateway, signal, call.raw, kind)
    return Answer(200 if is_confirmed else 202, body, kind)


async def take(gateway: Gateway, signal: Signal, raw: bytes, kind: str) -> tuple[bytes, bool]:
    """Record a body. Return the body of the answer, and True if the run has confirmed it. Raise Problem.

    Not confirmed means that this process keeps the events and sends them as soon as possible.
    """
    run = gateway.run

    def recorded() -> tuple[bytes, Accepted]:
        run.check_room()
        if signal == "traces":
            return take_traces(raw, kind, run.recording)
        return take_metrics(raw, kind, run.recording, gateway.metric_state)

    try:
        body, _ = await gateway.work(len(raw), recorded)
    except BadBody as error:
        raise Problem(400, str(error)) from None
    except UsageError as error:  # a package is missing
        raise Problem(501, str(error)) from None
    return body, await run.confirmed(gateway.options.confirm_within_s)


def _endpoint(path: str, handler: Handler, summary: str) -> Endpoint:
    return Endpoint(
        "POST",
        path,
        handler,
        summary,
        {200: (_PROTOBUF, JSON), 202: (_PROTOBUF, JSON), 501: Failure},
        raw_body=True,
        media_types=(_PROTOBUF, JSON),
        writes=True,
    )


ENDPOINTS: Final = (
    _endpoint("/v1/traces", post_traces, "Record spans of OpenTelemetry"),
    _endpoint("/v1/metrics", post_metrics, "Record metrics of OpenTelemetry"),
)
