"""`POST /v1/traces` and `/v1/metrics`: OTLP over HTTP."""

from __future__ import annotations

from typing import Final

from telemetry.errors import UsageError
from telemetry.gateway.bodies import media_type
from telemetry.gateway.endpoint import JSON, Answer, Call, Endpoint, Failure, Handler, Problem
from telemetry.gateway.otlp.messages import BadBody
from telemetry.gateway.otlp.metrics import take_metrics
from telemetry.gateway.otlp.traces import take_traces

_PROTOBUF: Final = "application/x-protobuf"


async def post_traces(call: Call) -> Answer:
    return await _take(call, "traces")


async def post_metrics(call: Call) -> Answer:
    return await _take(call, "metrics")


async def _take(call: Call, what: str) -> Answer:
    run, kind = call.gateway.run, media_type(call.headers)
    try:
        if what == "traces":
            body, _ = await call.record(take_traces, call.raw, kind, run.recording)
        else:
            body, _ = await call.record(take_metrics, call.raw, kind, run.recording, call.gateway.metric_state)
    except BadBody as error:
        raise Problem(400, str(error)) from None
    except UsageError as error:  # a package is missing
        raise Problem(501, str(error)) from None
    if not await run.confirmed(call.gateway.options.confirm_within_s):
        return Answer(202, body, kind)
    return Answer(200, body, kind)


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
