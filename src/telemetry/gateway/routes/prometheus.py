"""`GET /prometheus`: the newest snapshot for a scrape, and service discovery for Prometheus."""

from __future__ import annotations

from typing import Final

from msgspec import Struct

from telemetry.backends.prometheus.families import families
from telemetry.backends.prometheus.formats import choose
from telemetry.backends.prometheus.text import PLAIN_TYPE
from telemetry.gateway.endpoint import Answer, Call, Endpoint, Failure
from telemetry.gateway.routes.reading import newest

PATH: Final = "/prometheus"


class TargetGroup(Struct, kw_only=True, frozen=True):
    """A group of targets, as `http_sd_configs` of Prometheus reads it."""

    targets: list[str]
    labels: dict[str, str]


async def page(call: Call) -> Answer:
    form = choose(call.headers.get("accept", ""))
    snapshot, names = newest(call), call.gateway.names
    encoded = await call.gateway.make_page(lambda: form.encode(families(snapshot, "", names)))
    return Answer(200, encoded, form.content_type)


async def targets(call: Call) -> Answer:
    welcome, options = call.gateway.run.welcome, call.gateway.options
    host = call.headers.get("host", "") or f"{options.host}:{options.port}"
    labels = {"__metrics_path__": call.mount + PATH, "run": welcome.name, "run_id": welcome.run_id}
    return Answer(200, [TargetGroup(targets=[host], labels=labels)])


_PAGE: Final = {200: PLAIN_TYPE.partition(";")[0], 503: Failure}

ENDPOINTS: Final = (
    Endpoint(
        "GET",
        PATH,
        page,
        "Scrape the newest snapshot",
        _PAGE,
        description="Prometheus text, OpenMetrics or protobuf, by the `Accept` header.",
    ),
    Endpoint("GET", "/metrics", page, "Scrape the newest snapshot", _PAGE),
    Endpoint("GET", "/metrics/", page, "Scrape the newest snapshot", _PAGE),
    Endpoint(
        "GET",
        "/prometheus/targets",
        targets,
        "Return this gateway as a target",
        {200: list[TargetGroup]},
        description="For `http_sd_configs` of Prometheus.",
    ),
)
